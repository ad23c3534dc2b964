"""Rows that the Spark sink writes, as Java's consumer receives them: from our broker and from Java's.

The task of a write is called as a worker of Spark calls it, without Spark: its session would add half a minute and
nothing that the clients could see (``tests/spark/sink/test_writers.py`` has it).
"""

from __future__ import annotations

import pytest
import trio

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import pyarrow as pa

from rocketpy.spark.sink.report import TaskCommit
from rocketpy.spark.sink.row_keys import TaskRows
from rocketpy.spark.sink.settings import parse_sink_options
from rocketpy.spark.sink.task import write_task
from tests.interop.clients import ToSend
from tests.interop.cluster import Cluster
from tests.interop.conftest import BROKERS, chosen_cluster, unique_name
from tests.interop.roles import Roles

pytestmark = pytest.mark.java

ROWS = 400
LARGE = "Straße, 東京, кит. ".encode() * 3000
"""Longer than a batch of this test: it goes alone, compressed."""


@pytest.fixture(params=BROKERS)
def chosen(request: pytest.FixtureRequest) -> Cluster:
    return chosen_cluster(request)


def record_batch(first: int, count: int) -> pa.RecordBatch:
    """Return rows of every kind; each body names its row."""
    rows = range(first, first + count)
    return pa.RecordBatch.from_pydict(
        {
            "body": pa.array(
                [b"%d " % row + (LARGE if row == 100 else bytes(range(256))) for row in rows], pa.binary()
            ),
            "tags": pa.array(["größe" if row % 2 else None for row in rows]),
            "keys": pa.array([[f"k{row}", "one"] if row % 3 else None for row in rows], pa.list_(pa.string())),
            "properties": pa.array(
                [[("Länge", "Maß 長さ 😀"), ("row", str(row))] if row % 5 else None for row in rows],
                pa.map_(pa.string(), pa.string()),
            ),
            "sharding_key": pa.array([str(row % 7) if row % 2 else None for row in rows]),
            "delay_level": pa.array([1 if row == 101 else None for row in rows], pa.int32()),
        }
    )


def write(cluster: Cluster, topic: str) -> TaskCommit:
    settings = parse_sink_options({"nameServer": cluster.namesrv, "topic": topic, "batchMaxBytes": "8000"})
    batches = [record_batch(first, 100) for first in range(0, ROWS, 100)]
    return write_task(iter(batches), tuple(batches[0].schema.names), TaskRows("interop", 1), settings)


async def test_java_receives_the_rows_byte_by_byte_from_the_queues_that_it_would_choose(
    chosen: Cluster, java: Roles, request: pytest.FixtureRequest
) -> None:
    topic = chosen.create_topic(unique_name(request))
    async with (
        java.consumer(chosen.namesrv, f"{topic}_group", topic) as consumer,
        java.producer(chosen.namesrv, f"{topic}_producer") as producer,
    ):
        commit = await trio.to_thread.run_sync(write, chosen, topic)
        asked = [ToSend(topic=topic, body=b"java %d" % shard, shard=shard) for shard in range(7)]
        await producer.send(asked, "hash")
        messages = await consumer.wait_messages(ROWS + 7)
    assert (commit.rows, commit.counts.messages) == (ROWS, ROWS)
    by_shard = {each.body: each.queue for each in messages if each.body.startswith(b"java")}
    rows = {
        int(each.properties["SPARK_ROW_KEY"].removeprefix("interop/1/")): each
        for each in messages
        if each.body not in by_shard
    }
    assert len(messages) == ROWS + 7
    assert sorted(rows) == list(range(ROWS))
    expected = [value for first in range(0, ROWS, 100) for value in record_batch(first, 100).to_pylist()]
    for row, asked_row in enumerate(expected):
        message = rows[row]
        assert message.body == asked_row["body"]
        assert (message.tags, message.keys) == (asked_row["tags"] or "", " ".join(asked_row["keys"] or ()))
        assert dict(asked_row["properties"] or ()).items() <= message.properties.items()
        assert len(message.msg_id) == 32
        if asked_row["sharding_key"]:
            assert message.queue == by_shard[b"java " + asked_row["sharding_key"].encode()]
    assert len({each.msg_id for each in messages}) == ROWS + 7
    for shard in range(7):
        offsets = [rows[row].queue_offset for row in range(ROWS) if row % 2 and row % 7 == shard and row != 101]
        assert offsets == sorted(offsets)
