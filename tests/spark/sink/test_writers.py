"""The sink inside Spark: round trip, errors, streams that are restarted, tasks that are repeated."""

from __future__ import annotations

import json
import os
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from rocketpy.spark.failures import explain_error
from rocketpy.spark.sink.settings import parse_sink_options
from rocketpy.spark.sink.writers import BatchWriter
from rocketpy.testing.fixture.in_thread import BrokerInThread

ROWS = 2000


def sink_options(broker: BrokerInThread, topic: str, **more: str) -> dict[str, str]:
    return {"nameServer": broker.name_server, "topic": topic, **more}


def frame_of(spark: SparkSession, rows: int = ROWS) -> DataFrame:
    return spark.range(0, rows, 1, 2).selectExpr(
        "encode(concat('body-', id), 'UTF-8') AS body",
        "concat('tag', id % 3) AS tags",
        "array(concat('k', id), concat('g', id % 10)) AS keys",
        "map('n', cast(id AS string)) AS properties",
    )


def test_what_is_written_is_read_again(spark: SparkSession, rocketmq: BrokerInThread) -> None:
    topic = rocketmq.topic("RoundTrip")
    frame_of(spark).write.format("rocketmq").options(**sink_options(rocketmq, topic)).mode("append").save()
    read = spark.read.format("rocketmq").options(**sink_options(rocketmq, topic)).load()
    rows = read.select("topic", "body", "tags", "keys", "properties", "unique_key").collect()
    assert sorted((row.body, row.tags, row.keys, row.properties["n"]) for row in rows) == sorted(
        (b"body-%d" % n, f"tag{n % 3}", f"k{n} g{n % 10}", str(n)) for n in range(ROWS)
    )
    assert {row.topic for row in rows} == {topic}
    assert len({row.unique_key for row in rows}) == len({row.properties["SPARK_ROW_KEY"] for row in rows}) == ROWS


@pytest.mark.parametrize(
    ("select", "options", "mode", "words"),
    [
        ("cast(id AS int) AS body", {"topic": "T"}, "append", "'body' is of type int"),
        ("'x' AS body", {"topic": "T"}, "overwrite", 'mode("append")'),
        ("nullif('x', 'x') AS body", {"topic": "T"}, "append", "row 0 of partition 0 (T, no body) cannot be sent"),
    ],
)
def test_an_error_begins_with_one_sentence(
    spark: SparkSession, rocketmq: BrokerInThread, select: str, options: dict[str, str], mode: str, words: str
) -> None:
    writer = spark.range(0, 3, 1, 1).selectExpr(select).write.format("rocketmq").mode(mode)
    with pytest.raises(PySparkException) as caught:
        writer.option("nameServer", rocketmq.name_server).options(**options).save()
    text = str(caught.value)
    assert words in text[: text.index("Traceback")]
    assert words in explain_error(caught.value)
    assert rocketmq.messages("T") == []


def test_an_unreachable_cluster_is_named_before_any_task(spark: SparkSession) -> None:
    writer = spark.range(3).selectExpr("'x' AS body").write.format("rocketmq").mode("append")
    with pytest.raises(PySparkException) as caught:
        writer.options(nameServer="127.0.0.1:1;127.0.0.1:2", topic="T").save()
    assert explain_error(caught.value).startswith(
        "no nameserver of the option nameServer can be reached: 127.0.0.1:1: "
    )


def test_a_task_that_is_repeated_by_another_executor_gives_its_rows_the_same_keys(rocketmq: BrokerInThread) -> None:
    settings = parse_sink_options(sink_options(rocketmq, rocketmq.topic("Repeated")))
    schema = StructType([StructField("body", BinaryType())])
    writer = pickle.dumps(BatchWriter(schema, settings, overwrite=False))
    for _ in range(2):
        pickle.loads(writer).write(iter([pa.RecordBatch.from_pydict({"body": [b"0", b"1"]})]))
    keys = Counter(each.properties["SPARK_ROW_KEY"] for each in rocketmq.messages("Repeated"))
    assert sorted(keys.values()) == [2, 2]


def test_an_aborted_write_reports_what_stays(spark: SparkSession, rocketmq: BrokerInThread, tmp_path: Path) -> None:
    """The first task ends, the second one fails: its rows are not counted, though some are stored."""
    topic = rocketmq.topic("Aborted")
    frame = spark.range(0, 200, 1, 2).selectExpr("encode(nullif(cast(id AS string), '155'), 'UTF-8') AS body")
    options = sink_options(rocketmq, topic, reportPath=str(tmp_path), writeId="mine")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "20")
    try:
        with pytest.raises(PySparkException, match=r"row 55 of partition 1 \(Aborted, no body\)"):
            frame.write.format("rocketmq").options(**options).mode("append").save()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    report = json.loads((tmp_path / "mine.json").read_text())
    assert (report["outcome"], report["messages"], report["tasks"], report["tasksWithoutReport"]) == (
        "aborted",
        100,
        1,
        1,
    )
    assert len(rocketmq.messages(topic)) == 140


def spoiling_once(marker: str, body: bytes) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for mapInArrow that makes a body null, which fails its task, unless the file is there."""

    def spoil(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            bodies = batch["body"].to_pylist()
            if body in bodies and not os.path.exists(marker):
                open(marker, "w").close()
                bodies[bodies.index(body)] = None
            yield pa.RecordBatch.from_pydict({"body": pa.array(bodies, pa.binary())})

    return spoil


def test_a_stream_that_fails_and_is_restarted_loses_nothing_and_its_duplicates_have_the_same_keys(
    spark: SparkSession, rocketmq: BrokerInThread, tmp_path: Path
) -> None:
    """The second of three micro-batches fails after half of its rows were sent."""
    topic, source = rocketmq.topic("Streamed"), tmp_path / "source"
    for part in range(3):
        frame = spark.range(part * 100, part * 100 + 100, 1, 1).selectExpr(
            "encode(cast(id AS string), 'UTF-8') AS body"
        )
        frame.write.mode("append").parquet(str(source))

    def run() -> None:
        rows = spark.readStream.schema("body binary").option("maxFilesPerTrigger", "1").parquet(str(source))
        checked = rows.mapInArrow(spoiling_once(str(tmp_path / "failed"), b"155"), "body binary")
        writer = checked.writeStream.format("rocketmq").options(
            **sink_options(rocketmq, topic, reportPath=str(tmp_path))
        )
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        try:
            query.awaitTermination(120)
        finally:
            query.stop()

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "20")
    try:
        with pytest.raises(PySparkException, match=r"row 55 of partition 0 .*the body is null"):
            run()
        halfway = rocketmq.messages(topic)
        run()
        run()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    stored = rocketmq.messages(topic)
    by_key: dict[str, set[bytes]] = {}
    for each in stored:
        by_key.setdefault(each.properties["SPARK_ROW_KEY"], set()).add(each.body)
    assert len(halfway) == 140, "two record batches before that of the row were sent"
    assert len(stored) == len(halfway) - 100 + 300, "the failed micro-batch is sent again as a whole"
    assert sorted(body for (body,) in by_key.values()) == sorted(b"%d" % number for number in range(300))
    assert {key.split("/")[1] for key in by_key} == {"0", "1", "2"}
    reports = [json.loads(path.read_text()) for path in tmp_path.glob("*-[012].json")]
    assert sorted(each["messages"] for each in reports if each["outcome"] == "committed") == [100, 100, 100]
