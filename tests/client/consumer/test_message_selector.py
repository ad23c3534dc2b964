"""What selectors mean."""

from __future__ import annotations

import pytest

from rocketpy.client.consumer.message_selector import MessageSelector, subscription_to
from rocketpy.errors import ClientError
from rocketpy.protocol.java_hash import java_hash


def test_a_plain_text_is_a_tag_expression() -> None:
    found = subscription_to("T", "A || B", sub_version=5)
    assert found == subscription_to("T", MessageSelector.by_tag("A || B"), sub_version=5)
    assert (found.tags_set, found.code_set) == (["A", "B"], [java_hash("A"), java_hash("B")])
    assert (found.topic, found.sub_string, found.sub_version, found.expression_type) == ("T", "A || B", 5, "TAG")


def test_everything_is_the_default() -> None:
    assert subscription_to("T", MessageSelector.by_tag(), sub_version=0).sub_string == "*"


def test_an_sql_expression_travels_as_it_is() -> None:
    found = subscription_to("T", MessageSelector.by_sql("a > 5"), sub_version=1)
    assert (found.sub_string, found.expression_type, found.tags_set) == ("a > 5", "SQL92", [])


@pytest.mark.parametrize("selector", ["||", MessageSelector.by_sql(" ")])
def test_an_expression_without_content_is_refused(selector: str | MessageSelector) -> None:
    with pytest.raises(ClientError, match="subscription of T"):
        subscription_to("T", selector, sub_version=0)


@pytest.mark.parametrize("topic", [None, "", 5, b"T"])
def test_a_topic_that_is_no_text_is_refused_before_a_heartbeat_names_it(topic: str) -> None:
    with pytest.raises(ClientError, match="expected the name of a topic"):
        subscription_to(topic, "*", sub_version=0)


@pytest.mark.parametrize("selector", [None, 5, b"*"])
def test_a_selector_that_is_none_is_refused(selector: str) -> None:
    with pytest.raises(ClientError, match="expected a tag expression or a MessageSelector"):
        subscription_to("T", selector, sub_version=0)
