"""Reader of ``spark.readStream.format("rocketmq")``.

Spark makes it twice. One stays in a process beside the driver for the life of the query and plans batches; what it
keeps there is made on first use. The other is pickled and sent to the executors, where only ``read`` is called: it
depends on nothing but the options and the partition.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

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

from rocketpy.errors import ClientError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.failures import stated
from rocketpy.spark.live.cluster import Cluster, QueueBounds
from rocketpy.spark.live.parts import QueueSpan
from rocketpy.spark.live.planning import parts_of
from rocketpy.spark.live.positions import name_of
from rocketpy.spark.live.reader import cores_here, read_parts
from rocketpy.spark.live.settings import LiveSettings, settings_of
from rocketpy.spark.live.times import TimeSearch
from rocketpy.spark.options.option import OptionValues
from rocketpy.spark.options.stream import (
    COMMIT_GROUP,
    DISCOVERY_INTERVAL_MS,
    MAX_OFFSETS_PER_TRIGGER,
    MAX_TRIGGER_DELAY,
    MIN_OFFSETS_PER_TRIGGER,
)
from rocketpy.spark.schema import projection
from rocketpy.spark.stream.admission import BatchDelay
from rocketpy.spark.stream.cluster import StreamCluster
from rocketpy.spark.stream.group_commit import GroupCommit
from rocketpy.spark.stream.offsets import INITIAL, Document, read_offset, spans, write_offset
from rocketpy.spark.stream.planner import StartingPositions, StreamPlanner
from rocketpy.spark.stream.watch import QueueWatch


def open_stream_reader(values: OptionValues, schema: StructType) -> DataSourceStreamReader:
    """Return the reader for options of mode STREAM; :class:`SettingsError` for wrong ones and for a wrong schema."""
    projection(schema)
    return RocketMQStreamReader(values, settings_of(values), schema)


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream over the queues of a live cluster."""

    def __init__(self, values: OptionValues, settings: LiveSettings, schema: StructType) -> None:
        self._values = values
        self._settings = settings
        self._schema = schema

    def __getstate__(self) -> dict[str, object]:
        """Leave the connections behind: what goes to executors is the options."""
        return {name: value for name, value in self.__dict__.items() if name != "_driver"}

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

    @stated
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of the query."""
        self._driver.planner.prepare_for_available_now()

    @stated
    def latestOffset(self, start: Document, limit: ReadLimit) -> Document:  # noqa: N802 - Spark's name
        """Return the end of the next batch. ``start`` is done, which the group is told."""
        self._commit_to_group(start)
        return self._driver.planner.latest_offset(start, is_limited=not isinstance(limit, ReadAllAvailable))

    def reportLatestOffset(self) -> Document | None:  # noqa: N802 - Spark's name
        """Return the ends of the queues, for the progress of the query."""
        return self._driver.planner.report_latest_offset()

    @stated
    def partitions(self, start: Document, end: Document) -> Sequence[InputPartition]:
        """Return the pieces of a batch, task by task; ``ClientError`` if a queue of it has no broker."""
        batch = spans(read_offset(start), read_offset(end))
        queues = {}
        for span in batch:
            replicas = self._driver.watch.find(span.queue)
            if replicas is None:
                raise _no_broker(span)
            queues[span.queue] = replicas
        return [InputPartition(parts) for parts in parts_of(batch, queues, self._settings, cores=cores_here())]

    @stated
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one task's pieces, each in its order."""
        yield from read_parts(partition.value, self._settings.pull, projection(self._schema))

    @stated
    def commit(self, end: Document) -> None:
        """Commit to the group what is done, if the options name one."""
        self._commit_to_group(end)

    def stop(self) -> None:
        """Close the connections."""
        if "_driver" in self.__dict__:
            self._driver.cluster.close()

    def _commit_to_group(self, done: Document) -> None:
        if self._driver.group_commit is not None:
            self._driver.group_commit.commit(read_offset(done).queues, self._driver.watch.replicas)

    @cached_property
    def _driver(self) -> _Driver:
        return _open_driver(self._values, self._settings)


@attrs.frozen
class _Driver:
    """What lives as long as the query."""

    cluster: StreamCluster
    watch: QueueWatch
    planner: StreamPlanner
    group_commit: GroupCommit | None


def _open_driver(values: OptionValues, settings: LiveSettings) -> _Driver:
    live = Cluster(settings.pull.access, asks_slaves=settings.reads_slaves)
    cluster = StreamCluster(live, settings.subscription)
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
        starting_positions=_starting_positions(live, watch, settings),
        fail_on_data_loss=settings.pull.fail_on_data_loss,
        offsets_max=values[MAX_OFFSETS_PER_TRIGGER],
        delay=delay,
    )
    group = values[COMMIT_GROUP]
    return _Driver(cluster, watch, planner, None if group is None else GroupCommit(group, cluster))


def _starting_positions(cluster: Cluster, watch: QueueWatch, settings: LiveSettings) -> StartingPositions:
    search = TimeSearch(cluster, consumer_group=settings.pull.consumer_group)

    def positions(bounds: Mapping[MessageQueue, QueueBounds]) -> Mapping[MessageQueue, int]:
        def first_from(queue: MessageQueue, timestamp_ms: int) -> int:
            return search.first_from(queue, watch.replicas[queue], bounds[queue], timestamp_ms)

        return settings.starting.positions(bounds, first_from)

    return positions


def _no_broker(span: QueueSpan) -> ClientError:
    return ClientError(
        ResponseCode.SYSTEM_ERROR,
        f"{name_of(span.queue)}: the checkpoint has a batch of offsets {span.start} to {span.end - 1}, and no route of "
        "the subscription has this queue",
    )
