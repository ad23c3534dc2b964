"""The tables "Client API" of ``docs/compatibility.md``: all that Java's client offers has a row, our names exist."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from rocketpy import client
from tests.java_client_api import CALLS, EXTENSIONS, SETTINGS
from tests.public_name import find_public_name

ROOT = Path(__file__).parent.parent
SECTION = (ROOT / "docs" / "compatibility.md").read_text().split("\n## Client API\n", 1)[1].split("\n## ", 1)[0]
NAME = re.compile(r"`([^`]+)`")
ABSENT = "-"


@attrs.frozen
class Row:
    """One row: the names of both sides, the default as the table has it, and the note."""

    java: tuple[str, ...]
    default: str
    ours: tuple[str, ...]
    note: str


def rows_of(title: str) -> list[Row]:
    """Return the rows of a subsection; its table has a column with defaults or none."""
    table = SECTION.split(f"\n### {title}\n", 1)[1].split("\n### ", 1)[0]
    cells = [[each.strip() for each in line.strip("|").split("|")] for line in table.splitlines() if line[:3] == "| `"]
    found = []
    for java, *default, ours, note in cells:
        assert ours == ABSENT or NAME.search(ours), f"{java}: expected names or {ABSENT}, found {ours!r}"
        assert ours != ABSENT or note, f"{java}: expected a reason"
        found.append(Row(tuple(NAME.findall(java)), "".join(default), tuple(NAME.findall(ours)), note))
    return found


CALL_ROWS, SETTING_ROWS, INTERFACE_ROWS = map(rows_of, ("Client calls", "Client settings", "Client interfaces"))
OURS = sorted({name for row in (*CALL_ROWS, *SETTING_ROWS, *INTERFACE_ROWS) for name in row.ours})


def test_every_call_of_java_has_one_row() -> None:
    named = [
        (each, call)
        for row in CALL_ROWS
        for each, call in (name.split(".") for name in row.java)
        for each in ([cls for cls in CALLS if call in CALLS[cls]] if each == "*" else [each])
    ]
    assert sorted(named) == sorted((cls, call) for cls, calls in CALLS.items() for call in calls)


def test_every_setting_of_java_has_one_row() -> None:
    named = [tuple(name.split(".")) for row in SETTING_ROWS for name in row.java]
    assert sorted(named) == sorted((cls, setting) for cls, settings in SETTINGS.items() for setting in settings)


def test_every_interface_of_java_has_one_row() -> None:
    assert sorted(name for row in INTERFACE_ROWS for name in row.java) == sorted(EXTENSIONS)


@pytest.mark.parametrize("name", OURS)
def test_our_name_is_there(name: str) -> None:
    """An attribute of a public class, a field of a configuration, or ``call(parameter)``."""
    find_public_name(name)


@pytest.mark.parametrize("row", [row for row in SETTING_ROWS if row.default], ids=lambda row: row.java[0])
def test_a_default_is_that_of_both_sides(row: Row) -> None:
    """Where ours is a field; what is no number and no truth value is compared by the tests of the configuration."""
    for name in row.java:
        cls, setting = name.split(".")
        assert str(SETTINGS[cls][setting]).lower() == row.default
    for name in row.ours:
        cls, _, field = name.partition(".")
        if cls.endswith("Config") and "(" not in field:
            default = getattr(attrs.fields(getattr(client, cls)), field).default
            if isinstance(default, bool | int | float):
                assert str(default).lower() == row.default, row.note


def test_a_default_that_is_a_number_is_in_the_table() -> None:
    """Unless there is nothing of ours to compare it with."""
    missing = [
        name
        for row in SETTING_ROWS
        for name in row.java
        if not row.default and isinstance(SETTINGS[name.split(".")[0]][name.split(".")[1]], bool | int)
        if any(each.split(".")[0].endswith("Config") for each in row.ours) and "counted" not in row.note
    ]
    assert missing == []
