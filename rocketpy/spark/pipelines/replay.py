"""Replay: messages of an archive, of a dead broker's disk or of a cluster into topics, at a rate, resumably.

::

    messages = selected(read_archive(spark, "/archive"), Selection(where="tags = 'paid'"))
    replay(messages, Target(name_server="127.0.0.1:9876", topics="orders_again"), rate=500, work="/var/replay/again-1")

At least once: a run that was killed may have sent a part of a slice that the next run sends again. Each message has the
id of the original in its property ``REPLAYED_MESSAGE_ID``, and the sink's key of the row, the same in each attempt. The
messages of one queue keep their order: they are sent by one task, to one queue of the target.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from rocketpy.clock import Clock, SystemClock
from rocketpy.errors import StartError
from rocketpy.protocol.properties import (
    PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS,
    PROPERTY_TRANSACTION_CHECK_TIMES,
    PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET,
    RESERVED_PROPERTIES,
)
from rocketpy.spark.pipelines.archive_log.opening import open_files
from rocketpy.spark.pipelines.local_rows import local_frame
from rocketpy.spark.pipelines.pacing import paced
from rocketpy.spark.pipelines.replay_plan import TARGET_FIELDS, ReplayPlan, ReplayWork, shared_out
from rocketpy.spark.pipelines.summary import Summary, seconds_since
from rocketpy.spark.sink.row_keys import PROPERTY_SPARK_ROW_KEY
from rocketpy.spark.source import FORMAT_NAME

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PROPERTY_REPLAYED_MESSAGE_ID = "REPLAYED_MESSAGE_ID"
DROPPED_PROPERTIES = RESERVED_PROPERTIES | {
    PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET,
    PROPERTY_TRANSACTION_CHECK_TIMES,
    PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS,
    PROPERTY_SPARK_ROW_KEY,
    PROPERTY_REPLAYED_MESSAGE_ID,
}
"""Properties of the original that say how it was sent; those of the copy are made again. Tags and keys are kept."""

EMPTY_BODY = "empty body, which clients refuse to send"
NO_TARGET = "topic without a target"
SENT_BEFORE = "sent by an earlier run"
QUEUE_COLUMNS = ("topic", "broker_name", "queue_id")
SLICE_MESSAGES = 50_000
SLICES_MAX = 10_000
BATCH_ROWS_MAX = "spark.sql.execution.arrow.maxRecordsPerBatch"
BATCH_ROWS_DEFAULT = 10_000


@attrs.frozen(kw_only=True)
class Target:
    """Where messages go. ``topics``: one topic for all, or a topic by topic of origin; None: each to its own.

    With ``keeps_queues`` a message goes to the queue with its own number; otherwise the messages of one queue go to one
    queue of the target, whichever that is. ``options`` are those of the sink.
    """

    name_server: str
    topics: str | Mapping[str, str] | None = None
    keeps_queues: bool = False
    options: Mapping[str, str] = attrs.field(factory=dict)


def replay_rows(messages: DataFrame, target: Target) -> DataFrame:
    """Return messages as rows for the sink, and with the columns of their queue: nothing is sent.

    Its column ``skipped`` says why a message cannot be sent, null for those that can.
    """
    dropped = F.array(*map(F.lit, sorted(DROPPED_PROPERTIES)))
    kept = F.map_filter("properties", lambda name, _: ~F.array_contains(dropped, name))
    origin = F.create_map(F.lit(PROPERTY_REPLAYED_MESSAGE_ID), F.col("message_id"))
    queue = F.concat_ws("/", *QUEUE_COLUMNS)
    topic = _target_topic(target.topics)
    return messages.select(
        F.struct(*QUEUE_COLUMNS, "queue_offset").alias("origin"),
        F.when(topic.isNull(), NO_TARGET).when(F.length("body") == 0, EMPTY_BODY).alias("skipped"),
        topic.alias("topic"),
        "body",
        "tags",
        "keys",
        F.map_concat(kept, origin).alias("properties"),
        F.col("queue_id") if target.keeps_queues else queue.alias("sharding_key"),
    )


def replay(
    messages: DataFrame,
    target: Target,
    *,
    rate: float | None = None,
    work: str | None = None,
    slice_messages: int = SLICE_MESSAGES,
    progress: Callable[[int, int], None] = lambda done, total: None,
    clock: Clock | None = None,
) -> Summary:
    """Send messages to the target, ``rate`` a second at most in all, and return what was done.

    ``work`` is a directory that every executor sees. A run with a directory of an earlier one sends what that has left,
    and looks at ``messages`` no more; without ``work`` a temporary directory of this machine is used, and a replay that
    ends early cannot be resumed. After each slice ``progress`` gets how many messages were sent, of how many.
    ``StartError`` if another run sends from the directory, or it belongs to a replay to another target.
    """
    clock = clock or SystemClock()
    begin_ms = clock.timestamp_ms()
    spark = messages.sparkSession
    with ExitStack() as stack:
        directory = work or stack.enter_context(tempfile.TemporaryDirectory(prefix="rocketpy-replay-"))
        root, files = open_files(spark, directory, clock=clock)
        stack.enter_context(files.locked(f"{root}/lock"))
        replay_work = ReplayWork(root, files=files)
        plan = replay_work.plan() or _plan(messages, target, replay_work, slice_messages)
        _check_target(plan, target, root)
        before = sum(plan.slices[number] for number in replay_work.sent(plan))
        done = before
        stack.enter_context(_small_batches(spark, plan, rate))
        for number, rows in enumerate(plan.slices):
            if number not in replay_work.sent(plan):
                _send(spark, plan, target, replay_work, number, rate)
                replay_work.note_sent(number, rows)
                done += rows
                progress(done, plan.row_count)
    return Summary(
        pipeline="replay",
        read=plan.read,
        written=done - before,
        skipped={**plan.skipped, SENT_BEFORE: before},
        seconds=seconds_since(begin_ms, clock),
        details={"replay": plan.id, "slices": len(plan.slices), "tasks": len(plan.shares)},
    )


def _target_topic(topics: str | Mapping[str, str] | None) -> Column:
    if topics is None:
        return F.col("topic")
    if isinstance(topics, str):
        return F.lit(topics)
    pairs = [F.lit(text) for pair in topics.items() for text in pair]
    return F.try_element_at(F.create_map(*pairs), F.col("topic"))


def _plan(messages: DataFrame, target: Target, work: ReplayWork, slice_messages: int) -> ReplayPlan:
    """Select the messages, cut them into slices, and write slices and plan."""
    work.files.remove(work.slices)  # of a run that was killed here
    rows = replay_rows(messages, target).persist()
    try:
        counts = rows.groupBy("origin.topic", "origin.broker_name", "origin.queue_id", "skipped").count().collect()
        sendable = {(row.topic, row.broker_name or "", row.queue_id): row["count"] for row in counts if not row.skipped}
        skipped: dict[str, int] = {EMPTY_BODY: 0, NO_TARGET: 0}
        for row in counts:
            if row.skipped:
                skipped[row.skipped] += row["count"]
        total = sum(sendable.values())
        tasks = shared_out(sendable, messages.sparkSession.sparkContext.defaultParallelism)
        slice_count = min(SLICES_MAX, -(-total // slice_messages))
        sizes = _write_slices(rows, tasks, slice_count, work) if total else ()
    finally:
        rows.unpersist()
    plan = ReplayPlan(
        id=uuid.uuid4().hex,
        target=_fields(target),
        read=total + sum(skipped.values()),
        skipped=skipped,
        shares=tuple(sum(sendable[queue] for queue in queues) / total for queues in tasks),
        slices=sizes,
    )
    work.note_plan(plan)
    return plan


def _write_slices(
    rows: DataFrame, tasks: list[list[tuple[str, str, int]]], count: int, work: ReplayWork
) -> tuple[int, ...]:
    """Write the rows by slice and task. Every slice has the same part of each queue, in the queue's order."""
    spark = rows.sparkSession
    table = [(*queue, number) for number, queues in enumerate(tasks) for queue in queues]
    of_task = F.broadcast(local_frame(spark, table, "t string, b string, q int, task int"))
    queue = Window.partitionBy("origin.topic", "origin.broker_name", "origin.queue_id")
    rank = F.row_number().over(queue.orderBy("origin.queue_offset")) - 1
    position = rank / F.count(F.lit(1)).over(queue)  # how much of the queue is before it: 0 to 1
    is_same = [
        F.col("origin.topic") == F.col("t"),
        F.coalesce(F.col("origin.broker_name"), F.lit("")) == F.col("b"),
        F.col("origin.queue_id") == F.col("q"),
    ]
    cut = (
        rows.where(F.col("skipped").isNull())
        .join(of_task, is_same)
        .drop("t", "b", "q", "skipped")
        .withColumn("position", position)
        .withColumn("slice", F.least(F.floor(F.col("position") * count), F.lit(count - 1)).cast("int"))
    )
    cut.write.partitionBy("slice").parquet(work.slices)
    written = spark.read.parquet(work.slices).groupBy("slice").count().collect()
    sizes = {row["slice"]: row["count"] for row in written}
    return tuple(sizes.get(number, 0) for number in range(count))


def _send(
    spark: SparkSession, plan: ReplayPlan, target: Target, work: ReplayWork, number: int, rate: float | None
) -> None:
    """Send one slice: each task its queues, in the order of their messages."""
    if not plan.slices[number]:
        return
    rows = spark.read.parquet(f"{work.slices}/slice={number}").repartitionById(len(plan.shares), "task")
    rows = rows.sortWithinPartitions("position", "origin").drop("position", "origin", "task")
    if rate is not None:
        rows = rows.mapInArrow(_Pacing(tuple(rate * share for share in plan.shares)), rows.schema)
    own = {"nameServer": target.name_server, "reservedProperties": "drop", "writeId": f"{plan.id}-{number}"}
    rows.write.format(FORMAT_NAME).options(**(dict(target.options) | own)).mode("append").save()


@attrs.frozen
class _Pacing:
    """Paces the rows of a task by its own part of the rate. Pickled to the executors."""

    rates: tuple[float, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None, "Spark calls this in a task"
        return paced(batches, self.rates[context.partitionId()])


@contextmanager
def _small_batches(spark: SparkSession, plan: ReplayPlan, rate: float | None) -> Iterator[None]:
    """Let Spark hand rows to the sink about once a second: it collects whole batches between two tasks in Python."""
    if rate is None or not plan.shares:
        yield
        return
    before = spark.conf.get(BATCH_ROWS_MAX)
    wanted = max(1, min(BATCH_ROWS_DEFAULT, int(rate * max(plan.shares))))
    spark.conf.set(BATCH_ROWS_MAX, str(wanted))
    try:
        yield
    finally:
        spark.conf.set(BATCH_ROWS_MAX, before or str(BATCH_ROWS_DEFAULT))


def _check_target(plan: ReplayPlan, target: Target, root: str) -> None:
    for name, found in _fields(target).items():
        if (value := plan.target.get(name)) != found:
            raise StartError(
                f"{root} is the work of a replay with {name} {value!r}, found {found!r}: "
                "resume it with the same target, or choose another directory"
            )


def _fields(target: Target) -> dict[str, object]:
    """Return what must not change when a replay is resumed; a nameserver may have moved."""
    topics = dict(target.topics) if isinstance(target.topics, Mapping) else target.topics
    return dict(zip(TARGET_FIELDS, (topics, target.keeps_queues), strict=True))
