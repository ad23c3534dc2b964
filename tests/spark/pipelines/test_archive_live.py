"""Where the archive of a cluster continues: by the archive's ranges and the bounds of the queues."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession

from rocketpy.client import Message, blocking
from rocketpy.errors import ClientError
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.cluster import QueueBounds
from rocketpy.spark.pipelines.archive import archive, read_archive
from rocketpy.spark.pipelines.archive_live import new_live_messages, next_offsets
from rocketpy.spark.pipelines.archive_log.ranges import OffsetRange
from rocketpy.spark.pipelines.summary import Summary
from rocketpy.testing.fixture.in_thread import BrokerInThread
from tests.spark.pipelines.messages import places

QUEUE = MessageQueue("T", "b", 0)


def held(*spans: tuple[int, int]) -> list[OffsetRange]:
    return [OffsetRange("T", "b", 0, start, end) for start, end in spans]


def next_offset(ranges: list[OffsetRange], earliest: int, latest: int, *, fails: bool = True) -> int:
    return next_offsets(ranges, {QUEUE: QueueBounds(earliest, latest)}, fail_on_data_loss=fails)[QUEUE]


@pytest.mark.parametrize(
    ("ranges", "earliest", "latest", "expected"),
    [
        ([], 3, 9, 3),
        (held((0, 5)), 0, 9, 5),
        (held((0, 9)), 4, 9, 9),
        (held((3, 5)), 0, 9, 0),  # older messages, as on a disk that was archived from its middle
        (held((0, 5), (7, 9)), 0, 12, 5),  # a gap is read again
        (held((0, 5), (7, 9)), 6, 12, 6),
        (held((0, 5), (7, 9)), 8, 12, 9),
        (held((0, 5)), 5, 5, 5),
        ([OffsetRange("T", "other", 0, 0, 5)], 0, 9, 0),
        ([OffsetRange("T", "b", 1, 0, 5)], 2, 9, 2),
    ],
)
def test_a_queue_is_read_from_the_first_message_that_the_archive_lacks(
    ranges: list[OffsetRange], earliest: int, latest: int, expected: int
) -> None:
    assert next_offset(ranges, earliest, latest) == expected


def test_messages_that_were_deleted_before_they_were_archived_are_an_error_or_left_out() -> None:
    with pytest.raises(ClientError, match="queue 0: offsets 5 to 6 were deleted before they were archived"):
        next_offset(held((0, 5)), 7, 9)
    assert next_offset(held((0, 5)), 7, 9, fails=False) == 7


def test_a_queue_that_ends_before_the_archive_is_an_error_or_read_from_the_archives_end_on() -> None:
    with pytest.raises(ClientError, match=r"up to offset 4, the broker's queue ends at 2: .* created again"):
        next_offset(held((0, 5)), 0, 2)
    assert next_offset(held((0, 5)), 0, 2, fails=False) == 2
    assert next_offset(held((0, 5)), 0, 7, fails=False) == 5


def send(broker: BrokerInThread, topic: str, count: int) -> None:
    with blocking.open_producer(broker.name_server) as producer:
        for number in range(count):
            producer.send(Message(topic, str(number).encode()))


def delete(broker: BrokerInThread, topic: str) -> None:
    with blocking.open_admin_client(broker.name_server) as admin:
        admin.topics.delete_in_brokers([broker.address], topic)


def test_each_run_reads_what_is_new_until_the_topic_is_another(
    spark: SparkSession, rocketmq: BrokerInThread, tmp_path: Path
) -> None:
    topic, root = rocketmq.topic("T", queues=2), str(tmp_path / "archive")

    def run(**options: str) -> Summary:
        return archive(new_live_messages(spark, rocketmq.name_server, [topic], root, options=options), root)

    send(rocketmq, topic, 7)
    first = run()
    send(rocketmq, topic, 4)
    second, third = run(), run()
    assert [(each.read, each.written) for each in (first, second, third)] == [(7, 7), (4, 4), (0, 0)]
    everything = new_live_messages(
        spark, rocketmq.name_server, [], root, options={"subscribe": topic, "startingOffsets": "earliest"}
    )
    assert everything.count() == 11
    delete(rocketmq, topic)
    send(rocketmq, rocketmq.topic(topic, queues=2), 2)
    with pytest.raises(ClientError, match="was deleted and created again"):
        run()
    assert run(failOnDataLoss="false").read == 0
    assert len(set(places(read_archive(spark, root)))) == 11
