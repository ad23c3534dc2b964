"""Delay levels: which messages wait, where, and until when.

A message with the property DELAY is not stored in its own queue. It is rewritten and waits in SCHEDULE_TOPIC_XXXX:

::

    topic, queue id      ->   SCHEDULE_TOPIC_XXXX, level - 1
    REAL_TOPIC, REAL_QID ->   where it goes when its time has come
    DELAY                ->   the level, not above the highest

and its unit in the queue holds the time of delivery where others hold the hash of their tags. One queue per level, so
in each of them messages are due in the order in which they stand. Nothing here waits or stores.

Compatibility: ``CommitLog.asyncPutMessage``, ``CommitLog.checkMessageAndReturnSize`` and
``ScheduleMessageService.computeDeliverTimestamp`` (4.9.8). A DELAY that is no number delays nothing here: a send is
refused before it comes this far, and in Java everything else that stores the message fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import attrs

from rocketpy.errors import SettingsError
from rocketpy.protocol.delay_level import parse_delay_levels, read_delay_level
from rocketpy.protocol.java_hash import tags_code as hash_of_tags
from rocketpy.protocol.properties import (
    PROPERTY_DELAY_TIME_LEVEL,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TAGS,
)
from rocketpy.protocol.sysflag import TRANSACTION_COMMIT_TYPE, TRANSACTION_NOT_TYPE, transaction_type
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC

KEY = "messageDelayLevel"
_UNKNOWN_LEVEL_MS = 1_000


class DelayableMessage(Protocol):
    """A message that is about to be stored, with the fields that a delay rewrites; ``MessageExtBrokerInner`` is one."""

    topic: str
    queue_id: int
    properties: dict[str, str]

    @property
    def sys_flag(self) -> int: ...


@attrs.frozen
class DelayLevels:
    """The levels of one broker. Level 1 is the first; 0 means no delay."""

    delays_ms: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> DelayLevels:
        """Return the levels that a setting names; SettingsError says which part of it is wrong.

        >>> DelayLevels.parse("1s 5s 1m").delays_ms
        (1000, 5000, 60000)
        """
        try:
            return cls(parse_delay_levels(text))
        except ValueError as error:
            raise SettingsError(f"{KEY} = {text[:200]!r}: {error}") from error

    @property
    def level_max(self) -> int:
        """The highest level."""
        return len(self.delays_ms)

    def level_of(self, properties: Mapping[str, str]) -> int:
        """Return how far a message is to be delayed, at most the highest level; 0 for not at all."""
        text = properties.get(PROPERTY_DELAY_TIME_LEVEL)
        if text is None:
            return 0
        return min(max(read_delay_level(text) or 0, 0), self.level_max)

    def deliver_timestamp_ms(self, level: int, store_timestamp_ms: int) -> int:
        """Return when a message is due that was stored at a time; a level that there is not waits a second."""
        return store_timestamp_ms + self.delay_ms(level)

    def delay_ms(self, level: int) -> int:
        """Return how long a level waits."""
        return self.delays_ms[level - 1] if 0 < level <= self.level_max else _UNKNOWN_LEVEL_MS

    def rewrite(self, message: DelayableMessage) -> int:
        """Send a message that wants a delay where it waits, in place; return its level, 0 if it is not delayed.

        Prepared and rolled back messages are not delayed: they are no messages to anybody yet. Nor are half messages,
        nor those that were given up: the delay begins with the commit. Compatibility: RocketMQ delays a half message,
        and then discards it.
        """
        level = self.level_of(message.properties)
        if not level or transaction_type(message.sys_flag) not in _DELAYABLE or message.topic in _NEVER_DELAYED:
            return 0
        properties = message.properties
        properties[PROPERTY_DELAY_TIME_LEVEL] = str(level)
        properties[PROPERTY_REAL_TOPIC] = message.topic
        properties[PROPERTY_REAL_QUEUE_ID] = str(message.queue_id)
        message.topic = SCHEDULE_TOPIC
        message.queue_id = level - 1
        return level

    def tags_code(self, topic: str, properties: Mapping[str, str], store_timestamp_ms: int) -> int:
        """Return what the unit of a stored message holds: when it is due, or for all others the hash of the tags.

        The store asks this when it makes units again out of the log. RocketMQ does so before it knows its levels, and
        such messages are then delivered at once.
        """
        if topic == SCHEDULE_TOPIC:
            level = self.level_of(properties)
            if level:
                return self.deliver_timestamp_ms(level, store_timestamp_ms)
        return hash_of_tags(properties.get(PROPERTY_TAGS))


_DELAYABLE = (TRANSACTION_NOT_TYPE, TRANSACTION_COMMIT_TYPE)
_NEVER_DELAYED = (TRANS_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC)
