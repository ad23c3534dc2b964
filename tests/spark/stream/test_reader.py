"""The reader as Spark calls it, against a real broker, without Spark."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMinRows
from pyspark.sql.types import IntegerType, StructField, StructType

from rocketpy.client import Message, blocking
from rocketpy.errors import ClientError, RemotingError, SettingsError
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.options.option import Mode
from rocketpy.spark.options.parsing import parse
from rocketpy.spark.schema import SPARK_SCHEMA, spark_schema
from rocketpy.spark.stream import reader as module
from rocketpy.spark.stream.reader import RocketMQStreamReader, open_stream_reader
from rocketpy.testing.fixture.in_thread import BrokerInThread

NOW = ReadAllAvailable()


@pytest.fixture
def broker(rocketmq: BrokerInThread) -> BrokerInThread:
    rocketmq.topic("T", queues=2)
    return rocketmq


def open_reader(broker: BrokerInThread, **options: str) -> RocketMQStreamReader:
    given = {"nameServer": broker.name_server, "topic": "T", "startingOffsets": "earliest"} | options
    reader = open_stream_reader(parse(given, Mode.STREAM), SPARK_SCHEMA)
    assert isinstance(reader, RocketMQStreamReader)
    return reader


def send(broker: BrokerInThread, *bodies: str, queue_id: int = 0) -> None:
    with blocking.open_producer(broker.name_server) as producer:
        for body in bodies:
            producer.send(Message("T", body.encode()), queue=MessageQueue("T", "broker-a", queue_id))


def latest(reader: RocketMQStreamReader, start: dict[str, object], limit: ReadLimit = NOW) -> dict[str, object]:
    """Return the next offset, by way of the JSON that Spark keeps."""
    again: dict[str, object] = json.loads(json.dumps(reader.latestOffset(json.loads(json.dumps(start)), limit)))
    return again


def bodies(reader: RocketMQStreamReader, start: dict[str, object], end: dict[str, object]) -> Iterator[str]:
    """Yield what executors read, which have a reader that was pickled."""
    executor = pickle.loads(pickle.dumps(reader))
    for partition in reader.partitions(start, end):
        for batch in executor.read(pickle.loads(pickle.dumps(partition))):
            yield from (body.decode() for body in batch.column("body").to_pylist())


def test_a_query_of_new_messages_begins_where_it_was_started_even_if_its_first_batch_is_run_again(
    broker: BrokerInThread,
) -> None:
    """Spark keeps no start of the first batch: after a crash it asks for the initial offset once more."""
    send(broker, "old")
    reader = open_reader(broker, startingOffsets="latest")
    send(broker, "a")
    end = latest(reader, reader.initialOffset())
    send(broker, "b")
    after = latest(reader, end)
    send(broker, "c")
    again = open_reader(broker, startingOffsets="latest")
    assert list(bodies(again, again.initialOffset(), end)) == []
    assert list(bodies(again, end, after)) == ["b"]
    assert list(bodies(again, after, latest(again, after))) == ["c"]


def test_a_minimum_alone_is_a_limit_too(broker: BrokerInThread) -> None:
    """Else Spark would say that it wants everything, and no batch would wait."""
    reader = open_reader(broker, minOffsetsPerTrigger="2", maxTriggerDelay="1h")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMinRows(2)
    send(broker, "a")
    first = latest(reader, reader.initialOffset(), limit)
    send(broker, "b")
    assert latest(reader, first, limit) == first
    send(broker, "c")
    assert list(bodies(reader, first, latest(reader, first, limit))) == ["b", "c"]


def test_available_now_ends_where_it_was_prepared(broker: BrokerInThread) -> None:
    send(broker, "a")
    reader = open_reader(broker)
    reader.prepareForTriggerAvailableNow()
    send(broker, "b")
    end = latest(reader, reader.initialOffset())
    assert list(bodies(reader, reader.initialOffset(), end)) == ["a"]
    assert latest(reader, end) == end


def test_new_queues_are_looked_for_as_often_as_the_options_say(
    broker: BrokerInThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now, sleep=lambda seconds: None))
    reader = open_reader(broker, discoveryIntervalMs="5000")
    first = latest(reader, reader.initialOffset())
    broker.topic("T", queues=3)
    send(broker, "a", queue_id=2)
    now += 4
    assert latest(reader, first) == first
    now += 2
    assert list(bodies(reader, first, latest(reader, first))) == ["a"]


def test_the_group_shows_what_is_done(broker: BrokerInThread) -> None:
    send(broker, "a", "b", "c")
    reader = open_reader(broker, maxOffsetsPerTrigger="2", commitGroup="g")
    limit = reader.getDefaultReadLimit()
    first = latest(reader, reader.initialOffset(), limit)
    assert progress(broker) == {}, "the batch is not done"
    second = latest(reader, first, limit)
    assert progress(broker) == {0: (2, 3), 1: (0, 0)}
    reader.commit(second)
    assert progress(broker) == {0: (3, 3), 1: (0, 0)}


def progress(broker: BrokerInThread) -> dict[int, tuple[int, int]]:
    with blocking.open_admin_client(broker.name_server) as admin:
        offsets = admin.offsets.progress_at(broker.address, "g").offset_table
    return {queue.queue_id: (each.consumer_offset, each.broker_offset) for queue, each in sorted(offsets.items())}


def test_a_batch_whose_queue_is_gone_is_named(broker: BrokerInThread) -> None:
    """After a crash the batch of the checkpoint is run first."""
    send(broker, "a", "b")
    reader = open_reader(broker)
    end = latest(reader, reader.initialOffset())
    with blocking.open_admin_client(broker.name_server) as admin:
        admin.topics.delete("T", cluster="DefaultCluster")
    again = open_reader(broker)
    with pytest.raises(ClientError, match=r"topic T is not known|batch of offsets 0 to 1, and no route"):
        again.partitions(again.initialOffset(), end)


def test_a_stopped_reader_has_no_connections(broker: BrokerInThread) -> None:
    reader = open_reader(broker)
    reader.stop()  # before any use
    latest(reader, reader.initialOffset())
    reader.stop()
    broker.crash()
    with pytest.raises(RemotingError, match=f"connect to {broker.address}"):
        latest(reader, reader.initialOffset())


def test_what_a_stream_needs_is_named() -> None:
    own = StructType([StructField("a", IntegerType())])
    for options, schema, words in [
        ({"topic": "T"}, SPARK_SCHEMA, "nameServer"),
        ({"nameServer": "a:1"}, SPARK_SCHEMA, "subscribePattern"),
        ({"nameServer": "a:1", "topic": "T"}, own, "unknown column .a."),
    ]:
        with pytest.raises(SettingsError, match=words):
            open_stream_reader(parse(options, Mode.STREAM), schema)


def test_a_schema_of_the_users_own_chooses_columns(broker: BrokerInThread) -> None:
    send(broker, "a")
    schema = spark_schema(["queue_offset", "body"])
    options = {"nameServer": broker.name_server, "topic": "T", "startingOffsets": "earliest"}
    reader = open_stream_reader(parse(options, Mode.STREAM), schema)
    [partition] = reader.partitions(reader.initialOffset(), reader.latestOffset(reader.initialOffset(), NOW))
    [batch] = reader.read(partition)
    assert batch.to_pydict() == {"queue_offset": [0], "body": [b"a"]}


def test_a_stream_may_begin_at_a_time(broker: BrokerInThread) -> None:
    send(broker, "a", "b")
    store_timestamp = broker.messages("T")[-1].store_timestamp
    reader = open_reader(
        broker, startingTimestamp=str(store_timestamp + 1), startingOffsetsByTimestampStrategy="latest"
    )
    send(broker, "c")
    end = latest(reader, reader.initialOffset())
    assert list(bodies(reader, reader.initialOffset(), end)) == ["c"]


def test_a_batch_is_cut_as_the_options_say(broker: BrokerInThread) -> None:
    send(broker, *"abcdef")
    reader = open_reader(broker, maxRecordsPerPartition="2")
    end = latest(reader, reader.initialOffset())
    assert len(reader.partitions(reader.initialOffset(), end)) == 3
    assert list(bodies(reader, reader.initialOffset(), end)) == list("abcdef")


def test_short_queues_of_a_batch_share_tasks(rocketmq: BrokerInThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cores_here", lambda: 1)
    rocketmq.topic("T", queues=30)
    for number in range(30):
        send(rocketmq, f"a{number:02d}", f"b{number:02d}", queue_id=number)
    reader = open_reader(rocketmq)
    end = latest(reader, reader.initialOffset())
    assert len(reader.partitions(reader.initialOffset(), end)) == 4
    read = list(bodies(reader, reader.initialOffset(), end))
    assert sorted(read, key=lambda body: body[1:]) == [f"{each}{number:02d}" for number in range(30) for each in "ab"]
