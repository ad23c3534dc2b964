"""The search by time is exact, whatever the broker answers to begin with."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import pytest

from rocketpy.errors import BrokerError, RemoteProtocolError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.access import ClusterAccess
from rocketpy.spark.live.cluster import Cluster, QueueBounds, Replicas
from rocketpy.spark.live.times import TimeSearch
from tests.spark.live.fake_cluster import FakeBroker, served

QUEUE = MessageQueue("T", "b", 0)
TIMES = [10, 10, 20, 30, 30, 30, 30, 40, 55, 55, 60, 70, 70, 80, 80, 90]
FIRST = 3  # the offset of the first message


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker({0: (FIRST, FIRST + len(TIMES))}, stored_at=lambda offset: TIMES[offset - FIRST])


@pytest.fixture
def search(broker: FakeBroker) -> Iterator[TimeSearch]:
    with served(broker.answer) as address:
        _REPLICAS[0] = Replicas("b", {0: address}, "127.0.0.1:1")
        with Cluster(ClusterAccess(name_servers=(), timeout_s=60)) as cluster:
            yield TimeSearch(cluster, consumer_group="g")


_REPLICAS: dict[int, Replicas] = {}


def first_from(search: TimeSearch, broker: FakeBroker, timestamp_ms: int) -> int:
    return search.first_from(QUEUE, _REPLICAS[0], QueueBounds(*broker.queues[0]), timestamp_ms)


@pytest.mark.parametrize("nearest", [0, FIRST, FIRST + 4, FIRST + 9, FIRST + len(TIMES) - 1, 10_000])
def test_it_finds_the_first_of_several_and_the_next_one_after_a_gap(
    broker: FakeBroker, search: TimeSearch, nearest: int
) -> None:
    broker.nearest = lambda _: nearest
    for timestamp_ms in range(95):
        assert first_from(search, broker, timestamp_ms) == FIRST + bisect_left(TIMES, timestamp_ms), timestamp_ms


def test_a_good_first_answer_is_confirmed_by_two_pulls(broker: FakeBroker, search: TimeSearch) -> None:
    broker.nearest = lambda _: FIRST + 7
    assert first_from(search, broker, 40) == FIRST + 7
    assert [pull.queue_offset for pull in broker.pulls] == [FIRST + 7, FIRST + 6]


def test_an_empty_queue_is_not_asked(broker: FakeBroker, search: TimeSearch) -> None:
    broker.queues[0] = (7, 7)
    assert first_from(search, broker, 40) == 7
    assert broker.pulls == []


def test_messages_that_expire_meanwhile_are_earlier_than_any(broker: FakeBroker, search: TimeSearch) -> None:
    bounds = QueueBounds(*broker.queues[0])
    broker.queues[0] = (FIRST + 5, FIRST + len(TIMES))
    assert search.first_from(QUEUE, _REPLICAS[0], bounds, 0) == FIRST + 5


def test_a_refusal_and_garbage_name_the_message(broker: FakeBroker, search: TimeSearch) -> None:
    broker.refusal = ResponseCode.SYSTEM_BUSY
    with pytest.raises(BrokerError, match="queue 0 offset 3: refused"):
        first_from(search, broker, 40)
    broker.refusal = ResponseCode.SUCCESS
    with pytest.raises(RemoteProtocolError, match="expected the message at offset 3 of topic T broker b queue 0"):
        first_from(search, broker, 40)
