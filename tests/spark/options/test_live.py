"""Declarations of `options/live.py`: each is in the table."""

from __future__ import annotations

from rocketpy.spark.options import live, table


def test_each_declaration_is_part_of_the_table() -> None:
    assert all(option in table.OPTIONS for option in live.OPTIONS)
    declared = [value for name, value in vars(live).items() if name.isupper() and hasattr(value, "meaning")]
    assert set(map(id, declared)) == set(map(id, live.OPTIONS))
