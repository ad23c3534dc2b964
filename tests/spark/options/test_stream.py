"""Declarations of `options/stream.py`: each is in the table."""

from __future__ import annotations

from rocketpy.spark.options import stream, table


def test_each_declaration_is_part_of_the_table() -> None:
    assert all(option in table.OPTIONS for option in stream.OPTIONS)
    declared = [value for name, value in vars(stream).items() if name.isupper() and hasattr(value, "meaning")]
    assert set(map(id, declared)) == set(map(id, stream.OPTIONS))
