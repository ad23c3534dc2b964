"""Requests of a stream, answered by a real broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import pytest

from rocketpy.client import Message, blocking
from rocketpy.errors import BrokerError, ClientError, RemotingConnectError
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.remoting import BlockingRemotingClient
from rocketpy.spark.stream.cluster import LiveCluster
from rocketpy.spark.stream.losses import QueueBounds
from rocketpy.testing.fixture.in_thread import BrokerInThread

NOBODY = "127.0.0.1:1"
T0, T1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


@pytest.fixture
def cluster(rocketmq: BrokerInThread) -> Iterator[LiveCluster]:
    cluster = open_cluster(rocketmq.name_server, topics=("T",))
    yield cluster
    cluster.close()


def open_cluster(*name_servers: str, topics: tuple[str, ...]) -> LiveCluster:
    return LiveCluster(partial(BlockingRemotingClient, timeout_s=10.0), name_servers, topics)


def send(broker: BrokerInThread, queue: MessageQueue, count: int) -> None:
    with blocking.open_producer(broker.name_server) as producer:
        for number in range(count):
            producer.send(Message(queue.topic, b"%d" % number), queue=queue)


def test_the_queues_of_a_topic_have_the_address_of_their_master(rocketmq: BrokerInThread, cluster: LiveCluster) -> None:
    rocketmq.topic("T", queues=2)
    assert cluster.subscribed_queues() == {T0: rocketmq.address, T1: rocketmq.address}


def test_a_topic_that_never_was_is_an_error_that_names_it(rocketmq: BrokerInThread, cluster: LiveCluster) -> None:
    with pytest.raises(ClientError, match=f"topic T is not known to {rocketmq.name_server}"):
        cluster.subscribed_queues()


def test_a_topic_that_was_there_may_be_away_with_its_broker(rocketmq: BrokerInThread, cluster: LiveCluster) -> None:
    rocketmq.topic("T", queues=1)
    cluster.subscribed_queues()
    with blocking.open_admin_client(rocketmq.name_server) as admin:
        admin.topics.delete("T", cluster="DefaultCluster")
    assert cluster.subscribed_queues() == {}


def test_a_nameserver_that_is_away_is_made_up_for_by_the_next(rocketmq: BrokerInThread) -> None:
    rocketmq.topic("T", queues=1)
    assert list(open_cluster(NOBODY, rocketmq.name_server, topics=("T",)).subscribed_queues()) == [T0]
    with pytest.raises(RemotingConnectError, match=r"connect to 127\.0\.0\.1:1 failed"):
        open_cluster(NOBODY, topics=("T",)).subscribed_queues()


def test_bounds_are_those_of_the_broker_also_after_its_restart(rocketmq: BrokerInThread, cluster: LiveCluster) -> None:
    """The connection that was kept has ended by then."""
    rocketmq.topic("T", queues=2)
    send(rocketmq, T1, 3)
    expected = {T0: QueueBounds(0, 0), T1: QueueBounds(0, 3)}
    assert cluster.queue_bounds(rocketmq.address, [T0, T1]) == expected
    rocketmq.restart()
    assert cluster.queue_bounds(rocketmq.address, [T0, T1]) == expected
    rocketmq.crash()
    with pytest.raises(RemotingConnectError, match=rocketmq.address):
        cluster.queue_bounds(rocketmq.address, [T0, T1])


def test_a_group_that_is_introduced_is_known_and_has_no_member(rocketmq: BrokerInThread, cluster: LiveCluster) -> None:
    rocketmq.topic("T", queues=2)
    send(rocketmq, T1, 3)
    assert not cluster.is_group_known("g", rocketmq.address)
    cluster.introduce_group("g", rocketmq.address)
    deadline = time.monotonic() + 30
    while not cluster.is_group_known("g", rocketmq.address):  # until the broker has registered the new topic
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not cluster.is_group_known("g", NOBODY)
    cluster.commit_offset("g", rocketmq.address, T1, 2)
    with blocking.open_admin_client(rocketmq.name_server) as admin:
        offsets = admin.offsets.progress("g").offset_table
        with pytest.raises(BrokerError, match="not online"):
            admin.clients.consumers("g")
    assert (offsets[T1].consumer_offset, offsets[T1].broker_offset) == (2, 3)
