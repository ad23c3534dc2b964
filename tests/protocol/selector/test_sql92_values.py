"""Numbers as Java reads and compares them."""

from __future__ import annotations

import math

import pytest

from rocketpy.protocol.selector.sql92 import compile_sql92
from rocketpy.protocol.selector.sql92_errors import EvaluationError, SelectorError
from rocketpy.protocol.selector.sql92_values import (
    Kind,
    compare_texts_as_numbers,
    comparer,
    decimal_constant,
    double_constant,
    double_text,
    parse_boolean,
    parse_double,
    parse_integer,
    parse_long,
)
from tests.worst_requests import SLICE_SECONDS_MAX, processor_seconds


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("-0", 0), ("+5", 5), ("007", 7), ("2147483647", 2**31 - 1), ("-2147483648", -(2**31)),
     ("٣", 3), ("0" * 6000 + "12", 12)],
)  # fmt: skip
def test_integers_that_java_reads(text: str, value: int) -> None:
    assert parse_integer(text) == value
    assert parse_long(text) == value


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "+", "-", "--1", "1.0", "1_000", "0x1", "1L", "２x", "𝟏", "abc", "9" * 30_000, "1\n"]
)
def test_texts_that_are_no_integers(text: str) -> None:
    for parse in (parse_integer, parse_long):
        with pytest.raises(EvaluationError, match="NumberFormatException: For input string") as caught:
            parse(text)
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize(("parse", "bits"), [(parse_integer, 31), (parse_long, 63)], ids=["integer", "long"])
def test_integers_have_so_many_bits(parse: object, bits: int) -> None:
    assert callable(parse)
    assert parse(str(2**bits - 1)) == 2**bits - 1
    assert parse(str(-(2**bits))) == -(2**bits)
    for value in (2**bits, -(2**bits) - 1):
        with pytest.raises(EvaluationError):
            parse(str(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1.0), (" 1.5\t", 1.5), ("5.", 5.0), (".5", 0.5), ("1e3", 1000.0), ("1E-3", 0.001), ("+1.5f", 1.5),
     ("2d", 2.0), ("Infinity", math.inf), ("-Infinity", -math.inf), ("1e999", math.inf), ("1e-999", 0.0),
     ("0x1.8p1", 3.0), ("-0X1P-1d", -0.5), ("0x1p99999999", math.inf), ("-0x1p2000", -math.inf),
     ("0x1p-99999999", 0.0), ("0x0p99999999", 0.0)],
)  # fmt: skip
def test_doubles_that_java_reads(text: str, value: float) -> None:
    assert parse_double(text) == value


def test_not_a_number_is_read_too() -> None:
    assert math.isnan(parse_double(" NaN "))
    assert math.copysign(1, parse_double("-0.0")) == -1


@pytest.mark.parametrize(
    "text", ["", "  ", "x", "1e", "e5", ".", "1.5.2", "nan", "inf", "1_0.5", "0x1.8", "1 2", "1dd", "٣.٥"]
)
def test_texts_that_are_no_doubles(text: str) -> None:
    with pytest.raises(EvaluationError, match="NumberFormatException"):
        parse_double(text)


@pytest.mark.parametrize("text", ["1" * 100_000 + "x", "0." + "1" * 100_000 + "x", "0x" + "f" * 100_000])
def test_long_texts_are_refused_at_once(text: str) -> None:
    """A pattern that backtracks would take minutes."""
    with pytest.raises(EvaluationError):
        parse_double(text)


@pytest.mark.parametrize("operands", ["a > b", "a > 1.5", "a > 5", "a > 5000000000", "a = b", "a = TRUE", "a <> 7"])
@pytest.mark.parametrize("text", ["0" * 16_000 + "1", " " * 16_000 + "1.0", "0x" + "f" * 16_000 + "p1", "9" * 16_000])
def test_a_long_number_is_read_once_for_a_message(operands: str, text: str) -> None:
    """A selector may name a property a thousand times; it would take a third of a second to read it each time."""
    selector = compile_sql92(" OR ".join([operands] * 1000))
    properties = {"a": text, "b": text}
    assert processor_seconds(lambda: selector.matches(properties)) < SLICE_SECONDS_MAX


def test_whatever_is_not_true_is_false() -> None:
    assert [parse_boolean(text) for text in ("true", "TRUE", "yes", "", " true")] == [True, True, False, False, False]


def test_constants() -> None:
    assert decimal_constant("5L") == (5, Kind.INTEGER)
    assert decimal_constant(str(2**31)) == (2**31, Kind.LONG)
    with pytest.raises(SelectorError, match="NumberFormatException"):
        decimal_constant(str(2**63))
    assert double_constant("1.5") == 1.5
    for text in ("0.0", "1e400"):
        with pytest.raises(SelectorError, match="RuntimeException"):
            double_constant(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1.0"), (123456.5, "123456.5"), (1e7, "1.0E7"), (12345678.9, "1.23456789E7"), (0.001, "0.001"),
     (0.00012, "1.2E-4"), (5e-324, "5.0E-324"), (1.7976931348623157e308, "1.7976931348623157E308")],
)  # fmt: skip
def test_doubles_are_written_as_java_does(value: float, text: str) -> None:
    assert double_text(value) == text


def test_doubles_have_a_total_order() -> None:
    compare = comparer(Kind.DOUBLE, Kind.DOUBLE)
    ordered = [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]
    for left, low in enumerate(ordered):
        for right, high in enumerate(ordered):
            answer = compare(low, high)
            assert ((answer > 0), (answer < 0)) == ((left > right), (left < right)), (low, high)


@pytest.mark.parametrize(
    ("left", "right", "values", "expected"),
    [
        (Kind.INTEGER, Kind.LONG, (1, 1), 0),
        (Kind.LONG, Kind.DOUBLE, (2**53 + 1, float(2**53)), 0),
        (Kind.INTEGER, Kind.DOUBLE, (1, 1.5), -1),
        (Kind.STRING, Kind.INTEGER, ("2", 1), 1),
        (Kind.DOUBLE, Kind.STRING, (1.5, " 1.5 "), 0),
        (Kind.STRING, Kind.BOOLEAN, ("TRUE", True), 0),
        (Kind.BOOLEAN, Kind.INTEGER, (True, 1), -1),
        (Kind.INTEGER, Kind.BOOLEAN, (1, True), -1),
        (Kind.NULL, Kind.STRING, (1, 1), -1),
    ],
)
def test_classes_that_differ(left: Kind, right: Kind, values: tuple[int, int], expected: int) -> None:
    assert comparer(left, right)(*values) == expected


def test_texts_compare_as_numbers_or_not_at_all() -> None:
    assert compare_texts_as_numbers("10", "9") == 1
    with pytest.raises(EvaluationError, match=r"It's illegal to compare string .* lv=x, rv=9"):
        compare_texts_as_numbers("x", "9")
