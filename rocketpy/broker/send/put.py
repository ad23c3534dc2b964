"""Puts messages that the broker has built or rewritten into the store.

Used for messages that exist as values: sends on the general path, retries, replies, committed transactions, delayed
messages that are due. The message has every field that is stored of it; the tags code and the keys are passed to the
store, because it does not parse properties. Nothing here waits: callers that answer a client ask for durability with
``MessageStore.wait_stored``.

Compatibility: ``MessageExtBrokerInner`` and the first part of ``CommitLog.asyncPutMessage`` (4.9.8). Every record
carries this broker's own store host, even when the message was read from the store and is put again.
"""

from __future__ import annotations

from typing import Protocol

import attrs

from rocketpy.broker.delay.levels import DelayLevels
from rocketpy.protocol.host import encode_host
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.properties import encode_properties, index_keys
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import PutMessageStatus


@attrs.define(kw_only=True, eq=False)
class MessageExtBrokerInner:
    """A message to be stored. Rewriting (delay, transaction, retry) changes it in place."""

    topic: str
    queue_id: int
    body: bytes  # as stored: compressed if sys_flag says so
    properties: dict[str, str]  # without WAIT unless it is to be stored
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int  # ms since the epoch
    born_host: bytes  # 4 or 16 bytes of address, 4 of port
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0

    @classmethod
    def of_stored(
        cls, stored: MessageExt, *, topic: str, queue_id: int, properties: dict[str, str] | None = None
    ) -> MessageExtBrokerInner:
        """Return a copy of a stored message for another topic and queue; its body is not decompressed.

        The properties are those given, or a copy of the stored ones. ``prepared_transaction_offset`` is 0.
        """
        return cls(
            topic=topic,
            queue_id=queue_id,
            body=stored.body,
            properties=dict(stored.properties) if properties is None else properties,
            flag=stored.flag,
            sys_flag=stored.sys_flag,
            born_timestamp=stored.born_timestamp,
            born_host=encode_host(stored.born_host),
            reconsume_times=stored.reconsume_times,
        )


@attrs.frozen(slots=True)
class PutMessageResult:
    """Status of a put, and the topic and queue that were written; offsets are -1 when the message was refused."""

    status: PutMessageStatus
    physical_offset: int
    queue_offset: int
    topic: str
    queue_id: int

    @property
    def is_ok(self) -> bool:
        """Whether the message is in the store."""
        return self.status is PutMessageStatus.PUT_OK


class DelayedDelivery(Protocol):
    """Listener for delayed messages: ScheduleMessageService."""

    def before_delayed(self) -> None:
        """Called before a delayed message is stored."""
        ...

    def message_delayed(self, level: int, queue_offset: int) -> None:
        """Called after a delayed message was stored."""
        ...


class MessagePut:
    """Writer of messages to the store of one broker. ``delivery`` is notified of each delayed one."""

    def __init__(self, *, store: MessageStore, levels: DelayLevels, delivery: DelayedDelivery | None = None) -> None:
        self._store = store
        self._levels = levels
        self._delivery = delivery

    def put(self, message: MessageExtBrokerInner) -> PutMessageResult:
        """Append a message. It is readable, and survives a kill, after ``MessageStore.end_burst``.

        A message with a delay is rewritten by :meth:`DelayLevels.rewrite` and waits in SCHEDULE_TOPIC_XXXX.
        """
        level = self._levels.rewrite(message)
        properties = message.properties
        stored = encode_properties(properties).encode("utf-8", "replace")
        keys = index_keys(properties.get("UNIQ_KEY"), properties.get("KEYS"))
        others = (
            message.flag,
            message.sys_flag,
            message.born_timestamp,
            message.born_host,
            message.reconsume_times,
            message.prepared_transaction_offset,
        )
        delivery = self._delivery
        if level:
            if delivery is not None:
                delivery.before_delayed()
            status, physical_offset, queue_offset = self._store.put_timed(
                message.topic,
                message.queue_id,
                message.body,
                stored,
                self._levels.delay_ms(level),
                keys,
                *others,
            )
            if delivery is not None and status is PutMessageStatus.PUT_OK:
                delivery.message_delayed(level, queue_offset)
        else:
            status, physical_offset, queue_offset = self._store.put(
                message.topic,
                message.queue_id,
                message.body,
                stored,
                tags_code(properties.get("TAGS")),
                keys,
                *others,
            )
        return PutMessageResult(status, physical_offset, queue_offset, message.topic, message.queue_id)
