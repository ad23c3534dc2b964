"""Spark reads a master and its slave as processes: over the death of the master, and while there is none.

The readers are called as Spark's workers call them, without Spark: its session would add seconds and nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable

from rocketpy.errors import ClientError, RemotingConnectError
from rocketpy.spark.live.reader import LiveReader
from rocketpy.spark.live.settings import settings_of
from rocketpy.spark.options.option import Mode
from rocketpy.spark.options.parsing import parse
from rocketpy.spark.schema import spark_schema
from rocketpy.spark.stream.reader import RocketMQStreamReader, open_stream_reader
from tests.blackbox.wire import SUCCESS, Wire
from tests.interop.pair import Pair, open_pair

pytestmark = pytest.mark.blackbox

TOPIC = "pairs"
MESSAGES = 300
BODY_SIZE = 30_000  # several batches in a part
SCHEMA = spark_schema(["queue_offset", "body"])


@pytest.fixture
def pair(tmp_path: Path, namesrv: str) -> Iterator[Pair]:
    """A master with messages in one queue, and a slave that has all of them."""
    settings = {"mappedFileSizeCommitLog": 1 << 25}  # one file: a new slave begins with its master's last one
    with open_pair(tmp_path, namesrv, ("rocketpy", "rocketpy"), "ASYNC_MASTER", **settings) as pair:
        pair.master.start()
        with Wire(pair.master.address) as wire:
            assert wire.create_topic(TOPIC, 1).code == SUCCESS
            send(wire, 0)
        pair.slave.start()
        pair.wait_equal()
        with Wire(pair.slave.address) as wire:
            pair.slave.wait(lambda: f'"{TOPIC}"' in wire.topic_table(), "it does not know the topic")
        yield pair


def send(wire: Wire, first: int) -> None:
    chance = random.Random(first)
    for number in range(first, first + MESSAGES):
        response = wire.send(TOPIC, 0, b"%d " % number + chance.randbytes(BODY_SIZE))
        assert response.code == SUCCESS, response


def options(pair: Pair, read_from: str) -> dict[str, str]:
    return {
        "nameServer": pair.master.namesrv,
        "topic": TOPIC,
        "readFrom": read_from,
        "startingOffsets": "earliest",
        "requestTimeoutMs": "60000",
    }


def numbers(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [int(body.split(b" ", 1)[0]) for batch in batches for body in batch.column("body").to_pylist()]


def test_slaves_are_read_while_the_master_dies_and_planned_with_while_there_is_none(pair: Pair) -> None:
    reader = LiveReader(settings_of(parse(options(pair, "any"), Mode.LIVE)), SCHEMA)
    alone = LiveReader(settings_of(parse(options(pair, "master"), Mode.LIVE)), SCHEMA)
    stream = open_stream_reader(parse(options(pair, "slave"), Mode.STREAM), SCHEMA)
    assert isinstance(stream, RocketMQStreamReader)
    [partition] = reader.partitions()
    assert [part.addresses for part in partition.value] == [(pair.master.address, pair.slave.address)]
    first = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    batches = reader.read(partition)
    found = numbers(iter([next(batches)]))
    assert len(found) < MESSAGES, "something is left for the slave"
    pair.master.kill()
    assert found + numbers(batches) == list(range(MESSAGES))

    [again] = reader.partitions()
    assert numbers(reader.read(again)) == list(range(MESSAGES))
    with pytest.raises(
        (RemotingConnectError, ClientError),  # until the nameserver has noticed, and afterwards
        match=rf"connect to {pair.master.address} failed.*broker pair|broker pair has no master .*readFrom=slave",
    ):
        alone.partitions()
    [part] = stream.partitions(stream.initialOffset(), first)
    assert numbers(stream.read(part)) == list(range(MESSAGES))
    assert stream.latestOffset(first, ReadAllAvailable()) == first

    pair.master.start()
    with Wire(pair.master.address) as wire:
        send(wire, MESSAGES)
    pair.wait_equal()
    second = stream.latestOffset(first, ReadAllAvailable())
    [part] = stream.partitions(first, second)
    assert numbers(stream.read(part)) == list(range(MESSAGES, 2 * MESSAGES))
    stream.stop()
