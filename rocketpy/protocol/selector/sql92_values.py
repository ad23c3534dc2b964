"""Java's numbers as SQL92 selectors compare them: texts parsed in a number's type, an order over all doubles.

What type a part of an expression has is known when it is compiled: only properties come with a message, and they are
texts. So how two parts compare is chosen once (:func:`comparer`) and costs little afterwards.

Compatibility: ``ComparisonExpression`` of 4.9.8, with ``Integer.valueOf``, ``Long.valueOf``, ``Double.valueOf`` and
``Double.compareTo``: ``+5`` is a number and `` 5`` is not, but `` 5.0 `` is one; NaN is above everything and equal to
itself, 0.0 above -0.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from math import copysign, isinf, isnan
from operator import ge, gt, le, lt
from typing import Final

from rocketpy.protocol.selector.sql92_errors import EvaluationError, SelectorError

Value = int | float | str | bool
"""Value of a part of an expression for a message; None is NULL."""

Compare = Callable[[Value, Value], int]
"""Below, at or above 0, as Java's ``compareTo``; EvaluationError where Java throws."""


class Kind(Enum):
    """Type of a part of an expression that is not NULL: Java's class."""

    INTEGER = "java.lang.Integer"
    LONG = "java.lang.Long"
    DOUBLE = "java.lang.Double"
    STRING = "java.lang.String"
    BOOLEAN = "java.lang.Boolean"
    NULL = "null"


OrderTest = Callable[[float, float], bool]
ORDER_TESTS: Final[dict[str, OrderTest]] = {">": gt, ">=": ge, "<": lt, "<=": le}

_SHORT_MAX: Final = 64
"""Conversions of longer texts (in characters) to numbers are cached: a selector may read a 32 KiB property a thousand
times for a message, which would take a third of a second."""

_CACHED_MAX: Final = 64

_INT_MAX = (1 << 31) - 1
_LONG_MAX = (1 << 63) - 1
_LONG_DIGITS = 19
_SHOWN_MAX = 100
_PARSE_INTEGER = re.compile(r"[+-]?\d++")
_PARSE_DOUBLE = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+[fFdD]?)"
    r"|([+-]?0[xX](?:[0-9a-fA-F]++(?:\.[0-9a-fA-F]*+)?+|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++)[fFdD]?"
)
_TRIMMED = "".join(map(chr, range(0x21)))
_EXPONENT_DIGITS_MAX = 6  # beyond that a double is 0 or infinite whatever its digits


def parse_integer(text: str) -> int:
    """Return ``Integer.valueOf(text)``; EvaluationError when Java throws NumberFormatException."""
    if len(text) < 10 and text.isascii() and text.isdecimal():
        return int(text)
    value = _parse_whole(text) if len(text) <= _SHORT_MAX else _parse_long_whole(text)
    if not -_INT_MAX - 1 <= value <= _INT_MAX:
        raise _no_number(text)
    return value


def parse_long(text: str) -> int:
    """Return ``Long.valueOf(text)``; EvaluationError when Java throws NumberFormatException."""
    value = _parse_whole(text) if len(text) <= _SHORT_MAX else _parse_long_whole(text)
    if not -_LONG_MAX - 1 <= value <= _LONG_MAX:
        raise _no_number(text)
    return value


def parse_double(text: str) -> float:
    """Return ``Double.valueOf(text)``: blanks around it, hexadecimal digits and a suffix are fine; too large is
    infinite. EvaluationError when Java throws NumberFormatException."""
    return _parse_double(text) if len(text) <= _SHORT_MAX else _parse_long_double(text)


def parse_boolean(text: str) -> bool:
    """Return ``Boolean.valueOf(text)``: whatever is not "true" is false."""
    return len(text) == 4 and text.isascii() and text.lower() == "true"


def decimal_constant(text: str) -> tuple[int, Kind]:
    """Return a whole constant and its class; SelectorError when it does not fit a Long."""
    digits = text.rstrip("lL")
    value = int(digits) if len(digits) <= _LONG_DIGITS else _LONG_MAX + 1
    if value > _LONG_MAX:
        raise SelectorError(f'java.lang.NumberFormatException: For input string: "{_shown(digits)}"')
    return value, Kind.INTEGER if value <= _INT_MAX else Kind.LONG


def double_constant(text: str) -> float:
    """Return a constant with a point or an exponent. SelectorError when it is infinite or not above 0."""
    value = float(text)
    if isinf(value):
        raise SelectorError(f"java.lang.RuntimeException: {_shown(text)} is greater than 1.7976931348623157E308")
    if value == 0:
        raise SelectorError(f"java.lang.RuntimeException: {_shown(text)} is less than 4.9E-324")
    return value


def double_text(value: float) -> str:
    """Return ``Double.toString(value)`` of a number above 0.

    >>> double_text(1.5), double_text(1e10), double_text(0.00012)
    ('1.5', '1.0E10', '1.2E-4')
    """
    if 1e-3 <= abs(value) < 1e7:
        return repr(value)
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, *rest = map(str, digits)
    return f"{first}.{''.join(rest) or '0'}E{exponent + len(rest)}"


def comparer(left: Kind, right: Kind) -> Compare:
    """Return how values of two classes compare, as ``ComparisonExpression.__compare`` does it."""
    if left is right:
        return _compare_doubles if left is Kind.DOUBLE else _compare_plain
    if left in _NUMBERS and right in _NUMBERS:
        return _compare_as_doubles if Kind.DOUBLE in (left, right) else _compare_plain
    if left is Kind.STRING and right in _PARSERS:
        return _parsed_left(_PARSERS[right])
    if right is Kind.STRING and left in _NUMBERS:
        return _parsed_right(_PARSERS[left])
    if left is Kind.BOOLEAN and right is Kind.STRING:
        return _cast_failure
    return _different


def compare_texts_as_numbers(left: Value, right: Value) -> int:
    """Return how two texts compare by ``>`` and its family: as doubles."""
    assert isinstance(left, str)
    assert isinstance(right, str)
    try:
        return _compare_doubles(parse_double(left), parse_double(right))
    except EvaluationError as failure:
        raise EvaluationError(
            f"It's illegal to compare string by '>=', '>', '<', '<='. lv={_shown(left)}, rv={_shown(right)}"
        ) from failure


# ---- private ---------------------------------------------------------------------------------------------------------


def _parse_whole(text: str) -> int:
    # Java reads 16-bit characters: digits beyond them are none.
    if _PARSE_INTEGER.fullmatch(text) is None or max(text) > "\uffff":
        raise _no_number(text)
    sign = -1 if text[0] == "-" else 1
    digits = text.lstrip("+-").lstrip("0") if len(text) > _LONG_DIGITS else text.lstrip("+-")
    if len(digits) > _LONG_DIGITS:
        raise _no_number(text)
    return sign * int(digits or "0")


def _parse_double(text: str) -> float:
    trimmed = text.strip(_TRIMMED)
    if not trimmed:
        raise EvaluationError("java.lang.NumberFormatException: empty String")
    match = _PARSE_DOUBLE.fullmatch(trimmed)
    if match is None:
        raise _no_number(trimmed)
    if match[1] is not None:
        return _parse_hexadecimal(match[1])
    if trimmed.endswith(("NaN", "Infinity")):
        return float(trimmed)
    return float(trimmed.rstrip("fFdD"))


_parse_long_whole = lru_cache(maxsize=_CACHED_MAX)(_parse_whole)
_parse_long_double = lru_cache(maxsize=_CACHED_MAX)(_parse_double)


def _parse_hexadecimal(text: str) -> float:
    mantissa, _, exponent = text.lower().partition("p")
    if len(exponent.lstrip("+-0")) > _EXPONENT_DIGITS_MAX:
        is_zero = not mantissa.lstrip("+-").removeprefix("0x").strip("0.")
        magnitude = 0.0 if is_zero or exponent.startswith("-") else float("inf")
        return copysign(magnitude, -1.0 if text.startswith("-") else 1.0)
    try:
        return float.fromhex(text)
    except OverflowError:
        return float("-inf") if text.startswith("-") else float("inf")


def _no_number(text: str) -> EvaluationError:
    return EvaluationError(f'java.lang.NumberFormatException: For input string: "{_shown(text)}"')


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."


def _compare_plain(left: Value, right: Value) -> int:
    return (left > right) - (left < right)  # type: ignore[operator]


def _compare_doubles(left: Value, right: Value) -> int:
    assert isinstance(left, float)
    assert isinstance(right, float)
    if left < right:
        return -1
    if left > right:
        return 1
    if left == right and left != 0:
        return 0
    return _rank(left) - _rank(right)


def _rank(value: float) -> int:
    """Return the rank of the doubles that ``<`` cannot order: -0.0, 0.0, and NaN above all numbers."""
    if isnan(value):
        return 2
    return 0 if copysign(1.0, value) < 0 else 1


def _compare_as_doubles(left: Value, right: Value) -> int:
    return _compare_doubles(float(left), float(right))


def _parsed_left(parse: Callable[[str], Value]) -> Compare:
    order = _compare_doubles if parse is parse_double else _compare_plain

    def compare(left: Value, right: Value) -> int:
        assert isinstance(left, str)
        return order(parse(left), right)

    return compare


def _parsed_right(parse: Callable[[str], Value]) -> Compare:
    order = _compare_doubles if parse is parse_double else _compare_plain

    def compare(left: Value, right: Value) -> int:
        assert isinstance(right, str)
        return order(left, parse(right))

    return compare


def _cast_failure(left: Value, right: Value) -> int:
    raise EvaluationError(
        "java.lang.ClassCastException: class java.lang.Boolean cannot be cast to class java.lang.String"
    )


def _different(left: Value, right: Value) -> int:
    return -1


_NUMBERS: Final = (Kind.INTEGER, Kind.LONG, Kind.DOUBLE)
_PARSERS: Final[dict[Kind, Callable[[str], Value]]] = {
    Kind.INTEGER: parse_integer,
    Kind.LONG: parse_long,
    Kind.DOUBLE: parse_double,
    Kind.BOOLEAN: parse_boolean,
}
