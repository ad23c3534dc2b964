"""The sink inside Spark: round trip, errors, streams that are restarted, tasks that are repeated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import pyarrow as pa
from pyspark.errors import PySparkException

from rocketpy.spark.failures import explain_error
from rocketpy.testing.fixture.in_thread import BrokerInThread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

REPOSITORY = Path(__file__).parents[3]
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


def test_stored_messages_are_written_again_with_their_ids(spark: SparkSession, rocketmq: BrokerInThread) -> None:
    """The properties that the broker has added are dropped, as the option says."""
    first, second = rocketmq.topic("First"), rocketmq.topic("Second")
    frame_of(spark, 50).write.format("rocketmq").options(**sink_options(rocketmq, first)).mode("append").save()
    stored = spark.read.format("rocketmq").options(**sink_options(rocketmq, first)).load()
    again = stored.select("body", "tags", "keys", "properties", "queue_id")
    options = sink_options(rocketmq, second, reservedProperties="drop")
    again.write.format("rocketmq").options(**options).mode("append").save()
    assert sorted(
        (each.body, each.keys, each.tags, each.msg_id, each.queue_id) for each in rocketmq.messages(second)
    ) == (sorted((each.body, each.keys, each.tags, each.msg_id, each.queue_id) for each in rocketmq.messages(first)))


def test_the_report_of_a_write_counts_what_is_stored(
    spark: SparkSession, rocketmq: BrokerInThread, tmp_path: Path
) -> None:
    options = sink_options(rocketmq, rocketmq.topic("Reported"), reportPath=str(tmp_path), writeId="mine")
    frame_of(spark).write.format("rocketmq").options(**options).mode("append").save()
    report = json.loads((tmp_path / "mine.json").read_text())
    assert (report["outcome"], report["messages"], report["tasks"]) == ("committed", ROWS, 2)
    stored = Counter(each.queue_id for each in rocketmq.messages("Reported"))
    assert {each["queueId"]: each["messages"] for each in report["queues"]} == stored


@pytest.mark.parametrize(
    ("select", "options", "mode", "words"),
    [
        ("cast(id AS int) AS body", {"topic": "T"}, "append", "'body' is of type int"),
        ("'x' AS body", {}, "append", "give the option topic"),
        ("'x' AS body", {"topic": "T", "retrys": "2"}, "append", "the nearest is retries"),
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


REPEATED = """
import os, sys
from rocketpy.spark.session import open_local_session
from tests.spark.sink.test_writers import spoiling_once
marker, name_server = sys.argv[1:]
spark = open_local_session(master="local[2,3]")
spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
frame = spark.range(0, 1000, 1, 4).selectExpr("encode(cast(id AS string), 'UTF-8') AS body")
frame = frame.mapInArrow(spoiling_once(marker, b"640"), "body binary")
frame.write.format("rocketmq").options(nameServer=name_server, topic="Repeated").mode("append").save()
spark.stop()
"""


def test_a_task_that_is_repeated_loses_nothing_and_its_duplicates_have_the_same_keys(
    rocketmq: BrokerInThread, tmp_path: Path
) -> None:
    """In a session of its own: Spark repeats tasks of a local master only if it is told so when it starts."""
    topic = rocketmq.topic("Repeated")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "SPARK_LOCAL_DIRS": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", REPEATED, str(tmp_path / "failed"), rocketmq.name_server],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    stored = rocketmq.messages(topic)
    bodies = {each.properties["SPARK_ROW_KEY"].partition("/")[2]: each.body for each in stored}
    assert len(stored) == 1100, "the failed task had sent two record batches"
    assert bodies == {f"{n // 250}/{n % 250}": b"%d" % n for n in range(1000)}
