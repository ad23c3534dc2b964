"""The view of the cluster outlives outages, and finds what is new."""

from __future__ import annotations

import pytest

from rocketpy.errors import RemotingConnectError
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.cluster import QueueBounds
from rocketpy.spark.stream.watch import LOOK_INTERVAL_S, PAUSE_MAX_S, Look
from tests.forgotten import sizes_within
from tests.spark.stream.fake_cluster import A0, A1, B0, FakeCluster, replicas


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster({A0: QueueBounds(0, 5), B0: QueueBounds(2, 3)})


def test_a_look_sees_the_bounds_of_every_queue(cluster: FakeCluster) -> None:
    assert cluster.watch().look(()) == Look({A0: QueueBounds(0, 5), B0: QueueBounds(2, 3)}, frozenset())


def test_a_new_queue_is_found_when_the_routes_are_asked_again(cluster: FakeCluster) -> None:
    watch = cluster.watch()
    watch.look(())
    cluster.bounds[A1] = QueueBounds(0, 1)
    cluster.now += 9.9
    assert A1 not in watch.look(()).bounds
    cluster.now += 0.1
    assert A1 in watch.look(()).bounds


def test_queues_of_a_broker_that_does_not_answer_stand_still(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    watch = cluster.watch()
    watch.look(())
    cluster.down = {"b"}
    for _ in range(3):
        assert watch.look([A0, B0]) == Look({A0: QueueBounds(0, 5)}, frozenset())
    cluster.down = set()
    assert B0 in watch.look([A0, B0]).bounds
    assert [record.getMessage() for record in caplog.records] == [
        "stream: 1 queues of broker b stand still: connect to b failed",
        "stream: broker b: answers again",
    ]


def test_a_broker_that_takes_its_topics_off_the_nameserver_is_asked_where_it_was(cluster: FakeCluster) -> None:
    """Which a broker does that stops; a restart of it is not the end of its topics."""
    watch = cluster.watch()
    watch.look(())
    cluster.hidden, cluster.down = {B0}, {"b"}
    cluster.now += 11
    assert watch.look([B0]) == Look({A0: QueueBounds(0, 5)}, frozenset())
    cluster.down = set()
    assert watch.look([B0]).bounds[B0] == QueueBounds(2, 3)


def test_a_nameserver_that_does_not_answer_leaves_the_queues_known_before(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    watch = cluster.watch()
    watch.look(())
    cluster.down = {"ns"}
    cluster.now += 11
    assert set(watch.look(()).bounds) == {A0, B0}
    assert "no routes, topics and queues are those known before: connect to ns failed" in caplog.text


def test_a_queue_that_no_route_ever_named_is_unknown(cluster: FakeCluster) -> None:
    assert cluster.watch().look([A0, A1]).unknown == {A1}


@pytest.mark.parametrize("peer", ["ns", "b"])
def test_a_complete_view_needs_every_answer(cluster: FakeCluster, peer: str) -> None:
    cluster.down = {peer}
    with pytest.raises(RemotingConnectError, match=f"connect to {peer} failed"):
        cluster.watch().look_at_everything(())


def test_an_idle_query_pauses_between_looks(cluster: FakeCluster) -> None:
    watch = cluster.watch()
    for _ in range(3):
        watch.look(())
    assert cluster.slept == [pytest.approx(LOOK_INTERVAL_S)]
    cluster.bounds[A0] = QueueBounds(0, 6)
    watch.look(())
    watch.look(())
    assert len(cluster.slept) == 2, "what has changed is looked at again at once"


@pytest.mark.parametrize(("answer_s", "pause_s"), [(0.01, 0.2), (10.0, PAUSE_MAX_S)])
def test_the_pause_grows_with_the_time_that_a_look_takes(cluster: FakeCluster, answer_s: float, pause_s: float) -> None:
    watch = cluster.watch()
    cluster.answer_s = answer_s  # two brokers
    for _ in range(3):
        watch.look(())
    assert cluster.slept == [pytest.approx(pause_s)]


def test_the_brokers_of_a_queue_are_looked_up_once(cluster: FakeCluster) -> None:
    watch = cluster.watch()
    assert watch.find(A0) == replicas("a")
    cluster.down = {"ns"}
    assert watch.find(B0) == replicas("b")
    assert set(watch.replicas) == {A0, B0}
    cluster.down = set()
    assert watch.find(A1) is None


def test_queues_and_brokers_that_come_and_go_leave_nothing(cluster: FakeCluster) -> None:
    """But for what the query has an offset of: that broker may come back."""
    watch = cluster.watch()
    for number in range(20):
        queue = MessageQueue(f"T{number}", f"broker{number}", 0)
        cluster.bounds[queue] = QueueBounds(0, 1)
        cluster.down = {queue.broker_name}
        watch.look([A0, B0])
        cluster.now += 10
        cluster.hidden |= {queue, B0}
    watch.look([A0, B0])
    assert set(watch.replicas) == {A0, B0}
    assert sum(sizes_within(watch).values()) < 20
