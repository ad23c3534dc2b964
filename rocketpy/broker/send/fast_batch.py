"""Fast path for ordinary batches: SEND_BATCH_MESSAGE in JSON.

It takes batches to *plain* topics (:mod:`.fast_path`) whose properties have no special meaning, and declines any other
without side effects: the general path (:mod:`.processor`) serves it with all checks.

Where the kernels are compiled, a body of the common form is read and stored by one of them
(``MessageStore.put_packed``). Any other body, and every body where they are not, is split into columns.

Compatibility: ``SendMessageProcessor`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from rocketpy import BUILD
from rocketpy.broker.send.answers import Receipt
from rocketpy.broker.send.collaborators import SendCollaborators
from rocketpy.broker.send.long_batch import AT_ONCE_BYTES, AT_ONCE_COUNT, is_long
from rocketpy.broker.send.properties import (
    BATCH_BYTES_MAX,
    BROKER_ONLY_MARK,
    KEYS_MARK,
    NOT_PLAIN,
    READ_BY_DISPATCH,
    fits_as_batch,
    stored_batch,
)
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.batch import split_batch_body
from rocketpy.protocol.codes import RequestCode, SerializeType
from rocketpy.protocol.command import ONEWAY_FLAG, RemotingCommand
from rocketpy.protocol.fast_path_headers import FAST_HEADER_ERRORS, FastSendFields, FastSendHeader, decode_fast_send
from rocketpy.protocol.properties import decode_properties, encode_properties
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import TOOK_LONG
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import PutMessageStatus

if TYPE_CHECKING:
    from rocketpy.protocol.kernels.batch import BatchItems

_PUT_OK = PutMessageStatus.PUT_OK

_SHARED_CACHED_MAX = 16
_SHARED_TEXT_MAX = 1000
"""Characters; longer properties of a whole batch take the general path. Bounds what the cache keeps."""

_MANY = 100
"""Messages in a batch from which on it is reported as TOOK_LONG; they take about 0.25 ms."""

_IS_BATCH = b'"m":"true"'
"""The flag as clients write it. The fast decoder also takes 1 for true, which Java does not."""

PlainTopic = Callable[[str], "tuple[int, object] | None"]
ReadBatch = Callable[[bytes, int, int], "BatchItems | None"]


def _reader_of_batches() -> ReadBatch | None:
    if not BUILD.has_kernels:
        return None
    from rocketpy.protocol.kernels.batch import read_batch

    return read_batch


READ_BATCH: Final = _reader_of_batches()
"""The kernel that reads a batch body; None where the kernels are not compiled."""


class FastBatch:
    """Processor for plain batches. One per broker."""

    def __init__(
        self, shared: SendCollaborators, *, plain_topic: PlainTopic, read_batch: ReadBatch | None = READ_BATCH
    ) -> None:
        """``plain_topic`` returns the number of a plain topic's queues, None for any other.

        ``read_batch`` is the kernel, None to split every body into columns.
        """
        self._plain_topic = plain_topic
        store = self._store = shared.store
        # A plug-in between broker and store takes batches by put_batch.
        self._read_batch = read_batch if isinstance(store, MessageStore) else None
        self._waits_for_storing = store.waits_for_storing
        self._answers = shared.answers
        self._outcome = shared.outcome
        self._stats = shared.stats
        self._config = shared.config
        cluster = shared.config.broker_cluster_name
        self._shared_of_batch = lru_cache(maxsize=_SHARED_CACHED_MAX)(partial(_shared_of_batch, cluster=cluster))

    def process_fast(self, connection: Connection, header: bytes, body: bytes | None) -> int:
        """Serve a plain JSON batch; return False, without side effects, for any other."""
        try:
            request = decode_fast_send(header)
        except FAST_HEADER_ERRORS:
            return False
        fields = request.ext_fields
        plain = self._plain_topic(fields.topic)
        if plain is None:
            return False
        if not 0 <= fields.queue_id < plain[0] or _IS_BATCH not in header:
            return False
        body = body or b""
        if len(body) > self._store.message_size_max or BROKER_ONLY_MARK in body:
            return False
        if self._store.is_index_behind or (self._waits_for_storing and not connection.may_defer):
            return False
        text = fields.properties
        shared = self._shared_of_batch(text) if len(text) <= _SHARED_TEXT_MAX else None
        if shared is None:
            return False
        suffix, wait = shared
        stored = None
        if self._read_batch is not None and len(body) <= AT_ONCE_BYTES:
            stored = self._put_packed(self._read_batch, connection, fields, body, suffix)
        if stored is None:
            return self._put_columns(connection, request, body, suffix, wait)
        return self._stored(connection, request, *stored, wait)

    # ---- private --------------------------------------------------------------------------------------------------

    def _put_packed(
        self, read_batch: ReadBatch, connection: Connection, fields: FastSendFields, body: bytes, suffix: bytes
    ) -> tuple[Sequence[int], int] | None:
        """Store a body of the common form; None, with nothing done, for any other."""
        items = read_batch(body, len(suffix), self._config.batch_messages_max)
        if items is None or len(body) + items.count * len(suffix) > BATCH_BYTES_MAX or KEYS_MARK in suffix:
            return None
        return self._store.put_packed(
            fields.topic,
            fields.queue_id,
            items,
            suffix,
            fields.sys_flag,
            fields.born_timestamp,
            connection.born_host,
            fields.reconsume_times,
        )

    def _put_columns(
        self, connection: Connection, request: FastSendHeader, body: bytes, suffix: bytes, wait: str | None
    ) -> int:
        """Store any body, or refuse it; return False if it is for the general path."""
        fields = request.ext_fields
        count_max = self._config.batch_messages_max
        if len(body) > AT_ONCE_BYTES:
            count_max = min(count_max, AT_ONCE_COUNT)
        try:
            columns = split_batch_body(body, count_max=count_max)
        except RemoteProtocolError:
            return False
        if is_long(columns, body) or not fits_as_batch(columns, body, suffix):
            return False
        batch = stored_batch(columns, suffix, suffix_has_no_tags_or_keys=True)
        status, physical_offsets, queue_offset = self._store.put_batch(
            fields.topic,
            fields.queue_id,
            batch,
            fields.sys_flag,
            fields.born_timestamp,
            connection.born_host,
            fields.reconsume_times,
        )
        if status is not _PUT_OK:
            if not request.flag & ONEWAY_FLAG:
                refused = RemotingCommand(code=RequestCode.SEND_BATCH_MESSAGE, opaque=request.opaque)
                longest = max(batch.properties, key=len)
                connection.reply(self._outcome.not_stored(refused, status, body, longest))
            return True
        return self._stored(connection, request, physical_offsets, queue_offset, wait)

    def _stored(
        self,
        connection: Connection,
        request: FastSendHeader,
        physical_offsets: Sequence[int],
        queue_offset: int,
        wait: str | None,
    ) -> int:
        """Count a batch that was put and answer it, under SYNC_FLUSH after the flush."""
        fields, count = request.ext_fields, len(physical_offsets)
        self._stats.inc_topic_put(fields.topic, count, self._store.wrote_offset - physical_offsets[0])
        msg_id = self._answers.batch_msg_id(physical_offsets)
        is_oneway = bool(request.flag & ONEWAY_FLAG)
        if self._waits_for_storing:
            receipt = Receipt(request.opaque, SerializeType.JSON, msg_id, fields.queue_id, queue_offset)
            self._outcome.stored(connection, receipt, oneway=is_oneway, wait=wait)
        elif not is_oneway:
            connection.reply_frame(self._answers.batch_success(request.opaque, msg_id, fields.queue_id, queue_offset))
        return True if count < _MANY else TOOK_LONG


def _shared_of_batch(text: str, *, cluster: str) -> tuple[bytes, str | None] | None:
    """Return the properties that a whole batch adds to each message, and WAIT; None if they are not plain."""
    shared = decode_properties(text)
    if not NOT_PLAIN.isdisjoint(shared) or not READ_BY_DISPATCH.isdisjoint(shared):
        return None
    shared["CLUSTER"] = cluster
    return encode_properties(shared).encode(), shared.get("WAIT")
