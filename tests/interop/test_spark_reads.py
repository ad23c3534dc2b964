"""The same messages by four ways: live, as a stream, from files, from an archive; of Java's broker and of ours.

Every kind of message that a client can send is there, and every column of every row is compared. What the files hold
is what Java itself says of them: ``tests/spark/files/test_reader.py`` compares that with Java's own reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import attrs

from rocketpy.client import CompressionType, LocalTransactionState, Message, MessageExt
from rocketpy.spark.pipelines.archive import archive, read_archive
from rocketpy.spark.pipelines.sources import live_messages, store_messages
from tests.blackbox.wire import SUCCESS, Wire, WireError
from tests.interop.cluster import Cluster
from tests.interop.conftest import BROKERS, chosen_cluster, unique_name
from tests.interop.our_client import PATIENT_PRODUCER, open_our_client
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.spark.conftest import spark as spark
from tests.spark_runtime import started_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = [pytest.mark.java, pytest.mark.spark]

QUEUES = 4
BROKER_NAME = "broker-0"
LARGE = "Straße, 東京, кит. ".encode() * 700
"""Larger than the 4 KiB above which a producer compresses."""
COMPRESSIONS = (CompressionType.ZLIB, CompressionType.LZ4, CompressionType.ZSTD)
PROPERTIES = {"plain": "value", "Länge": "Maß 長さ 😀", "with space": "a b = c"}


@pytest.fixture(params=BROKERS)
def chosen(request: pytest.FixtureRequest) -> Cluster:
    return chosen_cluster(request)


async def send_every_kind(cluster: Cluster, topic: str) -> Counter[str]:
    """Send messages of every kind; return how many of each are to be in the topic, by the first word of the body."""
    sent: Counter[str] = Counter()

    def message(kind: str, number: int = 0, more: bytes = b"", *, delay_level: int = 0) -> Message:
        sent[kind] += 1
        return Message.create(
            topic,
            f"{kind} {number} äöü 😀 ".encode() + more,
            tags="größe" if number % 2 else "",
            keys=f"{kind}{number} one two" if number % 3 else "",
            properties=PROPERTIES if number % 2 == 0 else {},
            delay_level=delay_level,
        )

    async def outcome(message: MessageExt) -> LocalTransactionState:
        return LocalTransactionState.ROLLBACK_MESSAGE

    async with open_our_client(cluster.namesrv) as client:
        async with client.producer("ways", config=PATIENT_PRODUCER) as producer:
            await producer.send(message("delayed", delay_level=1))
            for number in range(12):
                await producer.send(message("single", number))
            await producer.send_batch([message("batch", number) for number in range(10)])
            await producer.send(message("binary", 0, bytes(range(256))))
        for compression in COMPRESSIONS:
            config = attrs.evolve(PATIENT_PRODUCER, compress_type=compression)
            async with client.producer(f"ways_{compression.name}", config=config) as producer:
                await producer.send(message("compressed", 1, LARGE))
        async with client.transaction_producer("ways_transaction", check=outcome, config=PATIENT_PRODUCER) as producer:
            async with producer.transaction(message("committed", 1)) as transaction:
                await transaction.commit()
            async with producer.transaction(Message(topic, b"rolled back")) as transaction:
                await transaction.rollback()
    sent["bare"] = await trio.to_thread.run_sync(send_bare, cluster, topic)
    return sent


def send_bare(cluster: Cluster, topic: str) -> int:
    """Send messages without a property, by IPv4 and, where the broker listens there, by IPv6."""
    [address] = cluster.brokers.values()
    count = 0
    for host in ("127.0.0.1", "::1"):
        try:
            wire = Wire(f"{host}:{address.rpartition(':')[2]}")
        except WireError:
            continue
        with wire:
            assert wire.send(topic, count, b"bare").code == SUCCESS
            count += 1
    return count


def wait_stored(cluster: Cluster, topic: str, count: int) -> None:
    """Wait until the topic has so many messages: delayed and transactional ones come late."""
    [address] = cluster.brokers.values()
    with Wire(address) as wire:

        def found() -> int:
            return sum(wire.max_offset(topic, each) for each in range(QUEUES))

        wait_until(lambda: found() >= count, lambda: f"{found()} of {count} messages")
        assert found() == count


def rows(messages: DataFrame, columns: Sequence[str]) -> list[Row]:
    return sorted(messages.select(*columns).collect(), key=lambda row: (row.queue_id, row.queue_offset))


def streamed(spark: SparkSession, cluster: Cluster, topic: str, directory: Path) -> DataFrame:
    """Return what a stream of the topic has written, in batches that end in the middle of queues."""
    options = {
        "nameServer": cluster.namesrv,
        "topic": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "20",
    }
    writer = spark.readStream.format("rocketmq").options(**options).load().writeStream.format("parquet")
    places = {"path": str(directory / "streamed"), "checkpointLocation": str(directory / "checkpoint")}
    query = started_query(writer.options(**places).trigger(availableNow=True))
    try:
        assert query.awaitTermination(PATIENCE_SECONDS)
        assert sum(progress.numInputRows > 0 for progress in query.recentProgress) > 1
    finally:
        query.stop()
    return spark.read.parquet(str(directory / "streamed"))


def test_every_way_gives_the_same_rows(
    spark: SparkSession, chosen: Cluster, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    topic = chosen.create_topic(unique_name(request), QUEUES)
    sent = trio.run(send_every_kind, chosen, topic)
    wait_stored(chosen, topic, sent.total())
    files = store_messages(spark, str(chosen.store_path(BROKER_NAME)), BROKER_NAME, [topic])
    live = live_messages(spark, chosen.namesrv, [topic])
    expected = rows(files, files.columns)
    assert Counter(bytes(row.body).split()[0].decode() for row in expected) == sent
    large = [row for row in expected if LARGE in row.body]
    assert [row.stored_size < len(LARGE) for row in large] == [True] * len(COMPRESSIONS)
    assert {dict(row.properties).get("Länge") for row in expected} == {None, PROPERTIES["Länge"]}
    assert any(row.prepared_transaction_offset for row in expected)
    if sent["bare"] == 2:
        assert "::1" in {row.born_host.strip("[").partition("]")[0] for row in expected}
    assert rows(live, files.columns) == expected
    assert rows(streamed(spark, chosen, topic, tmp_path), files.columns) == expected
    assert archive(live, str(tmp_path / "archive")).written == sent.total()
    assert rows(read_archive(spark, str(tmp_path / "archive")), files.columns) == expected
