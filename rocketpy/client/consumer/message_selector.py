"""Selection of the messages of a topic: tags, or an SQL92 expression over their properties.

Compatibility: ``MessageSelector`` and ``FilterAPI`` (4.9.8).
"""

from __future__ import annotations

import attrs

from rocketpy.client.validators import UNSPECIFIED
from rocketpy.errors import ClientError
from rocketpy.protocol.bodies.heartbeat import (
    EXPRESSION_TYPE_SQL92,
    EXPRESSION_TYPE_TAG,
    SUB_ALL,
    SubscriptionData,
)
from rocketpy.protocol.selector.tag import parse_tag_expression


@attrs.frozen
class MessageSelector:
    """An expression and its language. Created by :meth:`by_tag` and :meth:`by_sql`."""

    expression: str
    expression_type: str

    @classmethod
    def by_tag(cls, expression: str = SUB_ALL) -> MessageSelector:
        """Select by tags: ``*``, or ``TagA || TagB``."""
        return cls(expression, EXPRESSION_TYPE_TAG)

    @classmethod
    def by_sql(cls, expression: str) -> MessageSelector:
        """Select by properties: ``a > 5 AND region = 'east'``; the broker needs ``enablePropertyFilter``."""
        return cls(expression, EXPRESSION_TYPE_SQL92)


def subscription_to(topic: str, selector: str | MessageSelector, *, sub_version: int) -> SubscriptionData:
    """Return the subscription that a selector means; a plain text is a tag expression.

    ClientError for a topic that is no text or has none, for an expression without a tag, and for an empty SQL92
    expression. What an SQL92 expression means is checked by the broker.
    """
    check_subscribed_topic(topic)
    given: object = selector
    if not isinstance(given, str | MessageSelector):
        expected = "a tag expression or a MessageSelector"
        raise ClientError(UNSPECIFIED, f"subscription of {topic}: expected {expected}, found {given!r:.100}")
    if isinstance(selector, str):
        selector = MessageSelector.by_tag(selector)
    if selector.expression_type == EXPRESSION_TYPE_TAG:
        try:
            return parse_tag_expression(topic, selector.expression, sub_version=sub_version)
        except ValueError as failure:
            raise ClientError(UNSPECIFIED, f"subscription of {topic}: {failure}") from failure
    if not selector.expression.strip():
        raise ClientError(UNSPECIFIED, f"subscription of {topic}: the {selector.expression_type} expression is empty")
    return SubscriptionData(topic, selector.expression, sub_version, expression_type=selector.expression_type)


def check_subscribed_topic(topic: str) -> None:
    """Refuse a topic that is no text or has none: the heartbeats of the whole client could not name it."""
    if not isinstance(topic, str) or not topic:
        raise ClientError(UNSPECIFIED, f"subscription of {topic!r:.100}: expected the name of a topic")
