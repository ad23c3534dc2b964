"""Pieces of a record batch: what is sent as one request, to one topic and, where rows choose one, to one queue.

Rule: pieces of a queue come in the order of their rows. A row that is delayed, or larger than a batch, is a piece of
its own, sent as a single message (which the producer compresses, as RocketMQ does with single messages only).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rocketpy.client import EncodedBatch, Message, MessageQueue
from rocketpy.client.producer.selectors import java_hash_of
from rocketpy.protocol.properties import PROPERTY_DELAY_TIME_LEVEL, decode_properties
from rocketpy.protocol.topic_name import RETRY_PREFIX
from rocketpy.spark.sink.column_checks import null_mask, refuse
from rocketpy.spark.sink.encoding import EncodedRows
from rocketpy.spark.sink.failures import RowFault

PIECE_ROWS_MAX = 1000
"""Messages of one request; a broker decodes more of them one by one."""

Indices = npt.NDArray[np.int64]
QueuesOf = Callable[[str], Sequence[MessageQueue]]


@attrs.frozen(eq=False)
class Piece:
    """What is sent as one request. Rows are positions in the record batch; sizes in bytes."""

    topic: str
    queue: MessageQueue | None
    """None: the producer's choice."""
    content: EncodedBatch | Message
    rows: Indices
    size: int

    @property
    def count(self) -> int:
        """Number of messages."""
        return len(self.rows)


@attrs.frozen(eq=False)
class QueueChoices:
    """What rows say about their queue: a number, or the hash of a sharding key; a column is None where none does."""

    queue_ids: Indices | None
    """-1: none."""
    hashes: Indices | None
    """-1: none; else the absolute value of Java's hash."""


def queue_choices(queue_ids: pa.Array | None, sharding_keys: pa.Array | None) -> QueueChoices:
    """Return what the two columns say; :class:`RowFault` for a negative queue or a row that says both."""
    ids = None if queue_ids is None else _integers(queue_ids)
    if queue_ids is not None and ids is not None:
        refuse((ids < 0) & ~null_mask(queue_ids), lambda row: f"the queue_id is {queue_ids[row]}, expected 0 or more")
    hashes = None if sharding_keys is None else _hashes(sharding_keys)
    if ids is not None and hashes is not None:
        refuse((ids >= 0) & (hashes >= 0), "it has a queue_id and a sharding_key, expected one of them")
    return QueueChoices(ids, hashes)


def cut(rows: EncodedRows, choices: QueueChoices, queues_of: QueuesOf, *, batch_max_bytes: int) -> Iterator[Piece]:
    """Yield the pieces of a record batch; ``queues_of`` returns the queues of a topic that messages are sent to."""
    encoded = rows.topics.dictionary_encode()
    topics, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    item_sizes = pc.binary_length(rows.items).to_numpy()
    is_alone = (rows.delay_levels > 0) | (item_sizes > batch_max_bytes)
    for code, topic in enumerate(topics):
        of_topic = np.flatnonzero(codes == code) if len(topics) > 1 else np.arange(len(codes))
        alone = np.ones(len(codes), dtype=bool) if topic.startswith(RETRY_PREFIX) else is_alone
        for queue, indices in _by_queue(topic, of_topic, choices, queues_of):
            for run in _runs(indices, alone, item_sizes, batch_max_bytes):
                yield _piece(rows, topic, queue, run, is_alone=bool(alone[run[0]]), size=int(item_sizes[run].sum()))


# ---- queues ----------------------------------------------------------------------------------------------------------


def _by_queue(
    topic: str, indices: Indices, choices: QueueChoices, queues_of: QueuesOf
) -> Iterator[tuple[MessageQueue | None, Indices]]:
    """Divide rows of a topic by their queue, each part in the order of its rows."""
    if choices.queue_ids is None and choices.hashes is None:
        yield None, indices
        return
    queues = queues_of(topic)
    positions = np.full(len(indices), -1, dtype=np.int64)
    if choices.hashes is not None:
        hashes = choices.hashes[indices]
        positions = np.where(hashes >= 0, hashes % len(queues), positions)
    if choices.queue_ids is not None:
        ids = choices.queue_ids[indices]
        for queue_id in np.unique(ids[ids >= 0]):
            positions[ids == queue_id] = _position(topic, int(queue_id), queues, indices[ids == queue_id])
    order = np.argsort(positions, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(positions[order])) + 1):
        position = int(positions[part[0]])
        yield (None if position < 0 else queues[position]), indices[part]


def _position(topic: str, queue_id: int, queues: Sequence[MessageQueue], rows: Indices) -> int:
    """Return where the queue of a number is; of several brokers the first by name that has it."""
    having = sorted((each.broker_name, at) for at, each in enumerate(queues) if each.queue_id == queue_id)
    if not having:
        ids = sorted({each.queue_id for each in queues})
        raise RowFault(int(rows[0]), f"topic {topic} has no queue {queue_id}, it has {ids[0]} to {ids[-1]}")
    return having[0][1]


def _integers(column: pa.Array) -> Indices:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), -1).to_numpy(zero_copy_only=False))


def _hashes(column: pa.Array) -> Indices:
    """Return the absolute hash of each key as Java's ``SelectMessageQueueByHash`` sees it; each key is hashed once."""
    encoded = column.dictionary_encode()
    hashes = np.array([abs(java_hash_of(key)) for key in encoded.dictionary.to_pylist()] or [0], dtype=np.int64)
    codes = np.asarray(pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False))
    return np.where(codes >= 0, hashes[codes], -1)


# ---- pieces ----------------------------------------------------------------------------------------------------------


def _runs(
    indices: Indices, alone: npt.NDArray[np.bool_], item_sizes: npt.NDArray[np.int32], batch_max_bytes: int
) -> Iterator[Indices]:
    """Cut rows of a queue into what fits into a request."""
    ends = np.cumsum(item_sizes[indices], dtype=np.int64)
    stops = np.flatnonzero(alone[indices])
    start, count = 0, len(indices)
    while start < count:
        before = int(ends[start - 1]) if start else 0
        end = int(np.searchsorted(ends, before + batch_max_bytes, side="right"))
        end = max(start + 1, min(end, start + PIECE_ROWS_MAX, count))
        nearest = np.searchsorted(stops, start)
        if nearest < len(stops):
            end = start + 1 if stops[nearest] == start else min(end, int(stops[nearest]))
        yield indices[start:end]
        start = end


def _piece(
    rows: EncodedRows, topic: str, queue: MessageQueue | None, indices: Indices, *, is_alone: bool, size: int
) -> Piece:
    if is_alone:
        return Piece(topic, queue, _message(rows, topic, int(indices[0])), indices, size)
    first, last = int(indices[0]), int(indices[-1])
    are_consecutive = last - first + 1 == len(indices)
    items = rows.items.slice(first, len(indices)) if are_consecutive else rows.items.take(pa.array(indices))
    return Piece(topic, queue, EncodedBatch(topic, _content(items)), indices, size)


def _content(items: pa.BinaryArray) -> bytes:
    """Return consecutive items back to back: they are so in Arrow's buffer."""
    _, offsets, content = items.buffers()
    start, end = np.frombuffer(offsets, dtype=np.int32)[[items.offset, items.offset + len(items)]]
    return bytes(memoryview(content)[start:end])


def _message(rows: EncodedRows, topic: str, row: int) -> Message:
    properties = decode_properties(rows.properties[row].as_py().decode())
    level = int(rows.delay_levels[row])
    if level:
        properties[PROPERTY_DELAY_TIME_LEVEL] = str(level)
    return Message(topic, rows.bodies[row].as_py(), properties)
