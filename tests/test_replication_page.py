"""``docs/replication.md`` names every setting with its default and unit, and every row of the runtime info."""

from __future__ import annotations

import re

from rocketpy.broker.config import BrokerConfig
from rocketpy.settings import SettingRow, format_settings, setting_rows
from rocketpy.store.config import MessageStoreConfig
from tests.broker.replication.test_figures import rows_of_a_slave_with_a_slave
from tests.broker.replication.test_slave_synchronize import FIGURES_OF_A_GOOD_ROUND as FIGURES
from tests.page_text import ROOT

PAGE = (ROOT / "docs" / "replication.md").read_text()
ALWAYS_SET = {"brokerRole", "brokerId"}
FILLED_AT_THE_START = {"brokerIP2", "haListenPort"}


def table(heading: str) -> list[list[str]]:
    """Return the cells of the first table under a heading, without its head."""
    section = PAGE.split(f"\n## {heading}\n", 1)[1]
    lines = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert lines is not None
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[0].splitlines()[2:]]


def settings() -> dict[str, SettingRow]:
    return {row.key: row for each in (BrokerConfig, MessageStoreConfig) for row in setting_rows(each)}


def test_every_setting_of_replication_has_a_row_with_its_default_and_unit() -> None:
    rows = {cells[0].strip("`"): cells for cells in table("What to set")}
    honoured = {key for key, row in settings().items() if row.ignored is None}
    of_replication = {key for key in honoured if re.match(r"ha[A-Z]|slave[A-Z]|offsetCheckInSlave", key)}
    assert of_replication | ALWAYS_SET <= rows.keys()
    assert rows.keys() <= honoured | FILLED_AT_THE_START
    defaults = dict(line.split("=", 1) for line in format_settings(BrokerConfig(), MessageStoreConfig()))
    for key, (_, default, unit, *_) in rows.items():
        if key not in FILLED_AT_THE_START:
            assert default == defaults[key], key
        assert settings()[key].unit in ("", unit), key


def test_the_rows_of_the_runtime_info_are_those_of_the_code() -> None:
    named = [name for cells in table("What to watch") for name in re.findall(r"`(\w+)`", cells[0])]
    assert sorted(named) == sorted(rows_of_a_slave_with_a_slave() | FIGURES)
