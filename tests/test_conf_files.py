"""``conf/broker.conf`` and ``conf/namesrv.conf`` have every key of what their program reads, as it is by default."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rocketpy.broker.start_settings import TLS_SETTINGS, default_settings
from rocketpy.nameserver.config import NamesrvConfig, default_server_config
from rocketpy.remoting.config import TlsServerConfig
from rocketpy.settings import format_settings, setting_rows, settings_from_text

CONF = Path(__file__).resolve().parents[1] / "conf"
FILES = {
    "broker.conf": (*default_settings(), *(each() for each in TLS_SETTINGS)),
    "namesrv.conf": (NamesrvConfig(), default_server_config(), TlsServerConfig()),
}
OF_EACH_FILE = pytest.mark.parametrize(("name", "settings"), FILES.items(), ids=FILES)


@OF_EACH_FILE
def test_every_key_is_documented_with_its_default_and_unit(name: str, settings: tuple[object, ...]) -> None:
    values: dict[str, str] = {}
    comments: dict[str, str] = {}
    comment = ""
    for line in (CONF / name).read_text().splitlines():
        if match := re.match(r"#([A-Za-z0-9.]+)=(.*)$", line):
            key = match.group(1)
            assert key not in values, f"{key} is there twice"
            values[key], comments[key] = match.group(2), re.sub(r"\s+", " ", comment)
        else:
            comment = comment + line.removeprefix("#") if line.startswith("#") else ""
    assert values == dict(line.split("=", 1) for line in format_settings(*settings))
    for row in [row for each in settings for row in setting_rows(type(each))]:
        explained = comments[row.key]
        assert explained, f"{row.key} is not explained"
        assert not row.unit or row.ignored or f"Unit: {row.unit}." in explained, f"the unit of {row.key} is {row.unit}"
        assert (f"No effect here: {row.ignored}." in explained) == (row.ignored is not None), row.key


@OF_EACH_FILE
@pytest.mark.parametrize("comments_out", [True, False], ids=["as it is", "with every key"])
def test_it_changes_nothing(name: str, settings: tuple[object, ...], comments_out: bool) -> None:
    text = (CONF / name).read_text()
    loaded = settings_from_text(
        text if comments_out else re.sub(r"(?m)^#([A-Za-z0-9.]+=)", r"\1", text), name, *settings
    )
    assert format_settings(*loaded.values) == format_settings(*settings)
    assert loaded.warnings == ()
