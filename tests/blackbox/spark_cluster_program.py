"""A driver program for ``spark-submit``: reads, archives, writes and streams, each with a gate in the middle of a task.

``spark_cluster_program.py SETTINGS`` reads a JSON file of settings, and writes what it has found to the file that they
name. In a step with a gate each task stops after its first rows, leaves a file that says where it runs, and continues
when the file ``open`` is there, so that a test can kill an executor that has done half of its work.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from rocketpy.spark.pipelines.archive import archive
from rocketpy.spark.pipelines.sources import live_messages, store_messages

ROWS_BEFORE_GATE = 150
GATE_S = 600.0  # ends with its executor in any case
LOCATED = "queue_id int, queue_offset long, body binary, executor string, package string"
PLACE = ("queue_id", "queue_offset", "crc32(body)")


def main(path: str) -> None:
    settings = json.loads(Path(path).read_text())
    spark = SparkSession.builder.appName("cluster").getOrCreate()
    work, name_server, topic = settings["work"], settings["name_server"], settings["topic"]
    live = live_messages(spark, name_server, [topic])
    found = {
        "live": _located(live),
        "files": _located(store_messages(spark, settings["store"], "b", options={"maxPartitionBytes": "1m"})),
    }
    summary = archive(_gated(live, f"{work}/archive-gate"), f"{work}/archive")
    found["archived"] = summary.written
    rows = _gated(live, f"{work}/sink-gate").select("body", "queue_id")
    rows.write.format("rocketmq").options(nameServer=name_server, topic=settings["target"]).mode("append").save()
    found["stream"] = _stream(spark, settings)
    Path(settings["found"]).write_text(json.dumps(found))
    spark.stop()


def _located(messages: DataFrame) -> list[list[object]]:
    """Return queue, offset and checksum of each message, and the executor and the package that have read it."""

    def locate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import rocketpy

        executor, package = os.getcwd(), os.path.abspath(rocketpy.__file__)
        for batch in batches:
            places = [pa.array([text] * batch.num_rows) for text in (executor, package)]
            yield pa.RecordBatch.from_arrays([*batch.columns, *places], [*batch.schema.names, "executor", "package"])

    rows = messages.select("queue_id", "queue_offset", "body").mapInArrow(locate, LOCATED)
    return [list(row) for row in rows.selectExpr(*PLACE, "executor", "package").collect()]


def _stream(spark: SparkSession, settings: dict[str, str]) -> list[list[object]]:
    """Stream the topic into Parquet, in several batches; return the rows that a reader finds."""
    place = f"{settings['work']}/stream"
    stream = spark.readStream.format("rocketmq").options(
        nameServer=settings["name_server"],
        topic=settings["topic"],
        startingOffsets="earliest",
        maxOffsetsPerTrigger=settings["offsets_per_trigger"],
    )
    writer = _gated(stream.load(), f"{settings['work']}/stream-gate").writeStream.format("parquet")
    writer = writer.options(path=f"{place}/out", checkpointLocation=f"{place}/checkpoint").trigger(availableNow=True)
    for attempt in range(10):
        try:
            writer.start().awaitTermination()
            break
        except StreamingQueryException as failure:  # Spark gives the process that plans batches ten seconds to start
            if attempt == 9 or "Python worker failed to connect back" not in str(failure):
                raise
    return [list(row) for row in spark.read.parquet(f"{place}/out").selectExpr(*PLACE).collect()]


def _gated(messages: DataFrame, gate: str) -> DataFrame:
    Path(gate).mkdir()
    return messages.mapInArrow(_wait_at(gate), messages.schema)


def _wait_at(gate: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def pass_half(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in batches:
            yield batch
            rows += batch.num_rows
            if rows >= ROWS_BEFORE_GATE:
                rows = 0
                _wait(Path(gate))

    return pass_half


def _wait(gate: Path) -> None:
    opened = gate / "open"
    if opened.exists():
        return
    context = TaskContext.get()
    assert context is not None
    (gate / f"task-{context.taskAttemptId()}").write_text(os.getcwd())
    deadline = time.monotonic() + GATE_S
    while not opened.exists():
        assert time.monotonic() < deadline, f"{gate} was not opened"
        time.sleep(0.02)


if __name__ == "__main__":
    main(sys.argv[1])
