"""Tag expressions, held against Java's own."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.protocol.bodies.heartbeat import SubscriptionData
from rocketpy.protocol.java_hash import java_hash
from rocketpy.protocol.selector.tag import (
    EXPRESSION_SIZE_MAX,
    TAGS_MAX,
    TagFilter,
    has_tag,
    parse_tag_expression,
)
from tests.recorded import VECTORS


@pytest.mark.parametrize("vector", VECTORS["subscription"], ids=lambda vector: repr(vector["sub"]))
def test_expressions_mean_what_they_mean_to_java(vector: dict[str, object]) -> None:
    expression: str | None = vector["sub"]  # type: ignore[assignment]
    expected: dict[str, object] = vector["result"]  # type: ignore[assignment]
    if "error" in expected:
        with pytest.raises(ValueError, match=str(expected["message"])):
            parse_tag_expression("T", expression)
        return
    subscription = parse_tag_expression("T", expression, sub_version=5)
    assert (subscription.topic, subscription.sub_version) == ("T", 5)
    assert subscription.sub_string == expected["subString"]
    assert sorted(subscription.tags_set) == sorted(expected["tagsSet"])  # type: ignore[call-overload]
    assert sorted(subscription.code_set) == sorted(expected["codeSet"])  # type: ignore[call-overload]
    assert subscription.expression_type == expected["expressionType"]


@pytest.mark.parametrize("expression", ["||", "||||"])
def test_only_separators_are_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="split error"):
        parse_tag_expression("T", expression)


def test_tags_without_anything_but_spaces_want_nothing() -> None:
    """Java takes such an expression for neither everything nor an error."""
    subscription = parse_tag_expression("T", " || \t")
    assert (subscription.tags_set, subscription.code_set) == ([], [])
    assert not TagFilter(subscription).is_matched_by_consume_queue(0)


def test_everything_is_wanted_of_a_star_or_a_class_filter() -> None:
    for subscription in (parse_tag_expression("T", "*"), SubscriptionData("T", "A", class_filter_mode=True)):
        assert TagFilter(subscription).is_matched_by_consume_queue(0)
        assert TagFilter(subscription).is_matched_by_consume_queue(2**62)


def test_tags_are_wanted_by_their_hash() -> None:
    tag_filter = TagFilter(parse_tag_expression("T", "TagA || 标签"))
    assert [tag_filter.is_matched_by_consume_queue(java_hash(tag)) for tag in ("TagA", "标签", "TagB", "")] == [
        *(True, True, False, False)
    ]
    assert not tag_filter.needs_record
    assert tag_filter.is_matched_by_commit_log(b"")


def test_tags_of_one_hash_are_distinguished_by_the_consumer_only() -> None:
    subscription = parse_tag_expression("T", "Aa")
    assert TagFilter(subscription).is_matched_by_consume_queue(java_hash("BB"))
    assert [has_tag(subscription, tag) for tag in ("Aa", "BB", None)] == [True, False, False]
    assert has_tag(parse_tag_expression("T", None), None)
    assert has_tag(attrs.evolve(subscription, class_filter_mode=True), "BB")


def test_an_expression_may_have_so_many_tags_and_characters_and_no_more() -> None:
    """A filter lives as long as a pull is held; what it costs has to have an end."""
    at_most = "||".join(f"t{number}" for number in range(TAGS_MAX))
    assert len(parse_tag_expression("T", at_most).code_set) == TAGS_MAX
    with pytest.raises(ValueError, match="expected at most 1000 tags in an expression, found 1001"):
        parse_tag_expression("T", at_most + "||more")
    assert parse_tag_expression("T", "x" * EXPRESSION_SIZE_MAX).tags_set == ["x" * EXPRESSION_SIZE_MAX]
    with pytest.raises(ValueError, match="expected at most 32768 characters of tags, found 32769"):
        parse_tag_expression("T", "x" * (EXPRESSION_SIZE_MAX + 1))


def test_filters_that_want_the_same_are_equal() -> None:
    """A held pull goes on where it was, unless its group wants something else now."""
    first, again = (TagFilter(parse_tag_expression("T", text)) for text in ("a||b", "b || a"))
    other, everything = (TagFilter(parse_tag_expression("T", text)) for text in ("a||c", "*"))
    assert first == again
    assert hash(first) == hash(again)
    assert first != other
    assert first != everything
    assert first != "a||b"


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="|")).map(str.strip).filter(lambda tag: tag > " ")))
def test_every_tag_of_an_expression_is_wanted(tags: list[str]) -> None:
    subscription = parse_tag_expression("T", " || ".join(tags))
    tag_filter = TagFilter(subscription)
    for tag in tags:
        wanted = tag.strip("".join(map(chr, range(33))))
        if wanted and wanted != "*":
            assert tag_filter.is_matched_by_consume_queue(java_hash(wanted))
            assert has_tag(subscription, wanted)
