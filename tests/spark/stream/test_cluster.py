"""Requests of a stream, answered by a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketpy.client import Message, blocking
from rocketpy.errors import BrokerError, ClientError, RemotingConnectError
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.access import ClusterAccess
from rocketpy.spark.live.cluster import Cluster, QueueBounds, Replicas
from rocketpy.spark.live.subscription import Subscription
from rocketpy.spark.stream.cluster import StreamCluster
from rocketpy.testing.fixture.in_thread import BrokerInThread
from tests.patience import wait_until

T0, T1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


@pytest.fixture
def cluster(rocketmq: BrokerInThread) -> Iterator[StreamCluster]:
    cluster = open_cluster(rocketmq.name_server)
    yield cluster
    cluster.close()


def open_cluster(*name_servers: str, **subscription: object) -> StreamCluster:
    access = ClusterAccess(name_servers=name_servers)
    return StreamCluster(Cluster(access), Subscription(**(subscription or {"topics": ("T",)})))  # type: ignore[arg-type]


def send(broker: BrokerInThread, queue: MessageQueue, count: int) -> None:
    with blocking.open_producer(broker.name_server) as producer:
        for number in range(count):
            producer.send(Message(queue.topic, b"%d" % number), queue=queue)


def test_the_queues_of_a_topic_have_their_brokers(rocketmq: BrokerInThread, cluster: StreamCluster) -> None:
    rocketmq.topic("T", queues=2)
    found = cluster.subscribed_queues()
    assert {queue: replicas.master for queue, replicas in found.items()} == {
        T0: rocketmq.address,
        T1: rocketmq.address,
    }


def test_a_topic_that_never_was_is_an_error_that_names_it(rocketmq: BrokerInThread) -> None:
    rocketmq.topic("T")
    with pytest.raises(ClientError, match="topic Nowhere is not known to"):
        open_cluster(rocketmq.name_server, topics=("T", "Nowhere")).subscribed_queues()


def test_a_topic_that_was_there_may_be_away_with_its_broker(rocketmq: BrokerInThread) -> None:
    cluster = open_cluster(rocketmq.name_server, topics=("T", "U"))
    rocketmq.topic("T", queues=1)
    rocketmq.topic("U", queues=1)
    cluster.subscribed_queues()
    with blocking.open_admin_client(rocketmq.name_server) as admin:
        admin.topics.delete("T", cluster="DefaultCluster")
    assert {queue.topic for queue in cluster.subscribed_queues()} == {"U"}


def test_a_pattern_finds_topics_that_appear(rocketmq: BrokerInThread) -> None:
    cluster = open_cluster(rocketmq.name_server, pattern="T.*")
    assert cluster.subscribed_queues() == {}
    rocketmq.topic("T1", queues=1)
    rocketmq.topic("U", queues=1)
    assert {queue.topic for queue in cluster.subscribed_queues()} == {"T1"}


def test_bounds_are_those_of_the_broker_also_after_its_restart(
    rocketmq: BrokerInThread, cluster: StreamCluster
) -> None:
    """The connection that was kept has ended by then."""
    rocketmq.topic("T", queues=2)
    send(rocketmq, T1, 3)
    queues = cluster.subscribed_queues()
    expected = {T0: QueueBounds(0, 0), T1: QueueBounds(0, 3)}
    assert cluster.queue_bounds(queues) == expected
    rocketmq.restart()
    assert cluster.queue_bounds(queues) == expected
    rocketmq.crash()
    with pytest.raises(RemotingConnectError, match=rocketmq.address):
        cluster.queue_bounds(queues)


def test_a_group_that_is_introduced_is_known_and_has_no_member(
    rocketmq: BrokerInThread, cluster: StreamCluster
) -> None:
    rocketmq.topic("T", queues=2)
    send(rocketmq, T1, 3)
    replicas = cluster.subscribed_queues()[T1]
    assert not cluster.is_group_known("g", replicas)
    cluster.introduce_group("g", replicas)
    wait_until(lambda: cluster.is_group_known("g", replicas))  # until the broker has registered the new topic
    assert not cluster.is_group_known("g", Replicas("broker-b", {}, ""))
    cluster.commit_offsets("g", replicas, {T1: 2})
    with blocking.open_admin_client(rocketmq.name_server) as admin:
        offsets = admin.offsets.progress("g").offset_table
        with pytest.raises(BrokerError, match="not online"):
            admin.clients.consumers("g")
    assert (offsets[T1].consumer_offset, offsets[T1].broker_offset) == (2, 3)
