"""The two writers of ``format("rocketmq")``, of a batch and of a stream: Spark's frame around the tasks.

At least once: Spark repeats a task that failed, and a micro-batch after a restart. RocketMQ takes nothing back, so
there is nothing to commit or to undo: ``commit`` sums up what the tasks reported, ``abort`` says what stays.

Both sums go to the log (commit: info, abort: warning) and, with the option ``reportPath``, into a JSON file there.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Sequence
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rocketpy.errors import SettingsError
from rocketpy.protocol.host import split_host_port
from rocketpy.spark.failures import stated
from rocketpy.spark.sink.columns import check_sink_schema
from rocketpy.spark.sink.failures import SinkError
from rocketpy.spark.sink.report import StoredCounts, TaskCommit, sentence, summed, write_report
from rocketpy.spark.sink.row_keys import PROPERTY_SPARK_ROW_KEY, RowKeyMode, TaskRows
from rocketpy.spark.sink.settings import SinkSettings
from rocketpy.spark.sink.task import write_task

_log = logging.getLogger("rocketpy.spark.sink")

REACH_S = 5.0
"""Patience with a nameserver before a write."""

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
"""Local properties of the tasks of a stream: ``StreamExecution`` and ``MicroBatchExecution`` of Spark set them."""


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame. Created on the driver, pickled to the executors."""

    def __init__(self, schema: StructType, settings: SinkSettings, *, overwrite: bool) -> None:
        if overwrite:
            raise SettingsError(
                'format rocketmq appends to topics and cannot overwrite them: write with mode("append")'
            )
        self._names = check_sink_schema(schema, has_topic=settings.topic is not None)
        check_reachable(settings)
        self._settings = settings
        self._write_id = settings.write_id or uuid4().hex

    @stated
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of one partition."""
        return write_task(iterator, self._names, TaskRows(self._write_id, _partition()), self._settings)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Sum up what was written."""
        _note_commit(self._settings, self._write_id, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Say what stays in the topics."""
        _note_abort(self._settings, self._write_id, messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query."""

    def __init__(self, schema: StructType, settings: SinkSettings, *, overwrite: bool) -> None:
        if overwrite:
            raise SettingsError(
                'format rocketmq appends to topics and cannot write outputMode("complete"): use append or update'
            )
        self._names = check_sink_schema(schema, has_topic=settings.topic is not None)
        self._settings = settings

    @stated
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of one partition of a micro-batch."""
        context = TaskContext.get()
        assert context is not None, "Spark calls this in a task"
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        name = self._settings.write_id or query
        return write_task(iterator, self._names, TaskRows(f"{name}/{batch}", _partition()), self._settings)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's)
        """Sum up a micro-batch."""
        _note_commit(self._settings, _name_of(messages, batchId), messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's)
        """Say what of a micro-batch stays in the topics."""
        _note_abort(self._settings, _name_of(messages, batchId), messages)


def check_reachable(settings: SinkSettings) -> None:
    """Refuse a cluster of which no nameserver can be reached, once on the driver instead of after the last retry.

    Not for a stream, which may be restarted, or commit, while the cluster is away.
    """
    failures = []
    for address in settings.name_servers:
        try:
            socket.create_connection(split_host_port(address), min(settings.request_timeout_ms / 1000, REACH_S)).close()
        except OSError as failure:
            failures.append(f"{address}: {failure}")
        else:
            return
    raise SinkError(f"no nameserver of the option nameServer can be reached: {'; '.join(failures)}")


def _partition() -> int:
    """Return the number of the partition that this worker's task writes; 0 outside of Spark."""
    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def _name_of(messages: Sequence[WriterCommitMessage | None], batch: int) -> str:
    """Return the name of a micro-batch: only its tasks know the query."""
    return next((each.write for each in messages if isinstance(each, TaskCommit)), f"micro-batch/{batch}")


def _note_commit(settings: SinkSettings, write: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    counts, tasks, _ = summed(messages)
    _log.info("write %s: stored %s, by %d tasks", write, sentence(counts), tasks)
    _report(settings, write, counts, outcome="committed", tasks=tasks, missing=0)


def _note_abort(settings: SinkSettings, write: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    counts, tasks, missing = summed(messages)
    _log.warning(
        "write %s was aborted. What was sent stays in the topics: %s, by %d tasks that ended, and an unknown number by "
        "%d that did not. A write that is repeated stores them again%s",
        write,
        sentence(counts),
        tasks,
        missing,
        _remedy(settings),
    )
    _report(settings, write, counts, outcome="aborted", tasks=tasks, missing=missing)


def _remedy(settings: SinkSettings) -> str:
    if settings.row_key is RowKeyMode.NONE:
        return ""
    name = PROPERTY_SPARK_ROW_KEY if settings.row_key is RowKeyMode.PROPERTY else "UNIQ_KEY"
    return f"; duplicates have the same {name} if it is a micro-batch, or has the same option writeId"


def _report(
    settings: SinkSettings, write: str, counts: StoredCounts, *, outcome: str, tasks: int, missing: int
) -> None:
    """Write the report, if one is wanted. A report that cannot be written must not fail a write that is done."""
    if settings.report_path is None:
        return
    try:
        write_report(settings.report_path, write, counts, outcome=outcome, tasks=tasks, missing=missing)
    except OSError as failure:
        _log.warning("write %s is %s, but its report cannot be written: %s", write, outcome, failure)
