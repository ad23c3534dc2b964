"""The same messages by all ways: live, from the files, and from an archive of either."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.client import Message, blocking
from rocketpy.spark.pipelines.archive import archive, archived_ranges, read_archive
from rocketpy.spark.pipelines.sources import live_messages, store_messages
from rocketpy.testing.fixture.home import Home, at_home
from rocketpy.testing.fixture.in_thread import BrokerInThread
from rocketpy.testing.fixture.options import BrokerOptions
from tests.spark.files.test_reader import golden_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.spark

BROKER_NAME = "of-the-test"


@pytest.fixture
def broker_and_store() -> Iterator[tuple[BrokerInThread, str]]:
    """A broker, and its store directory."""
    homes: list[Home] = []

    def make(home: Home) -> BrokerInThread:
        homes.append(home)
        return BrokerInThread(home, BrokerOptions(settings={"brokerName": BROKER_NAME}))

    with at_home(make) as broker:
        yield broker, os.path.join(homes[0].directory, "store")


def rows(messages: DataFrame) -> list[Row]:
    """Return all columns of all messages, by their place."""
    return messages.orderBy("topic", "queue_id", "queue_offset").collect()


def send(broker: BrokerInThread, topic: str, bodies: list[bytes]) -> None:
    with blocking.open_producer(broker.name_server) as producer:
        for body in bodies:
            producer.send(Message(topic, body, {"TAGS": "t", "KEYS": "a b", "colour": "blå"}))


def test_live_files_and_archives_of_both_are_equal(
    spark: SparkSession, broker_and_store: tuple[BrokerInThread, str], tmp_path: Path
) -> None:
    """An archive of the cluster is completed from the disk, and one of the disk from the cluster."""
    broker, store = broker_and_store
    topic = broker.topic("orders")
    send(broker, topic, [b"x" * 10_000, b"1", "ü".encode()])  # the first one is compressed
    live, files = live_messages(spark, broker.name_server, [topic]), store_messages(spark, store, BROKER_NAME, [topic])
    roots = [str(tmp_path / "live-first"), str(tmp_path / "files-first")]
    archive(live, roots[0])
    archive(files, roots[1])
    send(broker, topic, [b"3", b"4"])
    files_now = store_messages(spark, store, BROKER_NAME, [topic])
    live_now = live_messages(spark, broker.name_server, [topic])
    completed = [archive(files_now, roots[0]), archive(live_now, roots[1])]
    assert [(each.read, each.written) for each in completed] == [(5, 2), (5, 2)]
    expected = rows(files_now)
    assert len(expected) == 5
    assert {row.broker_name for row in expected} == {BROKER_NAME}
    assert rows(live_now) == expected
    assert [rows(read_archive(spark, root)) for root in roots] == [expected, expected]
    assert archived_ranges(spark, roots[0]) == archived_ranges(spark, roots[1])


@pytest.mark.parametrize("name", ["store-clean", "store-crash", "store-ipv6"])
def test_a_store_that_java_wrote_is_equal_in_its_archive(spark: SparkSession, tmp_path: Path, name: str) -> None:
    store, records = golden_store(name, tmp_path)
    files = store_messages(spark, str(store), "b", sorted({str(record["topic"]) for record in records}))
    summary = archive(files, str(tmp_path / "archive"))
    assert summary.written == summary.read == len(records)
    assert rows(read_archive(spark, str(tmp_path / "archive"))) == rows(files)
