"""``SECURITY.md``: every limit it lists exists with the value that it gives, and no limit of the code is missing."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from rocketpy.broker.config import BrokerConfig
from rocketpy.remoting.config import NettyServerConfig
from rocketpy.remoting.hub import UNFINISHED_SIZE
from rocketpy.settings import setting_rows
from tests.settings_table import CLASSES

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "SECURITY.md").read_text()
HEAD = ["what", "bound", "setting or constant", "beyond it"]
FLOORS = ("broker", "nameserver", "protocol", "remoting", "store")
NO_LIMIT_OF_A_PEER = {
    "BODY_SIZE_MAX": "the default of clientBodyBytesMax",
    "CERTIFICATE_SIZE_MAX": "of the operator's files",
    "DELAY_LEVELS_MAX": "of the operator's settings",
    "EXT_ADDRESS_MAX": "a file format",
    "EXT_UNIT_SIZE_MAX": "a file format",
    "FILES_PER_FLUSH_MAX": "a step of our own work",
    "FILES_PER_RUN_MAX": "a step of our own work",
    "GAP_MAX": "a step of our own work",
    "GROUPS_MAX": "of the operator's command line",
    "INT32_MAX": "a number's range",
    "KEY_SIZE_MAX": "a frame format",
    "LINES_MAX": "lines of the log about one request",
    "PIECE_ITEMS_MAX": "a step of our own work",
    "PLAIN_TOPICS_MAX": "a cache of topics that need no check",
    "PORT_MAX": "a number's range",
    "QUEUE_ID_MAX": "a file format",
    "QUEUES_PER_FLUSH_MAX": "a step of our own work",
    "READ_HEADER_MAX": "a longer header takes the general path",
    "READ_PROPERTIES_MAX": "more properties take the general path",
    "RECORD_SIZE_MAX": "a file format",
    "RETRY_SECONDS_MAX": "the backoff of a delivery",
    "ROUND_SECONDS_MAX": "a step of our own work",
    "SAMPLES_MAX": "of our own figures",
    "SHOWN_MAX": "of what an answer repeats",
    "SLOW_BURSTS_MAX": "of our own figures",
    "STEP_MAX": "a step of our own work",
    "TEXT_SIZE_MAX": "of the store's own files",
    "TOPICS_MAX": "the default of topicsPerBrokerMax",
}
"""Constants that end in _MAX and need no row, and why."""


def table() -> list[list[str]]:
    """The rows of the table of limits."""
    section = PAGE.split("\n## Limits\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    head, line, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    assert head == HEAD
    assert set("".join(line)) == {"-"}
    return rows


def constants() -> dict[str, list[tuple[str, object]]]:
    """The constants of every module by name, with the module and the value."""
    found: dict[str, list[tuple[str, object]]] = {}
    for path in sorted((ROOT / "rocketpy").rglob("*.py")):
        floor = path.relative_to(ROOT).parts[1]
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if floor in ("spark", "cli", "testing") or path.stem == "__init__":
            continue
        for node in ast.parse(path.read_text()).body:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if _has_value(node) else []
            for target in targets:
                if isinstance(target, ast.Name) and target.id.isupper():
                    value = getattr(importlib.import_module(module), target.id)
                    found.setdefault(target.id, []).append((module, value))
    return found


def _has_value(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and node.value is not None


def settings() -> dict[str, object]:
    """The default of every setting by its key."""
    return {row.key: row.default for each in CLASSES.values() for row in setting_rows(each) if row.ignored is None}


def forms_of(name: str, value: object) -> list[str]:
    """How a value may stand in the table."""
    assert isinstance(value, int | float), name
    forms = [f"{value:,}"]
    if isinstance(value, int):
        forms += [
            f"{value >> shift} {unit}" for shift, unit in ((20, "MiB"), (10, "KiB")) if value >> shift << shift == value
        ]
    seconds = value / 1000 if "_MS" in name else value if "SECONDS" in name.upper() else None
    if seconds is not None:
        forms += [f"{seconds:g} s", f"{seconds * 1000:g} ms", f"{seconds / 60:g} minutes"]
        forms += {60.0: ["one a minute"], 3600.0: ["one an hour"]}.get(float(seconds), [])
    return forms


CONSTANTS = constants()
SETTINGS = settings()
NOT_A_NUMBER_OF_THE_TABLE = {
    "writeBufferHighWaterMark": "0 is RocketMQ's default, which is 1 MiB here",
    "BODY_BYTES_MAX": "a frame less its header",
    "QUERY_BYTES_MAX": "a frame less its header",
}


def test_rows_are_sorted_by_their_subject_and_none_is_there_twice() -> None:
    subjects = [row[0].casefold() for row in table()]
    assert subjects == sorted(set(subjects))


@pytest.mark.parametrize("row", table(), ids=lambda row: row[0])
def test_every_limit_exists_and_has_the_value_of_its_row(row: list[str]) -> None:
    assert len(row) == len(HEAD)
    assert all(row)
    names = re.findall(r"`([^`]+)`", row[2])
    assert names, f"{row[0]}: no setting and no constant is named"
    for name in names:
        values = [SETTINGS[name]] if name in SETTINGS else [value for _, value in CONSTANTS.get(name, [])]
        assert values, f"{row[0]}: there is no setting and no constant {name}"
        if name in NOT_A_NUMBER_OF_THE_TABLE:
            continue
        possible = [form for value in values for form in forms_of(name, value)]
        assert any(re.search(rf"(?<![\d,.]){re.escape(form)}(?![\d,]*\d)", row[1]) for form in possible), (
            f"{row[0]}: {name} is {values}, which is not in {row[1]!r}"
        )


def test_every_limit_of_the_code_has_a_row() -> None:
    named = {name for row in table() for name in re.findall(r"`([^`]+)`", row[2])}
    limits = {
        name
        for name, places in CONSTANTS.items()
        for module, _ in places
        if name.endswith("_MAX") and not name.startswith("_")
        if module.split(".")[1] in FLOORS and ".inspection" not in module
    }
    assert sorted(limits - named - NO_LIMIT_OF_A_PEER.keys()) == []
    assert sorted(NO_LIMIT_OF_A_PEER.keys() - limits) == [], "these are no constants any more"
    ours = {key for key in SETTINGS if key.endswith("Max") and key[0].islower()}
    assert sorted(ours - named) == [], "settings that are limits and have no row"


def test_sums_over_connections_are_what_the_bounds_make() -> None:
    """Those that no bound of the table is for."""
    mebibyte = 1 << 20
    settings = NettyServerConfig()
    sums = [
        settings.connections_max * 2 * UNFINISHED_SIZE / mebibyte,
        settings.connections_max * (32 + 16) * 1024 / mebibyte,
        BrokerConfig().sends_waiting_for_disk_max * 0.6 * 1024 / mebibyte,
    ]
    assert "32 KiB of sends, 16 KiB of pulls" in PAGE
    listed = [int(each) for each in re.findall(r"^- (\d+) MiB of", PAGE, re.MULTILINE)]
    assert len(listed) == len(sums)
    assert all(0 <= page - real < 20 for page, real in zip(listed, sums, strict=True)), sums
