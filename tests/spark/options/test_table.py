"""The table of all options is free of contradictions, and every row of it is documentation."""

from __future__ import annotations

from types import ModuleType

import pytest

from rocketpy.spark.options import connection, files, live, reading, sink, stream, table
from rocketpy.spark.options.option import Mode, Option
from rocketpy.spark.options.table import OPTIONS, REPLACED, documentation, options_of


@pytest.mark.parametrize(
    "declarations", [connection, files, live, reading, sink, stream], ids=lambda each: each.__name__.rpartition(".")[2]
)
def test_each_declaration_is_part_of_the_table(declarations: ModuleType) -> None:
    declared = [value for name, value in vars(declarations).items() if name.isupper() and isinstance(value, Option)]
    assert set(map(id, declared)) == set(map(id, declarations.OPTIONS))
    assert all(option in table.OPTIONS for option in declared)


def test_in_no_mode_has_a_name_two_meanings() -> None:
    for mode in Mode:
        names = [name.lower() for option in options_of(mode) for name in option.names]
        assert len(names) == len(set(names)), mode


def test_what_is_replaced_is_no_option() -> None:
    names = {name.lower() for option in OPTIONS for name in option.names}
    assert names.isdisjoint(name.lower() for name in REPLACED)


def test_each_option_is_for_a_mode_and_says_what_it_means_in_one_line() -> None:
    for option in OPTIONS:
        assert option.modes
        assert option.meaning.endswith(".")
        assert "\n" not in option.meaning
        assert "|" not in option.meaning + option.kind.shown


def test_every_name_and_default_is_in_the_documentation() -> None:
    rows = documentation().splitlines()[2:]
    assert len(rows) == len(OPTIONS)
    for option, row in zip(OPTIONS, rows, strict=True):
        assert all(f"`{name}`" in row for name in option.names)
    assert any("| `10000` |" in row for row in rows)
    assert any("| `true` |" in row for row in rows)
    assert any("| required |" in row for row in rows)
