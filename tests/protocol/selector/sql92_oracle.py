"""A second evaluator of SQL92 selectors, made to be checked by eye: no compilation, no classes known in advance.

A value is a pair of Java's class and what it holds, so that every comparison asks the classes it meets, as
``ComparisonExpression.__compare`` does. Expressions are nested tuples; :func:`text_of` writes them as a selector.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

Expression = tuple[object, ...]
"""``(operator, operand, ...)``; leaves are ``("property", name)`` and ``("constant", java class, value)``."""

JavaValue = tuple[str, object]


class Thrown(Exception):
    """What Java throws while it evaluates."""


def text_of(expression: Expression) -> str:
    """Return an expression as a selector, each operand in parentheses unless it is a leaf."""
    operator, *operands = expression
    if operator == "property":
        return str(operands[0])
    if operator == "constant":
        java_class, value = operands
        if java_class == "String":
            return "'" + str(value).replace("'", "''") + "'"
        return str(value).upper() if java_class == "Boolean" else repr(value)
    texts = [_operand(operand) for operand in operands if isinstance(operand, tuple)]
    if operator in ("AND", "OR", "=", "<>", ">", ">=", "<", "<="):
        return f" {operator} ".join(texts)
    if operator in ("IS NULL", "IS NOT NULL"):
        return f"{texts[0]} {operator}"
    if operator in ("BETWEEN", "NOT BETWEEN"):
        return f"{texts[0]} {operator} {texts[1]} AND {texts[2]}"
    if operator in ("IN", "NOT IN"):
        listed = ", ".join("'" + str(text).replace("'", "''") + "'" for text in operands[1:])
        return f"{texts[0]} {operator} ({listed})"
    assert operator in ("NOT", "-", "+")
    return f"{operator} {texts[0]}"


def evaluate(expression: Expression, properties: Mapping[str, str]) -> JavaValue | None:
    """Return what Java makes of an expression; None is null. Thrown where Java throws."""
    operator, *operands = expression
    if operator == "property":
        text = properties.get(str(operands[0]))
        return None if text is None else ("String", text)
    if operator == "constant":
        return str(operands[0]), operands[1]
    parts = [operand for operand in operands if isinstance(operand, tuple)]
    if operator == "AND":
        return _and(parts[0], parts[1], properties)
    if operator == "OR":
        return _not(_and(("NOT", parts[0]), ("NOT", parts[1]), properties))
    if operator == "NOT":
        return _not(as_boolean(parts[0], properties))
    if operator == "<>":
        return _not(evaluate(("=", *parts), properties))
    if operator == "BETWEEN":
        return evaluate(("AND", (">=", parts[0], parts[1]), ("<=", parts[0], parts[2])), properties)
    if operator == "NOT BETWEEN":
        return evaluate(("OR", ("<", parts[0], parts[1]), (">", parts[0], parts[2])), properties)
    values = [evaluate(part, properties) for part in parts[:1]]
    left = values[0]
    if operator == "IS NULL":
        return "Boolean", left is None
    if operator == "IS NOT NULL":
        return "Boolean", left is not None
    if operator in ("IN", "NOT IN"):
        return None if left is None else ("Boolean", (left[1] in operands[1:]) is (operator == "IN"))
    if operator == "+":
        return left
    if operator == "-":
        if left is None or left[0] not in ("Integer", "Long", "Double"):
            return None
        assert isinstance(left[1], int | float)
        return left[0], -left[1]
    if operator == "=":
        return _equal(left, evaluate(parts[1], properties))
    if left is None:
        return None
    right = evaluate(parts[1], properties)
    return None if right is None else ("Boolean", _is_ordered(str(operator), left, right))


def as_boolean(expression: Expression, properties: Mapping[str, str]) -> JavaValue | None:
    """Return an expression in boolean position: a property that is there is FALSE."""
    value = evaluate(expression, properties)
    return ("Boolean", False) if value is not None and value[0] != "Boolean" else value


def _and(left: Expression, right: Expression, properties: Mapping[str, str]) -> JavaValue | None:
    first = as_boolean(left, properties)
    if first == ("Boolean", False):
        return first
    second = as_boolean(right, properties)
    if second == ("Boolean", False):
        return second
    return None if first is None or second is None else ("Boolean", True)


def _not(value: JavaValue | None) -> JavaValue | None:
    return None if value is None else ("Boolean", not value[1])


def _equal(left: JavaValue | None, right: JavaValue | None) -> JavaValue | None:
    if left is None:
        return ("Boolean", True) if right is None else None
    return "Boolean", right is not None and compare(left, right) == 0


def _is_ordered(operator: str, left: JavaValue, right: JavaValue) -> bool:
    if left[0] == right[0] == "String":
        left, right = ("Double", _double(str(left[1]))), ("Double", _double(str(right[1])))
    answer = compare(left, right)
    return {">": answer > 0, ">=": answer >= 0, "<": answer < 0, "<=": answer <= 0}[operator]


def compare(left: JavaValue, right: JavaValue) -> int:
    """Return the sign of Java's comparison."""
    (left_class, left_value), (right_class, right_value) = left, right
    if left_class != right_class:
        if left_class == "Boolean":
            if right_class == "String":
                raise Thrown("ClassCastException")
            return -1
        if left_class == "String":
            left_value = _parsed(str(left_value), right_class)
            left_class = right_class
        elif right_class == "Boolean":
            return -1
        elif right_class == "String":
            right_value = _parsed(str(right_value), left_class)
        elif "Double" in (left_class, right_class):
            left_class = "Double"
            left_value, right_value = float(str(left_value)), float(str(right_value))
    if left_class == "Double":
        left_value, right_value = _java_order(float(str(left_value))), _java_order(float(str(right_value)))
    if left_value == right_value:
        return 0
    return 1 if left_value > right_value else -1  # type: ignore[operator]


def _parsed(text: str, java_class: str) -> object:
    if java_class == "Boolean":
        return text.lower() == "true"
    if java_class == "Double":
        return _double(text)
    bits = 31 if java_class == "Integer" else 63
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits or any(digit not in "0123456789" for digit in digits):
        raise Thrown(f"NumberFormatException: {text}")
    value = int(text)
    if not -(1 << bits) <= value < 1 << bits:
        raise Thrown(f"NumberFormatException: {text}")
    return value


def _double(text: str) -> float:
    trimmed = text.strip("".join(map(chr, range(33))))
    for ending in ("NaN", "Infinity"):
        if trimmed in (ending, "+" + ending, "-" + ending):
            return float(trimmed)
    number = trimmed[:-1] if trimmed[-1:] in ("f", "F", "d", "D") else trimmed
    if not number or any(character not in "0123456789+-.eE" for character in number):
        raise Thrown(f"NumberFormatException: {text}")
    try:
        return float(number)
    except ValueError:
        raise Thrown(f"NumberFormatException: {text}") from None


def _java_order(value: float) -> tuple[int, Decimal, int]:
    """Return a key in the order of ``Double.compareTo``."""
    if value != value:
        return 1, Decimal(0), 0
    sign_of_zero = 0 if str(value).startswith("-") else 1
    return 0, Decimal(value), sign_of_zero if value == 0 else 0


def _operand(expression: Expression) -> str:
    text = text_of(expression)
    return text if expression[0] in ("property", "constant") else f"({text})"
