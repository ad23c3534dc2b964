"""Delay levels: which messages are delayed, in which queue, and until when.

A message with the property DELAY is not stored in its own queue. It is rewritten and waits in SCHEDULE_TOPIC_XXXX:

::

    topic, queue id      ->   SCHEDULE_TOPIC_XXXX, level - 1
    REAL_TOPIC, REAL_QID ->   its destination when it is due
    DELAY                ->   the level, capped at the highest

Its unit in the queue has the delivery time where other units have the hash of their tags. There is one queue per level,
so within a queue messages are due in queue order. Nothing here waits or stores.

Compatibility: ``CommitLog.asyncPutMessage``, ``CommitLog.checkMessageAndReturnSize`` and
``ScheduleMessageService.computeDeliverTimestamp`` (4.9.8). A DELAY that is not a number delays nothing here: a send
with
it is refused earlier, and in Java every other path that stores the message fails.
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
        """Parse the levels of a setting; SettingsError names the invalid part.

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
        """Return the delay level of a message, capped at the highest; 0 for no delay."""
        text = properties.get(PROPERTY_DELAY_TIME_LEVEL)
        if text is None:
            return 0
        return min(max(read_delay_level(text) or 0, 0), self.level_max)

    def deliver_timestamp_ms(self, level: int, store_timestamp_ms: int) -> int:
        """Return the due time of a message stored at ``store_timestamp_ms``; an unknown level waits a second."""
        return store_timestamp_ms + self.delay_ms(level)

    def delay_ms(self, level: int) -> int:
        """Return the delay of a level."""
        return self.delays_ms[level - 1] if 0 < level <= self.level_max else _UNKNOWN_LEVEL_MS

    def rewrite(self, message: DelayableMessage) -> int:
        """Redirect a delayed message to SCHEDULE_TOPIC_XXXX, in place; return its level, 0 if it is not delayed.

        Prepared and rolled back messages are not delayed, because consumers do not see them. Neither are half messages
        and those given up after too many checks: the delay begins with the commit. Compatibility: RocketMQ delays a
        half message, and then discards it.
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
        """Return the tags code for the unit of a stored message: its due time if delayed, else the hash of its tags.

        The store calls this when it rebuilds units from the log. RocketMQ does so before it has parsed its levels, and
        then delivers such messages at once.
        """
        if topic == SCHEDULE_TOPIC:
            level = self.level_of(properties)
            if level:
                return self.deliver_timestamp_ms(level, store_timestamp_ms)
        return hash_of_tags(properties.get(PROPERTY_TAGS))


_DELAYABLE = (TRANSACTION_NOT_TYPE, TRANSACTION_COMMIT_TYPE)
_NEVER_DELAYED = (TRANS_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC)
