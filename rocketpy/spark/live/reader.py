"""Reader of a live cluster: planned on the driver, executed on the executors, once per task.

A task reads its parts one after the other, over one connection to each broker. A part is read from one broker. If that
one is gone, sends garbage or lags, the next one of the part goes on at the position that was reached. Where all have
failed, lost connections are tried again as long as an answer may take (``requestTimeoutMs``): a broker that restarts
meanwhile costs nothing but time. Then the error names each broker with its failure. What is read once is not read
again. Nothing is committed.

A broker leaves out, without a word, messages whose file it has just deleted. So queue offsets are counted where
the broker does not choose messages.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import attrs
import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rocketpy.errors import BrokerError, ClientError, RemoteProtocolError, RemotingSendRequestError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.topic_name import LMQ_PREFIX
from rocketpy.spark.columns.batch import record_batches
from rocketpy.spark.columns.layout import QUEUE_OFFSET, read_int64
from rocketpy.spark.columns.records import RecordBlock, Stop, find_records
from rocketpy.spark.failures import stated
from rocketpy.spark.filters import MessageFilter, PushedFilters, Range
from rocketpy.spark.live.attempts import FAILURES, Attempts, Failure
from rocketpy.spark.live.cluster import Cluster
from rocketpy.spark.live.connections import BrokerConnections
from rocketpy.spark.live.planning import QueuePart, TaskParts, plan_parts
from rocketpy.spark.live.positions import name_of
from rocketpy.spark.live.pulls import PieceReader
from rocketpy.spark.live.settings import LiveSettings, PullSettings
from rocketpy.spark.schema import projection

BATCH_SIZE = 4 * 2**20
"""Bytes of records that are collected before they become batches, and of small batches before they become one."""


class LiveReader(DataSourceReader):
    """Reads the queues of a live cluster: a partition for each piece of a long queue, or for pieces of short ones."""

    pushFilters = PushedFilters()  # noqa: N815 - Spark's name

    def __init__(self, settings: LiveSettings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema

    @property
    def wants(self) -> MessageFilter:
        """What the options and the filters of the query ask for."""
        return self._settings.pull.wants

    @wants.setter
    def wants(self, wants: MessageFilter) -> None:
        self._settings = attrs.evolve(self._settings, pull=attrs.evolve(self._settings.pull, wants=wants))

    @stated
    def partitions(self) -> Sequence[InputPartition]:
        """Ask the cluster for queues and their offsets."""
        asks_slaves = self._settings.reads_slaves
        with Cluster(self._settings.pull.access, asks_slaves=asks_slaves) as cluster:
            return [InputPartition(parts) for parts in plan_parts(cluster, self._settings, cores=cores_here())]

    @stated
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield what is wanted of the parts of one task."""
        if partition.value is None:  # Spark's own partition for an empty list
            return iter(())
        return read_parts(partition.value, self._settings.pull, projection(self._schema))


def cores_here() -> int:
    """Return how many cores this process may use: the driver's where a read is planned, which knows no others."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_parts(parts: TaskParts, settings: PullSettings, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the wanted messages of parts, each in the order of its queue, as batches with the columns of a schema.

    The rows of short queues come in common batches, because a batch costs Spark as much as many rows.
    """
    with BrokerConnections(settings.access) as connections:
        batches = (batch for part in parts for batch in _read_part(part, settings, columns, connections))
        yield from batches if len(parts) == 1 else _common_batches(batches)


def _common_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of at least ``BATCH_SIZE`` bytes, but for the last one."""
    collected: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        collected.append(batch)
        size += batch.nbytes
        if size >= BATCH_SIZE:
            yield from _joined_batches(collected)
            collected, size = [], 0
    if collected:
        yield from _joined_batches(collected)


def _joined_batches(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    joined: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def _read_part(
    part: QueuePart, settings: PullSettings, columns: pa.Schema, connections: BrokerConnections
) -> Iterator[pa.RecordBatch]:
    wants = _wants(part, settings.wants)
    position = part.span.start
    for records in _joined(_read_bodies(part, settings, connections)):
        block = _block(records, part)
        if _must_be_complete(part, settings):
            _check_complete(block, part, position)
            position += len(block)
        yield from record_batches(
            block, columns, wants=wants, decompress=settings.decompress, broker_name=part.span.queue.broker_name
        )
    if _must_be_complete(part, settings) and position < part.span.end:
        raise _lost(part, position, part.span.end)


def _read_bodies(part: QueuePart, settings: PullSettings, connections: BrokerConnections) -> Iterator[bytes]:
    """Yield records of a part, one after another, in pieces; a few of them may be from beyond its end.

    ``ClientError`` if messages are gone, or if no broker of the part can go on.
    """
    position = part.span.start
    attempts = Attempts(part.addresses, settings.access.timeout_s)
    while position < part.span.end:
        address = attempts.next_address()
        if address is None:
            raise _unreadable(part, position, attempts.failures)
        begun = position
        is_kept = address in connections
        try:
            client = connections.open(part.span.queue.broker_name, address, part.advertised_by)
            reader = PieceReader(client, part.span, settings, position=position, is_slave=address in part.slaves)
            for body in reader.bodies():
                attempts.progressed()
                position = reader.position
                yield body
            position = reader.position
            if not reader.is_idle:
                connections.close(address)
        except FAILURES as failure:
            connections.close(address)
            # One that has given something is tried once more, and one that had restarted since the part before.
            if position == begun and not (is_kept and isinstance(failure, RemotingSendRequestError)):
                attempts.failed(address, failure)


def _joined(bodies: Iterable[bytes]) -> Iterator[bytes]:
    collected: list[bytes] = []
    size = 0
    for body in bodies:
        collected.append(body)
        size += len(body)
        if size >= BATCH_SIZE:
            yield b"".join(collected)
            collected, size = [], 0
    if collected:
        yield b"".join(collected)


def _unreadable(part: QueuePart, position: int, failures: dict[str, Failure]) -> Exception:
    if len(failures) == 1:
        [failure] = failures.values()
        if isinstance(failure, BrokerError):
            return failure
    why = "; ".join(str(failure) for failure in failures.values())
    return ClientError(ResponseCode.SYSTEM_ERROR, f"{name_of(part.span.queue)} offset {position} cannot be read: {why}")


def _wants(part: QueuePart, wants: MessageFilter) -> MessageFilter:
    """Add the range of the part: an answer of a broker that filters may have messages from beyond it."""
    if part.span.queue.topic.startswith(LMQ_PREFIX):  # its records have the offsets of other queues
        return wants
    span = Range(part.span.start, part.span.end)
    return attrs.evolve(wants, queue_offsets=wants.queue_offsets.intersect(span))


def _block(records: bytes, part: QueuePart) -> RecordBlock:
    found = find_records(records)
    if found.stop is not Stop.END:
        raise RemoteProtocolError(
            f"one of {', '.join(part.addresses)} has answered a pull of {name_of(part.span.queue)} with bytes that are "
            f"no records: {found.why or found.stop.value}"
        )
    return found.block


def _must_be_complete(part: QueuePart, settings: PullSettings) -> bool:
    """Whether each offset of a part has a message: not if the broker chooses, nor in a queue of other queues'."""
    chooses = not settings.expression.is_everything
    return settings.fail_on_data_loss and not chooses and not part.span.queue.topic.startswith(LMQ_PREFIX)


def _check_complete(block: RecordBlock, part: QueuePart, position: int) -> None:
    offsets = read_int64(block.buffer, block.starts + QUEUE_OFFSET)
    others = np.flatnonzero(offsets != np.arange(position, position + len(offsets)))
    if not len(others):
        return
    expected, found = position + int(others[0]), int(offsets[others[0]])
    if found > expected:
        raise _lost(part, expected, found)
    raise RemoteProtocolError(
        f"one of {', '.join(part.addresses)} has answered a pull of {name_of(part.span.queue)} offset {expected} with "
        f"the message at offset {found}"
    )


def _lost(part: QueuePart, start: int, end: int) -> ClientError:
    return ClientError(
        ResponseCode.PULL_OFFSET_MOVED,
        f"messages {start} to {end - 1} of {name_of(part.span.queue)} are no longer there: they were deleted after the "
        "read was planned (failOnDataLoss=false reads what is left)",
    )
