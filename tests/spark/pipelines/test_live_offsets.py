"""Offsets of groups, asked of a broker that runs."""

from __future__ import annotations

import pytest
import trio

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession

from rocketpy.client import Message, blocking, open_client
from rocketpy.errors import ClientError
from rocketpy.spark.pipelines.live_offsets import live_group_offsets
from rocketpy.testing.fixture.in_thread import BrokerInThread


async def consume(name_server: str, group: str, topic: str, count: int) -> None:
    """Acknowledge the first messages of a topic."""
    async with (
        open_client(name_server) as client,
        client.pull_consumer(group) as reader,
        reader.open_messages(topic, start="stored") as messages,
    ):
        for _ in range(count):
            await anext(messages)
        await messages.commit()


def test_offsets_are_those_of_the_topics_that_are_named(spark: SparkSession, rocketmq: BrokerInThread) -> None:
    with blocking.open_producer(rocketmq.name_server) as producer:
        for topic in (rocketmq.topic("T", queues=1), rocketmq.topic("U", queues=1)):
            for number in range(3):
                producer.send(Message(topic, str(number).encode()))
    for group, topic, count in (("slow", "T", 1), ("fast", "T", 3), ("other", "U", 2)):
        trio.run(consume, rocketmq.name_server, group, topic, count)
    offsets = live_group_offsets(spark, rocketmq.name_server, ["T"])
    [name] = {row.broker_name for row in offsets.collect()}
    assert sorted(tuple(row) for row in offsets.collect()) == [("T", "fast", 0, 3, name), ("T", "slow", 0, 1, name)]
    chosen = live_group_offsets(spark, rocketmq.name_server, [], options={"subscribePattern": "U|X"})
    assert [tuple(row) for row in chosen.collect()] == [("U", "other", 0, 2, name)]
    with pytest.raises(ClientError, match="topic Missing is not known"):
        live_group_offsets(spark, rocketmq.name_server, ["Missing"])
