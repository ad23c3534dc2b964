"""Fast path for ordinary batches: SEND_BATCH_MESSAGE in JSON.

It takes batches to *plain* topics (:mod:`.fast_path`) whose properties have no special meaning, and declines any other
without side effects: the general path (:mod:`.processor`) serves it with all checks.

Where the kernels are compiled, they read a header and a body of the common form, and store it
(``MessageStore.put_packed``). Any other header, and every header where they are not, is decoded in one step; any other
body is split into columns.

Compatibility: ``SendMessageProcessor`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, final

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
from rocketpy.protocol.fast_path_headers import FAST_HEADER_ERRORS, DecodeBatch, decode_fast_batch
from rocketpy.protocol.properties import decode_properties, encode_properties
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import TOOK_LONG
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import PutMessageStatus

if TYPE_CHECKING:
    from rocketpy.protocol.kernels.batch import BatchItems
    from rocketpy.protocol.kernels.send_header import SendHeader

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
NewHeader = Callable[[], "SendHeader"]
"""Returns a kernel that reads the headers of one connection."""


def _reader_of_batches() -> ReadBatch | None:
    if not BUILD.has_kernels:
        return None
    from rocketpy.protocol.kernels.batch import read_batch

    return read_batch


READ_BATCH: Final = _reader_of_batches()
"""The kernel that reads a batch body; None where the kernels are not compiled."""


@final
class BatchRequest:
    """What is read of the header of a batch."""

    def __init__(
        self,
        topic: str,
        queue_id: int,
        sys_flag: int,
        born_timestamp: int,
        properties: str,
        reconsume_times: int,
        opaque: int,
        flag: int,
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.sys_flag = sys_flag
        self.born_timestamp = born_timestamp
        self.properties = properties
        self.reconsume_times = reconsume_times
        self.opaque = opaque
        self.is_oneway = bool(flag & ONEWAY_FLAG)


class FastBatch:
    """Processor for plain batches. One per broker."""

    def __init__(
        self,
        shared: SendCollaborators,
        *,
        plain_topic: PlainTopic,
        decode: DecodeBatch = decode_fast_batch,
        new_header: NewHeader | None = None,
        read_batch: ReadBatch | None = READ_BATCH,
    ) -> None:
        """``plain_topic`` returns the number of a plain topic's queues, None for any other.

        ``new_header`` makes the kernel that reads a connection's headers, None to ``decode`` all of them;
        ``read_batch`` is the kernel that reads a body, None to split every body into columns.
        """
        self._plain_topic = plain_topic
        self._decode = decode
        self._new_header = new_header
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
        request = self._read(connection, header)
        if request is None:
            return False
        plain = self._plain_topic(request.topic)
        if plain is None or not 0 <= request.queue_id < plain[0]:
            return False
        body = body or b""
        if len(body) > self._store.message_size_max:
            return False
        if self._store.is_index_behind or (self._waits_for_storing and not connection.may_defer):
            return False
        text = request.properties
        shared = self._shared_of_batch(text) if len(text) <= _SHARED_TEXT_MAX else None
        if shared is None:
            return False
        suffix, wait = shared
        stored = None
        if self._read_batch is not None and len(body) <= AT_ONCE_BYTES:
            stored = self._put_packed(self._read_batch, connection, request, body, suffix)
        if stored is None:
            return self._put_columns(connection, request, body, suffix, wait)
        return self._stored(connection, request, *stored, wait)

    # ---- private --------------------------------------------------------------------------------------------------

    def _read(self, connection: Connection, header: bytes) -> BatchRequest | None:
        """Read a header, unless the guard before this path has read it; None for the general path."""
        if self._new_header is not None:
            sent = connection.last_send
            if sent is None:
                sent = connection.last_send = self._new_header()
            if (sent.header is header or sent.read(header)) and sent.is_batch:
                return BatchRequest(
                    sent.topic,
                    sent.queue_id,
                    sent.sys_flag,
                    sent.born_timestamp,
                    sent.batch_properties,
                    sent.reconsume_times,
                    sent.opaque,
                    sent.command_flag,
                )
        try:
            request = self._decode(header)
        except FAST_HEADER_ERRORS:
            return None
        if _IS_BATCH not in header:
            return None
        fields = request.ext_fields
        return BatchRequest(
            fields.topic,
            fields.queue_id,
            fields.sys_flag,
            fields.born_timestamp,
            fields.properties,
            fields.reconsume_times,
            request.opaque,
            request.flag,
        )

    def _put_packed(
        self, read_batch: ReadBatch, connection: Connection, request: BatchRequest, body: bytes, suffix: bytes
    ) -> tuple[Sequence[int], int] | None:
        """Store a body of the common form; None, with nothing done, for any other."""
        items = read_batch(body, len(suffix), self._config.batch_messages_max)
        if items is None or len(body) + items.count * len(suffix) > BATCH_BYTES_MAX or KEYS_MARK in suffix:
            return None
        return self._store.put_packed(
            request.topic,
            request.queue_id,
            items,
            suffix,
            request.sys_flag,
            request.born_timestamp,
            connection.born_host,
            request.reconsume_times,
        )

    def _put_columns(
        self, connection: Connection, request: BatchRequest, body: bytes, suffix: bytes, wait: str | None
    ) -> int:
        """Store any body, or refuse it; return False if it is for the general path."""
        if BROKER_ONLY_MARK in body:
            return False
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
            request.topic,
            request.queue_id,
            batch,
            request.sys_flag,
            request.born_timestamp,
            connection.born_host,
            request.reconsume_times,
        )
        if status is not _PUT_OK:
            if not request.is_oneway:
                refused = RemotingCommand(code=RequestCode.SEND_BATCH_MESSAGE, opaque=request.opaque)
                longest = max(batch.properties, key=len)
                connection.reply(self._outcome.not_stored(refused, status, body, longest))
            return True
        return self._stored(connection, request, physical_offsets, queue_offset, wait)

    def _stored(
        self,
        connection: Connection,
        request: BatchRequest,
        physical_offsets: Sequence[int],
        queue_offset: int,
        wait: str | None,
    ) -> int:
        """Count a batch that was put and answer it, under SYNC_FLUSH after the flush."""
        count = len(physical_offsets)
        self._stats.inc_topic_put(request.topic, count, self._store.wrote_offset - physical_offsets[0])
        msg_id = self._answers.batch_msg_id(physical_offsets)
        if self._waits_for_storing:
            receipt = Receipt(request.opaque, SerializeType.JSON, msg_id, request.queue_id, queue_offset)
            self._outcome.stored(connection, receipt, oneway=request.is_oneway, wait=wait)
        elif not request.is_oneway:
            connection.reply_frame(self._answers.batch_success(request.opaque, msg_id, request.queue_id, queue_offset))
        return True if count < _MANY else TOOK_LONG


def _shared_of_batch(text: str, *, cluster: str) -> tuple[bytes, str | None] | None:
    """Return the properties that a whole batch adds to each message, and WAIT; None if they are not plain."""
    shared = decode_properties(text)
    if not NOT_PLAIN.isdisjoint(shared) or not READ_BY_DISPATCH.isdisjoint(shared):
        return None
    shared["CLUSTER"] = cluster
    return encode_properties(shared).encode(), shared.get("WAIT")
