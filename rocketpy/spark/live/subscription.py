"""Which queues a read is of: topics by name or pattern, or queues by name; and which of their messages.

The first three options exclude each other, as in spark-sql-kafka; ``topic`` is rocketmq-spark's name of ``subscribe``.
The expression is evaluated by the broker. By tags it compares hashes, so a reader compares the tags themselves.
"""

from __future__ import annotations

import re

import attrs

from rocketpy.errors import ClientError, SettingsError
from rocketpy.protocol.bodies.heartbeat import SUB_ALL
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.selector.sql92 import compile_sql92
from rocketpy.protocol.selector.sql92_errors import SelectorError
from rocketpy.protocol.selector.tag import parse_tag_expression
from rocketpy.protocol.topic_name import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS
from rocketpy.spark.live.cluster import Cluster, Replicas
from rocketpy.spark.live.positions import name_of
from rocketpy.spark.options.live import ASSIGN, SQL, SUBSCRIBE, SUBSCRIBE_PATTERN, TAGS
from rocketpy.spark.options.option import OptionValues
from rocketpy.spark.options.reading import TOPIC

_CHOICES = (TOPIC, SUBSCRIBE, SUBSCRIBE_PATTERN, ASSIGN)
_NEEDS = (
    "a live cluster also needs one of the options topic or subscribe (names, separated by commas), subscribePattern (a "
    "regular expression) and assign (queues as JSON)"
)


@attrs.frozen
class Expression:
    """What the broker is asked to choose. ``tags``: those that a message must have; none if it is not by tags."""

    kind: str = "TAG"
    text: str = SUB_ALL
    tags: frozenset[str] | None = None

    @property
    def is_everything(self) -> bool:
        """Whether every message is chosen."""
        return self.text == SUB_ALL


CHOOSES_EVERYTHING = Expression()


@attrs.frozen(kw_only=True)
class Subscription:
    """Exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: frozenset[MessageQueue] | None = None

    def queues(self, cluster: Cluster) -> dict[MessageQueue, Replicas]:
        """Return the readable queues that there are now, with the brokers that have them.

        ``ClientError`` for a topic or an assigned queue that is not there. A pattern may fit nothing.
        """
        topics = self.topics
        if self.pattern is not None:
            topics = tuple(topic for topic in cluster.topics() if is_subscribed(self.pattern, topic))
        elif self.assigned is not None:
            topics = tuple(sorted({queue.topic for queue in self.assigned}))
        found: dict[MessageQueue, Replicas] = {}
        for topic in topics:
            try:
                found.update(cluster.queues(topic))
            except ClientError as error:
                # Deleted since the names were listed, or listed by a nameserver without its route.
                if self.pattern is None or error.response_code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
        if self.assigned is None:
            return found
        if missing := sorted(self.assigned - found.keys()):
            raise ClientError(
                ResponseCode.SYSTEM_ERROR, f"option assign: {name_of(missing[0])} is not there, or not readable"
            )
        return {queue: found[queue] for queue in self.assigned}


def is_subscribed(pattern: str, topic: str) -> bool:
    """Return whether a pattern is meant to find a topic: none of the broker's own, and no retries unless asked for."""
    if topic in SYSTEM_TOPICS or topic.lower().startswith(SYSTEM_TOPIC_PREFIX):
        return False
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) and not pattern.startswith("%"):
        return False
    return re.fullmatch(pattern, topic) is not None


def subscription_of(values: OptionValues) -> Subscription:
    """Return what the options subscribe to; :class:`SettingsError` for none, several, or a pattern that is none."""
    given = [option.name for option in _CHOICES if values.is_given(option)]
    if not given:
        raise SettingsError(_NEEDS)
    if len(given) > 1:
        raise SettingsError(f"options {' and '.join(given)}: expected one of them")
    pattern = values[SUBSCRIBE_PATTERN]
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise SettingsError(
                f"option subscribePattern: expected a regular expression, found {pattern!r}: {error}"
            ) from None
    return Subscription(topics=values[TOPIC] or values[SUBSCRIBE], pattern=pattern, assigned=values[ASSIGN])


def expression_of(values: OptionValues) -> Expression:
    """Return what the options choose; :class:`SettingsError` for a wrong expression, or two."""
    tags, sql = values[TAGS], values[SQL]
    if tags is not None and sql is not None:
        raise SettingsError("options tags and sql: expected one of them, TAGS is a property in SQL92")
    if sql is not None:
        try:
            compile_sql92(sql)
        except SelectorError as error:
            raise SettingsError(f"option sql: expected an SQL92 expression, found {sql!r}: {error}") from None
        return Expression("SQL92", sql)
    if tags is None or tags == SUB_ALL:
        return CHOOSES_EVERYTHING
    try:
        subscription = parse_tag_expression("", tags)
    except ValueError as error:
        raise SettingsError(f"option tags: expected tags as 'TagA || TagB', found {tags!r}: {error}") from None
    return Expression("TAG", tags, frozenset(subscription.tags_set))
