"""Reader of a live cluster: planned on the driver, executed on the executors, once per part.

A part is read from one broker. If that one is gone, sends garbage or lags, the next one of the part goes on at the
position that was reached; when all have failed, the error names each of them with its failure. What is read once is
not read again. Nothing is committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rocketpy.errors import BrokerError, ClientError, RemoteProtocolError, RemotingError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.topic_name import LMQ_PREFIX
from rocketpy.spark.columns.batch import record_batches
from rocketpy.spark.columns.records import Stop, find_records
from rocketpy.spark.failures import stated
from rocketpy.spark.filters import MessageFilter, PushedFilters, Range
from rocketpy.spark.live.cluster import Cluster
from rocketpy.spark.live.planning import QueuePart, plan_parts
from rocketpy.spark.live.positions import name_of
from rocketpy.spark.live.pulls import LaggingReplicaError, PieceReader
from rocketpy.spark.live.settings import LiveSettings, PullSettings
from rocketpy.spark.schema import projection

BATCH_SIZE = 4 * 2**20
"""Bytes of records that are collected before they become batches."""

Failure = RemotingError | RemoteProtocolError | BrokerError | LaggingReplicaError


class LiveReader(DataSourceReader):
    """Reads the queues of a live cluster: a partition for each piece of a queue that holds messages."""

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
        with Cluster(self._settings.pull.access) as cluster:
            return [InputPartition(part) for part in plan_parts(cluster, self._settings)]

    @stated
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield what is wanted of one part of a queue."""
        if partition.value is None:  # Spark's own partition for an empty list
            return iter(())
        return read_part(partition.value, self._settings.pull, projection(self._schema))


def read_part(part: QueuePart, settings: PullSettings, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the wanted messages of a part in order, as batches with the columns of a schema."""
    wants = _wants(part, settings.wants)
    bodies: list[bytes] = []
    size = 0
    for body in read_bodies(part, settings):
        bodies.append(body)
        size += len(body)
        if size >= BATCH_SIZE:
            yield from _batches(b"".join(bodies), part, settings, columns, wants)
            bodies, size = [], 0
    if bodies:
        yield from _batches(b"".join(bodies), part, settings, columns, wants)


def read_bodies(part: QueuePart, settings: PullSettings) -> Iterator[bytes]:
    """Yield records of a part, one after another, in pieces; a few of them may be from beyond its end.

    ``ClientError`` if messages are gone, or if no broker of the part can go on.
    """
    position = part.span.start
    failures: dict[str, Failure] = {}  # since the last progress
    while position < part.span.end:
        address = next((each for each in part.addresses if each not in failures), None)
        if address is None:
            raise _unreadable(part, position, failures)
        begun = position
        try:
            with settings.access.connect_broker(part.span.queue.broker_name, address, part.advertised_by) as client:
                reader = PieceReader(client, part.span, settings, position=position, is_slave=address in part.slaves)
                for body in reader.bodies():
                    failures.clear()
                    position = reader.position
                    yield body
                position = reader.position
        except (RemotingError, RemoteProtocolError, BrokerError, LaggingReplicaError) as failure:
            if position == begun:  # one that has given something is tried once more
                failures[address] = failure


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


def _batches(
    records: bytes, part: QueuePart, settings: PullSettings, columns: pa.Schema, wants: MessageFilter
) -> Iterator[pa.RecordBatch]:
    found = find_records(records)
    if found.stop is not Stop.END:
        raise RemoteProtocolError(
            f"one of {', '.join(part.addresses)} has answered a pull of {name_of(part.span.queue)} with bytes that are "
            f"no records: {found.why or found.stop.value}"
        )
    return record_batches(
        found.block, columns, wants=wants, decompress=settings.decompress, broker_name=part.span.queue.broker_name
    )
