"""SQL92 selectors: a text in, a decision about the properties of a message out.

Three-valued: an expression is TRUE, FALSE or NULL for a message, or fails with an error; only TRUE matches. It is
compiled to closures once (:func:`compile_sql92` caches results, errors included).

>>> compile_sql92("price > 10 AND TAGS = 'new'").matches({"price": "12", "TAGS": "new"})
True

Compatibility: ``SelectorParser.parse`` and the expressions of 4.9.8: see :mod:`.sql92_grammar` for what differs from
other dialects, :mod:`.sql92_values` for its numbers. Every value of a property is a text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from rocketpy.protocol.selector import sql92_tree as tree
from rocketpy.protocol.selector.sql92_errors import EvaluationError, SelectorError
from rocketpy.protocol.selector.sql92_grammar import check_size, parse
from rocketpy.protocol.selector.sql92_values import (
    ORDER_TESTS,
    Compare,
    Kind,
    OrderTest,
    Value,
    compare_texts_as_numbers,
    comparer,
    parse_double,
    parse_integer,
    parse_long,
)

CACHED_TEXTS: Final = 100
"""Bound of the cached texts, as in RocketMQ."""

Properties = Mapping[str, str]
_Evaluate = Callable[[Properties], Value | None]
_Decide = Callable[[Properties], bool | None]
Judge = Callable[[bytes, bytes, int], bytes]
"""Return a byte for each of some units: 1 if its record is wanted, 2 if :meth:`Sql92Selector.matches` must decide."""


class Sql92Selector:
    """A compiled selector."""

    __slots__ = ("_is_judge_made", "_judge", "_tree", "evaluate", "text")

    def __init__(self, text: str, root: tree.Node) -> None:
        self.text = text
        self.evaluate: _Decide = _decision(root)
        """Return TRUE, FALSE or None (NULL) for the properties of a message; EvaluationError where Java throws."""
        self._judge: Judge | None = None
        self._is_judge_made = False
        self._tree = root

    def __str__(self) -> str:
        """Return the expression with every parenthesis, as Java prints it."""
        return str(self._tree)

    def judge(self, make: Callable[[tree.Node], Judge | None]) -> Judge | None:
        """Return the selector as a kernel, which ``make`` has made of it when it was first asked for, or None."""
        if not self._is_judge_made:
            self._judge = make(self._tree)
            self._is_judge_made = True
        return self._judge

    def matches(self, properties: Properties) -> bool:
        """Return whether a message with these properties is wanted."""
        try:
            return self.evaluate(properties) is True
        except EvaluationError:
            return False


def compile_sql92(text: str) -> Sql92Selector:
    """Return the selector that a text means; SelectorError says why it is none, in RocketMQ's words first."""
    check_size(text)  # first: a text that is too long must not be cached
    found = _compiled(text)
    if isinstance(found, str):
        raise SelectorError(found)
    return found


# ---- private ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=CACHED_TEXTS)
def _compiled(text: str) -> Sql92Selector | str:
    """Return the selector, or why there is none."""
    try:
        return Sql92Selector(text, parse(text))
    except SelectorError as failure:
        return str(failure)


_PARSERS: Final[dict[Kind, Callable[[str], int | float]]] = {
    Kind.INTEGER: parse_integer,
    Kind.LONG: parse_long,
    Kind.DOUBLE: parse_double,
}


def _decision(node: tree.Node) -> _Decide:
    """Return the closure of a boolean part."""
    if isinstance(node, tree.Logic):
        decide = _any_of if node.symbol == "||" else _all_of
        return decide([_decision(operand) for operand in node.operands])
    if isinstance(node, tree.Not):
        return _inverse(_decision(node.operand))
    if isinstance(node, tree.Comparison):
        return _equality(node.left, node.right) if node.symbol == "==" else _order(node)
    if isinstance(node, tree.Membership):
        return _membership(node)
    if isinstance(node, tree.BooleanCast):
        name = node.name
        return lambda properties: None if properties.get(name) is None else False
    assert isinstance(node, tree.Constant), node
    value = node.value
    assert value is None or isinstance(value, bool), node
    return lambda properties: value


def _value(node: tree.Node) -> tuple[_Evaluate, Kind]:
    """Return the closure of any part, and its class when it is not NULL."""
    if isinstance(node, tree.Property):
        name = node.name
        return lambda properties: properties.get(name), Kind.STRING
    if isinstance(node, tree.Negation):
        return _negation(node)
    if isinstance(node, tree.Constant):
        value = node.value
        return lambda properties: value, node.kind
    return _decision(node), Kind.BOOLEAN


def _negation(node: tree.Negation) -> tuple[_Evaluate, Kind]:
    number = _constant(node)
    if number is not None:
        value, kind = number
        return lambda properties: value, kind
    operand, _ = _value(node.operand)

    def nothing(properties: Properties) -> None:
        operand(properties)  # which may make no sense

    return nothing, Kind.NULL


def _constant(node: tree.Node) -> tuple[int | float, Kind] | None:
    """Return the number that a part is for every message, None if it is none."""
    sign = 1
    while isinstance(node, tree.Negation):
        node, sign = node.operand, -sign
    if isinstance(node, tree.Constant) and node.kind in _PARSERS:
        assert isinstance(node.value, int | float)
        return sign * node.value, node.kind
    return None


def _order(node: tree.Comparison) -> _Decide:
    test = ORDER_TESTS[node.symbol]
    number = _constant(node.right)
    if isinstance(node.left, tree.Property) and number is not None:
        value, kind = number
        if kind is not Kind.DOUBLE:
            return _order_of_property(node.left.name, _PARSERS[kind], test, value)
    left, left_kind = _value(node.left)
    right, right_kind = _value(node.right)
    are_texts = left_kind is right_kind is Kind.STRING
    compare: Compare = compare_texts_as_numbers if are_texts else comparer(left_kind, right_kind)

    def decide(properties: Properties) -> bool | None:
        left_value = left(properties)
        if left_value is None:
            return None
        right_value = right(properties)
        if right_value is None:
            return None
        return test(compare(left_value, right_value), 0)

    return decide


def _order_of_property(
    name: str, parse_text: Callable[[str], int | float], test: OrderTest, value: int | float
) -> _Decide:
    """Return the closure of what most selectors say: a property against a whole number."""

    def decide(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else test(parse_text(text), value)

    return decide


def _equality(left_node: tree.Node, right_node: tree.Node) -> _Decide:
    if isinstance(left_node, tree.Property) and isinstance(right_node, tree.Constant):
        name, value = left_node.name, right_node.value
        if right_node.kind is Kind.NULL:
            return lambda properties: properties.get(name) is None
        if right_node.kind is Kind.STRING:
            return lambda properties: None if (text := properties.get(name)) is None else text == value
    left, left_kind = _value(left_node)
    right, right_kind = _value(right_node)
    compare = comparer(left_kind, right_kind)

    def decide(properties: Properties) -> bool | None:
        left_value = left(properties)
        right_value = right(properties)
        if left_value is None:
            return True if right_value is None else None
        if right_value is None:
            return False
        return compare(left_value, right_value) == 0

    return decide


def _membership(node: tree.Membership) -> _Decide:
    name, texts = node.name, frozenset(node.texts)
    if node.is_negated:
        return lambda properties: None if (text := properties.get(name)) is None else text not in texts
    return lambda properties: None if (text := properties.get(name)) is None else text in texts


def _inverse(operand: _Decide) -> _Decide:
    return lambda properties: None if (value := operand(properties)) is None else not value


def _all_of(operands: list[_Decide]) -> _Decide:
    def decide(properties: Properties) -> bool | None:
        result: bool | None = True
        for operand in operands:
            value = operand(properties)
            if value is False:
                return False
            if value is None:
                result = None
        return result

    return decide


def _any_of(operands: list[_Decide]) -> _Decide:
    def decide(properties: Properties) -> bool | None:
        result: bool | None = False
        for operand in operands:
            value = operand(properties)
            if value is True:
                return True
            if value is None:
                result = None
        return result

    return decide
