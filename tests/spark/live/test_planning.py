"""Plans against a broker of ours: what is read, how it is cut, from which brokers, and what shrinks it."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from rocketpy.client import Message, MessageQueue, blocking
from rocketpy.errors import ClientError
from rocketpy.spark.filters import MessageFilter, Range
from rocketpy.spark.live.cluster import Cluster, Replicas
from rocketpy.spark.live.parts import QueueSpan
from rocketpy.spark.live.planning import parts_of, plan_parts
from rocketpy.spark.live.settings import settings_of
from rocketpy.spark.live.times import CLOCK_MARGIN_MS
from rocketpy.spark.options.option import Mode
from rocketpy.spark.options.parsing import parse
from rocketpy.testing.fixture.in_thread import BrokerInThread, open_broker_in_thread
from rocketpy.testing.fixture.options import BrokerOptions
from tests.spark.live.fake_cluster import FakeBroker, FakeNameServer, served

PAUSE_S = 100


@attrs.define
class World:
    broker: BrokerInThread
    times: list[int]  # when the ten messages of queue 0 were stored

    def plan(self, wants: MessageFilter | None = None, **options: str) -> list[tuple[str, int, int, int]]:
        """Return topic, queue, start and end of each part."""
        found = settings_of(parse({"nameServer": self.broker.name_server, "subscribe": "T", **options}, Mode.LIVE))
        if wants is not None:
            found = attrs.evolve(found, pull=attrs.evolve(found.pull, wants=wants))
        with Cluster(found.pull.access) as cluster:
            parts = [part for task in plan_parts(cluster, found, cores=2) for part in task]
        for part in parts:
            assert part.addresses == (self.broker.address,)
            assert part.advertised_by == self.broker.name_server
        return [(part.span.queue.topic, part.span.queue.queue_id, part.span.start, part.span.end) for part in parts]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """T: ten messages in queue 0, a pause after each second one; four in queue 1; none in queue 2. U: one."""
    with open_broker_in_thread(BrokerOptions()) as broker:
        broker.topic("T", 3)
        broker.topic("U", 1)
        with blocking.open_producer(broker.name_server) as producer:
            for number in range(10):
                producer.send(Message("T", b"%d" % number), queue=MessageQueue("T", "broker-a", 0))
                if number % 2:
                    broker.advance(PAUSE_S)
            for number in range(4):
                producer.send(Message("T", b"%d" % number), queue=MessageQueue("T", "broker-a", 1))
            producer.send(Message("U", b"u"))
        times = [message.store_timestamp for message in broker.messages("T") if message.queue_id == 0]
        yield World(broker, times)


def test_everything_of_a_topic(world: World) -> None:
    assert world.plan() == [("T", 0, 0, 10), ("T", 1, 0, 4)]


def test_parts_are_cut_by_size(world: World) -> None:
    assert world.plan(minPartitions="7") == [
        *[("T", 0, at, at + 2) for at in range(0, 10, 2)],
        ("T", 1, 0, 2),
        ("T", 1, 2, 4),
    ]
    assert world.plan(maxRecordsPerPartition="5") == [("T", 0, 0, 5), ("T", 0, 5, 10), ("T", 1, 0, 4)]


def test_times_are_exact(world: World) -> None:
    assert world.plan(
        startingTimestamp=str(world.times[2]),
        endingTimestamp=str(world.times[6]),
        startingOffsetsByTimestampStrategy="latest",
    ) == [("T", 0, 2, 6)]
    late = {"startingTimestamp": str(world.times[2] + 1), "startingOffsetsByTimestampStrategy": "latest"}
    assert world.plan(**late) == [("T", 0, 4 if world.times[3] == world.times[2] else 3, 10), ("T", 1, 0, 4)]


def test_offsets_that_are_not_there_are_an_error_or_what_is_left(world: World) -> None:
    beyond = {"startingOffsets": '{"T": {"broker-a": {"0": 11, "1": 0, "2": 0}}}'}
    with pytest.raises(ClientError, match=r"startingOffsets: topic T .* queue 0 offset 11 is not there, .*0 to 9"):
        world.plan(**beyond)
    assert world.plan(failOnDataLoss="false", **beyond) == [("T", 1, 0, 4)]
    end = {"endingOffsets": '{"T": {"broker-a": {"0": 99, "1": -1, "2": -1}}}'}
    with pytest.raises(ClientError, match=r"endingOffsets: .* offset 99"):
        world.plan(**end)
    assert world.plan(failOnDataLoss="false", **end) == world.plan()


def test_conditions_shrink_the_plan(world: World) -> None:
    assert world.plan(MessageFilter(topics=frozenset({"U"}))) == []
    assert world.plan(MessageFilter(queue_ids=frozenset({1}))) == [("T", 1, 0, 4)]
    assert world.plan(MessageFilter(queue_offsets=Range(3, 6))) == [("T", 0, 3, 6), ("T", 1, 3, 4)]


def test_a_range_of_store_times_is_cut_with_a_margin_for_clocks_that_were_set_back(world: World) -> None:
    assert CLOCK_MARGIN_MS < PAUSE_S * 1000
    times = Range(world.times[4], world.times[7] + 1)
    assert world.plan(MessageFilter(store_timestamps_ms=times)) == [("T", 0, 4, 8)]
    assert world.plan(startTimestamp=str(times.start), endTimestamp=str(times.end)) == [("T", 0, 4, 8)]
    assert world.plan(startTimestamp=str(world.times[4] + CLOCK_MARGIN_MS - 1000))[0] == ("T", 0, 4, 10)


BOTH = Replicas("b", {0: "m:1", 1: "s:1", 2: "s:2"}, "n:1")


@pytest.mark.parametrize(
    ("read_from", "expected"),
    [
        ("master", [("m:1",), ("m:1",)]),
        ("slave", [("s:1", "s:2", "m:1"), ("s:2", "s:1", "m:1")]),
        ("any", [("m:1", "s:1", "s:2"), ("s:1", "s:2", "m:1")]),
    ],
)
def test_which_brokers_a_part_is_read_from(read_from: str, expected: list[tuple[str, ...]]) -> None:
    queues = [MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)]
    found = settings_of(parse({"nameServer": "n:1", "topic": "T", "readFrom": read_from}, Mode.LIVE))
    spans = [QueueSpan(queue, 0, 5) for queue in queues]
    parts = [part for task in parts_of(spans, dict.fromkeys(queues, BOTH), found, cores=2) for part in task]
    assert [part.addresses for part in parts] == expected
    assert all(part.slaves == {"s:1", "s:2"} for part in parts)


@pytest.mark.parametrize(
    ("options", "tasks"),
    [({}, 8), ({"minPartitions": "20"}, 20), ({"minPartitions": "3"}, 8), ({"maxRecordsPerPartition": "100"}, 20)],
)
def test_many_short_queues_are_four_tasks_for_each_core_unless_the_options_want_more(
    options: dict[str, str], tasks: int
) -> None:
    found = settings_of(parse({"nameServer": "n:1", "topic": "T", **options}, Mode.LIVE))
    queues = [MessageQueue("T", "b", number) for number in range(1000)]
    spans = [QueueSpan(queue, 5, 7) for queue in queues]
    planned = parts_of(spans, dict.fromkeys(queues, BOTH), found, cores=2)
    assert len(planned) == tasks
    assert sorted(part.span.queue for task in planned for part in task) == queues


def test_a_range_of_store_times_reads_on_past_a_clock_that_was_set_back() -> None:
    """The third message was stored before 101 s, and the second one after."""
    times = [100_000, 101_500, 100_900]
    broker = FakeBroker({0: (0, 3)}, stored_at=times.__getitem__)
    with served(broker.answer) as address, served(FakeNameServer({0: address}, 1).answer) as name_server:
        found = settings_of(parse({"nameServer": name_server, "topic": "T", "endTimestamp": "101000"}, Mode.LIVE))
        with Cluster(found.pull.access) as cluster:
            [(part,)] = plan_parts(cluster, found, cores=2)
    assert (part.span.start, part.span.end) == (0, 3)
