"""Streams inside Spark: what a query writes is what was sent, each message once, over restarts of every part."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from rocketpy.client import Message, blocking
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.failures import explain_error
from rocketpy.spark.stream.progress import queue_lags
from rocketpy.testing.fixture.in_thread import BrokerInThread
from tests.spark_runtime import started_query


@attrs.frozen
class Query:
    """A stream of topic ``T``, and its rows by batch id: a batch that is run again replaces itself."""

    spark: SparkSession
    broker: BrokerInThread
    checkpoint: str
    batches: dict[int, list[str]] = attrs.field(factory=dict)
    before_reading: list[Callable[[], None]] = attrs.field(factory=list)
    """What is to happen once, after the next batch is planned and before it is read."""

    @contextmanager
    def started(self, *, available_now: bool = False, **options: str) -> Iterator[StreamingQuery]:
        given = {"nameServer": self.broker.name_server, "topic": "T", "startingOffsets": "earliest"} | options
        frame = self.spark.readStream.format("rocketmq").options(**given).load()
        writer = frame.writeStream.foreachBatch(self._keep).option("checkpointLocation", self.checkpoint)
        query = started_query(writer.trigger(availableNow=True) if available_now else writer)
        try:
            yield query
        finally:
            query.stop()

    def run(self, **options: str) -> StreamingQuery:
        """Run with Trigger.AvailableNow to its end."""
        with self.started(available_now=True, **options) as query:
            assert query.awaitTermination(120), "Trigger.AvailableNow ends"
        return query

    def bodies(self) -> str:
        return "".join(sorted(body for batch in self.batches.values() for body in batch))

    def send(self, *bodies: str) -> None:
        with blocking.open_producer(self.broker.name_server) as producer:
            for number, body in enumerate(bodies):
                producer.send(Message("T", body.encode()), queue=MessageQueue("T", "broker-a", number % 2))

    def _keep(self, batch: DataFrame, batch_id: int) -> None:
        while self.before_reading:
            self.before_reading.pop()()
        self.batches[batch_id] = [row.body.decode() for row in batch.select("body").collect()]


@pytest.fixture
def query(spark: SparkSession, rocketmq: BrokerInThread, tmp_path: Path) -> Query:
    rocketmq.topic("T", queues=2)
    return Query(spark, rocketmq, str(tmp_path / "checkpoint"))


@pytest.mark.sample
def test_available_now_reads_what_is_there_in_bounded_batches_and_the_next_run_goes_on(query: Query) -> None:
    query.send(*"abcde")
    query.run(maxOffsetsPerTrigger="2")
    assert [len(batch) for batch in query.batches.values()] == [2, 2, 1]
    query.send(*"fg")
    query.run()
    query.run()
    assert (query.bodies(), len(query.batches)) == ("abcdefg", 4)


def test_a_running_query_outlives_its_broker_finds_new_queues_and_shows_its_lag(query: Query) -> None:
    """Between two batches, and in the middle of one: a task has a single attempt here."""
    query.send("a", "b")
    with query.started(discoveryIntervalMs="0") as running:
        running.processAllAvailable()
        query.broker.restart()
        restarted = threading.Timer(0.5, query.broker.restart)
        query.before_reading.extend([restarted.start, query.broker.crash])
        query.send("c", "d")
        running.processAllAvailable()
        restarted.join()
        assert not query.before_reading
        query.broker.topic("T", queues=3)
        with blocking.open_producer(query.broker.name_server) as producer:
            producer.send(Message("T", b"e"), queue=MessageQueue("T", "broker-a", 2))
        running.processAllAvailable()
        assert query.bodies() == "abcde"
        last = [progress for progress in running.recentProgress if progress.numInputRows][-1]
    assert queue_lags(last.sources[0]) == {MessageQueue("T", "broker-a", number): 0 for number in range(3)}


def test_lost_messages_end_the_query_or_are_left_out(query: Query) -> None:
    query.send(*"abcd")
    query.run()
    with blocking.open_admin_client(query.broker.name_server) as admin:
        admin.topics.delete("T", cluster="DefaultCluster")
    query.broker.topic("T", queues=2)
    with pytest.raises(StreamingQueryException, match=r"data loss: topic T broker broker-a queue 0: .* ends at 0"):
        query.run()
    query.run(failOnDataLoss="false")
    query.send(*"ef")
    query.run(failOnDataLoss="false")
    assert query.bodies() == "abcdef"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topic": "Nowhere"}, "topic Nowhere is not known to"),
        ({"nameServer": "127.0.0.1:1"}, r"connect to 127\.0\.0\.1:1 failed"),
        ({"endingOffsets": "latest"}, "option endingOffsets is for batch reads .*, and this is a stream"),
    ],
)
def test_errors_of_a_start_reach_the_user(query: Query, options: dict[str, str], words: str) -> None:
    with pytest.raises(StreamingQueryException, match=words) as caught:
        query.run(**options)
    assert re.search(words, explain_error(caught.value))
