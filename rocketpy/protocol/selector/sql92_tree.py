"""The parts of an SQL92 selector, and what RocketMQ refuses to put together.

A tree is built bottom-up by the functions here, one for each construct of the grammar; each checks what Java's factory
of the same name checks. ``str()`` of a part is Java's ``toString()``: error messages quote it.

Depth is bounded, because a closure of a part calls those of its operands. AND and OR take any number of operands in
one part, so long chains of them are not deep.

Compatibility: the ``create...`` methods of ``ComparisonExpression``, ``LogicExpression``, ``UnaryExpression`` and
``ConstantExpression`` of 4.9.8. DEPTH_MAX is not RocketMQ's, which fails at some thousands with StackOverflowError.
"""

from __future__ import annotations

from typing import Final

import attrs

from rocketpy.protocol.selector.sql92_errors import DEPTH_MAX, EvaluationError, SelectorError
from rocketpy.protocol.selector.sql92_values import (
    Kind,
    Value,
    comparer,
    decimal_constant,
    double_constant,
    double_text,
)

_SHOWN_MAX = 1000


@attrs.frozen(eq=False, slots=True)
class Constant:
    """A literal; TRUE, FALSE and NULL are boolean expressions too."""

    value: Value | None
    kind: Kind
    depth: int = 1

    def __str__(self) -> str:
        if self.kind is Kind.STRING:
            return "'" + str(self.value).replace("'", "''") + "'"
        if isinstance(self.value, float):
            return double_text(self.value)
        return "NULL" if self.value is None else str(self.value).upper()


@attrs.frozen(eq=False, slots=True)
class Property:
    """A property of the message, by its name."""

    name: str
    depth: int = 1

    def __str__(self) -> str:
        return self.name


@attrs.frozen(eq=False, slots=True)
class Negation:
    """Unary minus: NULL of whatever is not a number, as every property."""

    operand: Node
    depth: int

    def __str__(self) -> str:
        return f"(- {self.operand})"


@attrs.frozen(eq=False, slots=True)
class Comparison:
    """``==``, ``>``, ``>=``, ``<`` or ``<=``."""

    symbol: str
    left: Node
    right: Node
    depth: int

    def __str__(self) -> str:
        return f"({self.left} {self.symbol} {self.right})"


@attrs.frozen(eq=False, slots=True)
class Logic:
    """``&&`` or ``||`` of two or more boolean parts."""

    symbol: str
    operands: tuple[Node, ...]
    depth: int

    def __str__(self) -> str:
        text = str(self.operands[0])
        for operand in self.operands[1:]:
            text = f"({text} {self.symbol} {operand})"
        return text


@attrs.frozen(eq=False, slots=True)
class Not:
    """NOT of a boolean part."""

    operand: Node
    depth: int

    def __str__(self) -> str:
        return f"(NOT {self.operand})"


@attrs.frozen(eq=False, slots=True)
class BooleanCast:
    """A property used as a boolean: FALSE if the message has it, because it is a text."""

    name: str
    depth: int = 1

    def __str__(self) -> str:
        return self.name


@attrs.frozen(eq=False, slots=True)
class Membership:
    """IN and NOT IN a list of texts."""

    name: str
    texts: tuple[str, ...]
    is_negated: bool
    depth: int = 1

    def __str__(self) -> str:
        return f"{self.name} {'NOT IN' if self.is_negated else 'IN'} ( {', '.join(self.texts)} )"


Node = Constant | Property | Negation | Comparison | Logic | Not | BooleanCast | Membership
_BOOLEANS = (Comparison, Logic, Not, BooleanCast, Membership)

TRUE: Final = Constant(True, Kind.BOOLEAN)
FALSE: Final = Constant(False, Kind.BOOLEAN)
NULL: Final = Constant(None, Kind.NULL)


# ---- constants -------------------------------------------------------------------------------------------------------


def integer(text: str) -> Constant:
    """Return a whole number; SelectorError when it does not fit 64 bits, whatever sign is before it."""
    return Constant(*decimal_constant(text))


def double(text: str) -> Constant:
    """Return a number with a point or an exponent; SelectorError when it is 0 or infinite."""
    return Constant(double_constant(text), Kind.DOUBLE)


def string(image: str) -> Constant:
    """Return the text of a literal, given with its quotes."""
    return Constant(image[1:-1].replace("''", "'"), Kind.STRING)


# ---- operators -------------------------------------------------------------------------------------------------------


def as_boolean(node: Node) -> Node:
    """Return a part that stands where a boolean is needed; SelectorError when it cannot be one."""
    if is_boolean(node):
        return node
    if isinstance(node, Property):
        return BooleanCast(node.name)
    raise SelectorError(
        f"org.apache.rocketmq.filter.parser.ParseException: Expression will not result in a boolean value: "
        f"{_shown(node)}"
    )


def is_boolean(node: Node) -> bool:
    """Return whether a part is a ``BooleanExpression``."""
    return isinstance(node, _BOOLEANS) or (isinstance(node, Constant) and node.kind in (Kind.BOOLEAN, Kind.NULL))


def logic(symbol: str, operands: list[Node]) -> Logic:
    """Return ``&&`` or ``||`` of all operands."""
    booleans = tuple(map(as_boolean, operands))
    return Logic(symbol, booleans, _depth(*booleans))


def invert(operand: Node) -> Not:
    """Return NOT."""
    boolean = as_boolean(operand)
    return Not(boolean, _depth(boolean))


def negate(operand: Node) -> Negation:
    """Return unary minus."""
    return Negation(operand, _depth(operand))


def equal(left: Node, right: Node) -> Comparison:
    """Return ``=``."""
    for operand in (left, right):
        if isinstance(operand, Constant) and operand.kind is Kind.NULL:
            raise _runtime_error(f"'{operand}' cannot be compared.")
    if isinstance(left, Constant) and isinstance(right, Constant) and is_boolean(left) and not is_boolean(right):
        raise _runtime_error(f"'{left}' cannot be compared with '{_shown(right)}'")
    return Comparison("==", left, right, _depth(left, right))


def not_equal(left: Node, right: Node) -> Not:
    """Return ``<>``."""
    return invert(equal(left, right))


def is_null(left: Node) -> Comparison:
    """Return IS NULL."""
    return Comparison("==", left, NULL, _depth(left))


def is_not_null(left: Node) -> Not:
    """Return IS NOT NULL."""
    return invert(is_null(left))


def order(symbol: str, left: Node, right: Node) -> Comparison:
    """Return ``>``, ``>=``, ``<`` or ``<=``: of numbers and properties."""
    for operand in (left, right):
        is_number = isinstance(operand, Constant) and isinstance(operand.value, int | float)
        if (isinstance(operand, Constant) and not (is_number and operand.kind is not Kind.BOOLEAN)) or is_boolean(
            operand
        ):
            raise _runtime_error(f"Value '{_shown(operand)}' cannot be compared.")
    return Comparison(symbol, left, right, _depth(left, right))


def between(value: Node, low: Node, high: Node) -> Logic:
    """Return BETWEEN; constants must not be the wrong way round."""
    if isinstance(low, Constant) and isinstance(high, Constant):
        _check_range(low, high)
    return logic("&&", [order(">=", value, low), order("<=", value, high)])


def not_between(value: Node, low: Node, high: Node) -> Logic:
    """Return NOT BETWEEN, whose constants are not checked, as in Java."""
    return logic("||", [order("<", value, low), order(">", value, high)])


def membership(left: Node, images: list[str], *, is_negated: bool) -> Membership:
    """Return IN or NOT IN: of a property."""
    if not isinstance(left, Property):
        raise _runtime_error(f"Expected a property for In expression, got: {_shown(left)}")
    return Membership(left.name, tuple(image[1:-1].replace("''", "'") for image in images), is_negated)


# ---- private ---------------------------------------------------------------------------------------------------------


def _check_range(low: Constant, high: Constant) -> None:
    if low.value is None or high.value is None:
        raise _runtime_error("Illegal values of between, values can not be null!")
    try:
        is_reversed = comparer(high.kind, low.kind)(high.value, low.value) < 0
    except EvaluationError as failure:
        text = str(failure)
        raise SelectorError(text if "ClassCast" in text else f"java.lang.RuntimeException: {text}") from failure
    if is_reversed:
        raise _runtime_error(
            f"Illegal values of between, left value({_raw(low)}) must less than or equal to right value({_raw(high)})"
        )


def _raw(constant: Constant) -> str:
    if constant.kind is Kind.STRING:
        return str(constant.value)[:_SHOWN_MAX]
    return str(constant).lower() if constant.kind is Kind.BOOLEAN else str(constant)


def _depth(*operands: Node) -> int:
    depth = 1 + max(operand.depth for operand in operands)
    if depth > DEPTH_MAX:
        raise SelectorError(f"expected at most {DEPTH_MAX} expressions within each other, found more")
    return depth


def _shown(node: Node) -> str:
    text = str(node)
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."


def _runtime_error(message: str) -> SelectorError:
    return SelectorError(f"java.lang.RuntimeException: {message}")
