"""The names of parametrised cases: what is shown of a value, and that nothing in it differs between two runs."""

from __future__ import annotations

import enum
import re

import attrs
import pytest

from rocketpy.errors import StoreError
from tests.case_names import LENGTH_MAX, pytest_make_parametrize_id


class Color(enum.Enum):
    RED = 1


@attrs.frozen
class Point:
    x: int
    y: int = 0
    names: list[str] = attrs.field(factory=list)


class Thing:
    pass


CASES: list[tuple[object, str]] = [
    ({"a": 1, "b": "two"}, "a=1,b=two"),
    ([1, "two", None], "1,two,None"),
    ([{"a": 1, "b": 2}, int], "a=1,b=2,int"),
    ({"c", "a", "b"}, "a,b,c"),
    ({}, "empty"),
    (StoreError("gone", path="p"), "StoreError: gone (p)"),
    (Point(1), "Point(1)"),
    (Point(1, Color.RED, ["n"]), "Point(1,Color.RED,n)"),  # type: ignore[arg-type]
    (lambda file: file.read(7), "read"),
    (b"KEYS\x01k\x02TAGS\x01t", "KEYS=k;TAGS=t"),
    (b"\0\0\xff", "0000ff"),
    (bytes(range(6)) + b"\xff\xfe\xfd", "000102030405fffe.. of 9 bytes"),
    ("x" * 32_769, "x*32769"),
    (b"x" * 100, "x*100"),
    ("ab" * 9 + " and more", "ab*9 and more"),
]


@pytest.mark.parametrize(("value", "name"), CASES, ids=[name for _, name in CASES])
def test_a_value_is_shown(pytestconfig: pytest.Config, value: object, name: str) -> None:
    assert pytest_make_parametrize_id(pytestconfig, value, "argument") == name


@pytest.mark.parametrize(
    "value", ["a short text", 7, None, True, 1.5, Color.RED, re.compile("x"), int, len, test_a_value_is_shown]
)
def test_what_pytest_names_well_is_left_to_it(pytestconfig: pytest.Config, value: object) -> None:
    assert pytest_make_parametrize_id(pytestconfig, value, "argument") is None


def test_a_name_is_the_same_in_each_process_short_and_plain_text(pytestconfig: pytest.Config) -> None:
    assert pytest_make_parametrize_id(pytestconfig, Thing(), "thing") == f"<{__name__}.Thing object>"
    long = pytest_make_parametrize_id(pytestconfig, [*range(1000)], "numbers")
    assert long is not None
    assert (len(long), long[:6], long[-7:]) == (LENGTH_MAX, "0,1,2,", "998,999")
    assert pytest_make_parametrize_id(pytestconfig, ["\0", "ü\n"], "texts") == "\\x00,\\xfc\\n"
