"""Dead letters of delayed messages: those that are due and can never be delivered.

::

    SCHEDULE_TOPIC_XXXX              rmq_sys_DELAY_DEAD_LETTER, queue 0
    +-----------+------------+       +-----------------------------------+
    | P, due at | due later  |       | copy of P, DEAD_LETTER_REASON=... |
    +-----------+------------+       +-----------------------------------+

A message exceeds a limit permanently when a setting has changed while it waited (``maxMessageSize``, the topics that it
names, the number of light queues), or when another broker accepted it. It must not be dropped, and must not block the
messages after it. The copy has its destination (REAL_TOPIC, REAL_QID) and the reason. Like every delivery it also has
the physical offset of the original, so that it is made once however the broker ends.

The topic belongs to the broker: it is created with its first message, and clients may not send to it, change it or
delete it.

Compatibility: ``ScheduleMessageService`` (4.9.8) retries such a message forever, and its level stops.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from rocketpy.broker.delay.delayed_message import DelayedMessage
from rocketpy.log_files import is_logged
from rocketpy.protocol.properties import PROPERTIES_SIZE_MAX
from rocketpy.protocol.sysflag import COMPRESSED_FLAG
from rocketpy.protocol.topic_name import DELAY_DEAD_LETTER_TOPIC
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import PutMessageStatus

FINAL_STATUSES = frozenset(
    (
        PutMessageStatus.MESSAGE_ILLEGAL,
        PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
        PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED,
    )
)
"""Refusals caused by the message itself, so that a retry cannot succeed. All others are temporary."""

PROPERTY_DEAD_LETTER_REASON = "DEAD_LETTER_REASON"
_QUEUE_ID = 0

_log = logging.getLogger("rocketpy.broker")


class DelayDeadLetters:
    """Writer of one broker's dead letters. ``make_topic`` creates their topic if it is missing."""

    def __init__(self, *, store: MessageStore, make_topic: Callable[[], None]) -> None:
        self._store = store
        self._make_topic = make_topic
        self.count = 0  # since the start

    def begin(self) -> None:
        """Create the topic if its queue has messages: a crash may have lost the topic from its file."""
        if self._store.max_offset_in_queue(DELAY_DEAD_LETTER_TOPIC, _QUEUE_ID):
            self._make_topic()

    def put(self, message: DelayedMessage, physical_offset: int, why: str) -> PutMessageStatus:
        """Put a copy of the message at ``physical_offset``, without its body if that exceeds a file of the log.

        One of ``FINAL_STATUSES`` means that even the copy without its body cannot be stored.
        """
        self._make_topic()
        status = self._put(message, message.body, message.sys_flag, physical_offset, why)
        if status in FINAL_STATUSES and message.body:
            status = self._put(message, b"", message.sys_flag & ~COMPRESSED_FLAG, physical_offset, why)
        if status is PutMessageStatus.PUT_OK:
            self.count += 1
            if is_logged(self.count):
                _log.error(
                    "the delayed message at %d of the log, for %r, cannot be delivered: %s; it is in %s, "
                    "the last of %d since the start",
                    physical_offset, message.topic, why, DELAY_DEAD_LETTER_TOPIC, self.count,
                )  # fmt: skip
        return status

    def _put(
        self, message: DelayedMessage, body: bytes, sys_flag: int, physical_offset: int, why: str
    ) -> PutMessageStatus:
        reason = f"\x02{PROPERTY_DEAD_LETTER_REASON}\x01{why}".encode()
        properties = message.stored_properties
        if len(properties) + len(reason) <= PROPERTIES_SIZE_MAX:
            properties += reason
        status, _, _ = self._store.put_kept(
            DELAY_DEAD_LETTER_TOPIC,
            _QUEUE_ID,
            body,
            properties,
            message.tags_code,
            message.keys,
            message.flag,
            sys_flag,
            message.born_timestamp,
            message.born_host,
            message.reconsume_times,
            ~physical_offset,
        )
        return status
