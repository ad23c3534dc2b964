"""The parts of a selector: what they are called in Java's messages, and what cannot be put together."""

from __future__ import annotations

import pytest

from rocketpy.protocol.selector import sql92_tree as tree
from rocketpy.protocol.selector.sql92_errors import DEPTH_MAX, SelectorError
from rocketpy.protocol.selector.sql92_tree import FALSE, NULL, TRUE, Node, Property

A, B = Property("a"), Property("b")
ONE, TWO, TEXT = tree.integer("1"), tree.integer("2"), tree.string("'it''s'")
A_IS_ONE = tree.equal(A, ONE)


def test_the_text_of_a_literal_has_its_quotes_once() -> None:
    assert TEXT.value == "it's"
    assert tree.string("''''").value == "'"
    assert tree.string("''").value == ""


# ---- where a boolean is needed --------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", [TRUE, FALSE, NULL, A_IS_ONE, tree.invert(A_IS_ONE), tree.is_null(A)])
def test_a_boolean_stays_what_it_is(node: Node) -> None:
    assert tree.as_boolean(node) is node
    assert tree.is_boolean(node)


def test_a_property_may_stand_for_a_boolean() -> None:
    cast = tree.as_boolean(A)
    assert isinstance(cast, tree.BooleanCast)
    assert cast.name == "a"
    assert not tree.is_boolean(A)


@pytest.mark.parametrize("node", [ONE, TEXT, tree.double("1.5"), tree.negate(A)])
def test_a_value_may_not(node: Node) -> None:
    for put in (tree.as_boolean, tree.invert, lambda each: tree.logic("&&", [TRUE, each])):
        with pytest.raises(SelectorError) as caught:
            put(node)
        assert str(caught.value).endswith(f"Expression will not result in a boolean value: {node}")


# ---- comparisons ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("left", "right"), [(NULL, A), (A, NULL), (NULL, NULL)])
def test_null_is_compared_by_is_only(left: Node, right: Node) -> None:
    with pytest.raises(SelectorError, match="'NULL' cannot be compared"):
        tree.equal(left, right)


def test_a_boolean_on_the_left_is_compared_with_a_boolean() -> None:
    assert str(tree.equal(TRUE, FALSE)) == "(TRUE == FALSE)"
    assert str(tree.equal(TRUE, A)) == "(TRUE == a)"
    with pytest.raises(SelectorError, match="'TRUE' cannot be compared with '1'"):
        tree.equal(TRUE, ONE)
    assert str(tree.equal(ONE, TRUE)) == "(1 == TRUE)", "Java looks at the left side only"


@pytest.mark.parametrize("node", [TEXT, TRUE, NULL, A_IS_ONE])
@pytest.mark.parametrize("symbol", [">", ">=", "<", "<="])
def test_only_numbers_and_properties_have_an_order(symbol: str, node: Node) -> None:
    for left, right in ((A, node), (node, A)):
        with pytest.raises(SelectorError) as caught:
            tree.order(symbol, left, right)
        assert str(caught.value) == f"java.lang.RuntimeException: Value '{node}' cannot be compared."


@pytest.mark.parametrize(
    ("low", "high", "why"),
    [
        (TWO, ONE, "left value(2) must less than or equal to right value(1)"),
        (tree.double("1.5"), ONE, "left value(1.5) must less than or equal to right value(1)"),
        (NULL, ONE, "values can not be null"),
        (ONE, NULL, "values can not be null"),
    ],
)
def test_a_range_of_constants_is_the_right_way_round(low: tree.Constant, high: tree.Constant, why: str) -> None:
    with pytest.raises(SelectorError) as caught:
        tree.between(A, low, high)
    assert why in str(caught.value)
    if NULL not in (low, high):
        assert tree.not_between(A, low, high), "NOT BETWEEN does not check it"


@pytest.mark.parametrize("node", [ONE, TEXT, A_IS_ONE])
def test_only_a_property_is_in_a_list(node: Node) -> None:
    with pytest.raises(SelectorError, match="Expected a property for In expression, got: "):
        tree.membership(node, ["'x'"], is_negated=False)


# ---- bounds ---------------------------------------------------------------------------------------------------------


def test_depth_is_bounded_and_a_long_chain_is_not_deep() -> None:
    node: Node = A_IS_ONE
    for _ in range(DEPTH_MAX - node.depth):
        node = tree.invert(node)
    assert node.depth == DEPTH_MAX
    for put in (tree.invert, tree.negate, lambda each: tree.logic("||", [A, each]), lambda each: tree.equal(A, each)):
        with pytest.raises(SelectorError, match=f"expected at most {DEPTH_MAX} expressions within each other"):
            put(node)
    assert tree.logic("||", [A_IS_ONE] * 1000).depth == A_IS_ONE.depth + 1
