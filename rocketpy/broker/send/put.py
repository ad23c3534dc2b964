"""How a message that the broker has made or rewritten gets into the store.

Whoever has a message in its hands as values (a send down the whole road, a retry, a reply, a committed transaction, a
delayed message whose time has come) puts it here. The message says everything that is stored of it; the store is handed
the tags code and the keys, because it knows no properties. Nothing here waits: durability is asked for by whoever
answers somebody, with ``MessageStore.wait_durable``.

Compatibility: ``MessageExtBrokerInner`` and the first part of ``CommitLog.asyncPutMessage`` (4.9.8). Every record
carries this broker's own store host, also of a message that was read from the store and put again.
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
    """A message on its way into the store; who rewrites it (delay, transaction, retry) changes it in place."""

    topic: str
    queue_id: int
    body: bytes  # as it is stored: compressed if the system flag says so
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
        """Return a message to put that says what a stored one does, in another place; its body not decompressed.

        The properties are those given, or a copy of the stored ones. Of a transaction it says nothing yet.
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
    """What became of a message, and the queue it was really written to; offsets are -1 when it was refused."""

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
    """Who delivers delayed messages: ScheduleMessageService."""

    def before_delayed(self) -> None:
        """Hear that a message is about to be put where it waits."""
        ...

    def message_delayed(self, level: int) -> None:
        """Hear that it was put."""
        ...


class MessagePut:
    """Puts messages into the store of one broker. ``delivery`` is told of each one that has to wait."""

    def __init__(self, *, store: MessageStore, levels: DelayLevels, delivery: DelayedDelivery | None = None) -> None:
        self._store = store
        self._levels = levels
        self._delivery = delivery

    def put(self, message: MessageExtBrokerInner) -> PutMessageResult:
        """Append a message; readable, and safe from a kill, with the end of the burst (``MessageStore.end_burst``).

        One that wants a delay is rewritten, see :meth:`DelayLevels.rewrite`, and waits in SCHEDULE_TOPIC_XXXX.
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
                delivery.message_delayed(level)
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
