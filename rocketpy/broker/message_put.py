"""How a message that the broker has made or rewritten gets into the store.

Whoever has a message in its hands as values (a send down the whole road, a retry, a reply, a committed transaction, a
delayed message whose time has come) puts it here. The message says everything that is stored of it; the store is handed
the tags code and the keys, because it knows no properties. Nothing here waits: durability is asked for by whoever
answers somebody, with ``MessageStore.wait_durable``.

Compatibility: ``MessageExtBrokerInner`` and the first part of ``CommitLog.asyncPutMessage`` (4.9.8). Every record
carries this broker's own store host, also of a message that was read from the store and put again.
"""

from __future__ import annotations

import attrs

from rocketpy.protocol.java_hash import tags_code
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


class MessagePut:
    """Puts messages into the store of one broker."""

    def __init__(self, *, store: MessageStore) -> None:
        self._store = store

    def put(self, message: MessageExtBrokerInner) -> PutMessageResult:
        """Append a message; readable, and safe from a kill, with the end of the burst (``MessageStore.end_burst``)."""
        properties = message.properties
        status, physical_offset, queue_offset = self._store.put(
            message.topic,
            message.queue_id,
            message.body,
            encode_properties(properties).encode(),
            tags_code(properties.get("TAGS")),
            index_keys(properties.get("UNIQ_KEY"), properties.get("KEYS")),
            message.flag,
            message.sys_flag,
            message.born_timestamp,
            message.born_host,
            message.reconsume_times,
            message.prepared_transaction_offset,
        )
        return PutMessageResult(status, physical_offset, queue_offset, message.topic, message.queue_id)
