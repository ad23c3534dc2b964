"""Reader of ``spark.readStream.format("rocketmq")``.

Spark makes it twice. One stays in a process beside the driver for the life of the query and plans batches; what it
keeps there is made on first use. The other is pickled before any use and sent to the executors, where only ``read`` is
called: it depends on nothing but the options and the partition.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from rocketpy.errors import ClientError, SettingsError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.remoting import BlockingRemotingClient
from rocketpy.spark.live_queues import QueueRange, read_queue_range
from rocketpy.spark.options.connection import NAME_SERVER, REQUEST_TIMEOUT_MS
from rocketpy.spark.options.live import CONSUMER_GROUP, FAIL_ON_DATA_LOSS, STARTING_OFFSETS
from rocketpy.spark.options.option import OptionValues
from rocketpy.spark.options.read import ReadOptions, credentials_of
from rocketpy.spark.options.reading import DECOMPRESS, TOPIC
from rocketpy.spark.options.stream import (
    COMMIT_GROUP,
    DISCOVERY_INTERVAL_MS,
    MAX_OFFSETS_PER_TRIGGER,
    MAX_TRIGGER_DELAY,
    MIN_OFFSETS_PER_TRIGGER,
)
from rocketpy.spark.rows import record_batches
from rocketpy.spark.schema import SPARK_SCHEMA
from rocketpy.spark.stream.admission import BatchDelay
from rocketpy.spark.stream.cluster import LiveCluster
from rocketpy.spark.stream.group_commit import GroupCommit
from rocketpy.spark.stream.losses import QueueBounds
from rocketpy.spark.stream.offsets import INITIAL, Document, read_offset, spans, write_offset
from rocketpy.spark.stream.planner import StreamPlanner
from rocketpy.spark.stream.watch import QueueWatch


def open_stream_reader(values: OptionValues, schema: StructType) -> DataSourceStreamReader:
    """Return the reader for the options; :class:`SettingsError` for a schema of the user's own, or without a topic."""
    if schema != SPARK_SCHEMA:
        raise SettingsError(f"format rocketmq has its own schema, expected none or {SPARK_SCHEMA.simpleString()}")
    for option in (NAME_SERVER, TOPIC):
        if not values[option]:
            raise SettingsError(f"a stream needs the option {option.name}, found none")
    return RocketMQStreamReader(values)


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream over the queues of a live cluster."""

    def __init__(self, values: OptionValues) -> None:
        self._values = values

    def __getstate__(self) -> dict[str, object]:
        """Leave the connections behind: what goes to executors is the options."""
        return {"_values": self._values}

    def initialOffset(self) -> Document:  # noqa: N802 - Spark's name
        """Return a constant: the first batch's end says where it began."""
        return write_offset(INITIAL)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return a limit that is not "everything", if the options have one; Spark has none for both of them."""
        if (offsets_max := self._values[MAX_OFFSETS_PER_TRIGGER]) is not None:
            return ReadMaxRows(offsets_max)
        if (offsets_min := self._values[MIN_OFFSETS_PER_TRIGGER]) is not None:
            return ReadMinRows(offsets_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of the query."""
        self._driver.planner.prepare_for_available_now()

    def latestOffset(self, start: Document, limit: ReadLimit) -> Document:  # noqa: N802 - Spark's name
        """Return the end of the next batch. ``start`` is done, which the group is told."""
        self._commit_to_group(start)
        return self._driver.planner.latest_offset(start, is_limited=not isinstance(limit, ReadAllAvailable))

    def reportLatestOffset(self) -> Document | None:  # noqa: N802 - Spark's name
        """Return the ends of the queues, for the progress of the query."""
        return self._driver.planner.report_latest_offset()

    def partitions(self, start: Document, end: Document) -> Sequence[InputPartition]:
        """Return the pieces of a batch."""
        parts = []
        for span in spans(read_offset(start), read_offset(end)):
            queue = span.queue
            address = self._driver.watch.address(queue)
            if address is None:
                raise ClientError(
                    ResponseCode.SYSTEM_ERROR,
                    f"topic {queue.topic} broker {queue.broker_name} queue {queue.queue_id}: the checkpoint has a "
                    f"batch of offsets {span.start} to {span.end - 1}, and no route of the subscription has this queue",
                )
            parts.append(QueueRange(queue.topic, queue.broker_name, address, queue.queue_id, span.start, span.end))
        return [InputPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one piece, in order."""
        return record_batches(read_queue_range(partition.value, _read_options(self._values)))

    def commit(self, end: Document) -> None:
        """Commit to the group what is done, if the options name one."""
        self._commit_to_group(end)

    def stop(self) -> None:
        """Close the connections."""
        if "_driver" in self.__dict__:
            self._driver.cluster.close()

    def _commit_to_group(self, done: Document) -> None:
        if self._driver.group_commit is not None:
            self._driver.group_commit.commit(read_offset(done).queues, self._driver.watch.addresses)

    @cached_property
    def _driver(self) -> _Driver:
        return _open_driver(self._values)


@attrs.frozen
class _Driver:
    """What lives as long as the query."""

    cluster: LiveCluster
    watch: QueueWatch
    planner: StreamPlanner
    group_commit: GroupCommit | None


def _open_driver(values: OptionValues) -> _Driver:
    connect = partial(
        BlockingRemotingClient,
        timeout_s=values[REQUEST_TIMEOUT_MS] / 1000,
        credentials=credentials_of(values),
    )
    cluster = LiveCluster(connect, values[NAME_SERVER], values[TOPIC])
    watch = QueueWatch(
        cluster,
        discovery_interval_s=values[DISCOVERY_INTERVAL_MS] / 1000,
        clock=time.monotonic,
        sleep=time.sleep,
    )
    delay = None
    if (offsets_min := values[MIN_OFFSETS_PER_TRIGGER]) is not None:
        delay = BatchDelay(offsets_min, values[MAX_TRIGGER_DELAY], time.monotonic)
    planner = StreamPlanner(
        watch=watch,
        starting_positions=_earliest if values[STARTING_OFFSETS] == "earliest" else _latest,
        fail_on_data_loss=values[FAIL_ON_DATA_LOSS],
        offsets_max=values[MAX_OFFSETS_PER_TRIGGER],
        delay=delay,
    )
    group = values[COMMIT_GROUP]
    return _Driver(cluster, watch, planner, None if group is None else GroupCommit(group, cluster))


def _latest(bounds: Mapping[MessageQueue, QueueBounds]) -> dict[MessageQueue, int]:
    return {queue: each.latest for queue, each in bounds.items()}


def _earliest(bounds: Mapping[MessageQueue, QueueBounds]) -> dict[MessageQueue, int]:
    return {queue: each.earliest for queue, each in bounds.items()}


def _read_options(values: OptionValues) -> ReadOptions:
    return ReadOptions(
        name_servers=values[NAME_SERVER],
        topics=values[TOPIC],
        decompress=values[DECOMPRESS],
        fail_on_data_loss=values[FAIL_ON_DATA_LOSS],
        consumer_group=values[CONSUMER_GROUP],
        request_timeout_s=values[REQUEST_TIMEOUT_MS] / 1000,
        credentials=credentials_of(values),
    )
