"""What nameservers and brokers are asked to plan a read, and who is blamed when they do not answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import attrs
import pytest

from rocketpy.errors import ClientError, RemoteProtocolError, RemotingConnectError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.access import ClusterAccess
from rocketpy.spark.live.cluster import REQUESTS_IN_FLIGHT_MAX, Cluster, QueueBounds, Replicas
from tests.forgotten import sizes_within
from tests.spark.live.fake_cluster import FakeBroker, FakeNameServer, served


@attrs.define
class World:
    broker: FakeBroker
    name_server: FakeNameServer
    broker_address: str
    name_server_address: str
    exits: ExitStack

    def cluster(self, *name_servers: str, asks_slaves: bool = False) -> Cluster:
        access = ClusterAccess(name_servers=name_servers or (self.name_server_address,), timeout_s=60)
        return self.exits.enter_context(Cluster(access, asks_slaves=asks_slaves))


@pytest.fixture
def world() -> Iterator[World]:
    broker = FakeBroker({0: (0, 10), 1: (5, 12), 2: (7, 7)})
    name_server = FakeNameServer({}, queues=3)
    with ExitStack() as exits:
        broker_address = exits.enter_context(served(broker.answer))
        name_server_address = exits.enter_context(served(name_server.answer))
        name_server.addresses = {0: broker_address, 1: "10.0.0.9:10911"}
        yield World(broker, name_server, broker_address, name_server_address, exits)


def test_queues_with_their_brokers_and_bounds(world: World) -> None:
    cluster = world.cluster()
    queues = cluster.queues("T")
    assert list(queues) == [MessageQueue("T", "b", number) for number in range(3)]
    assert set(map(id, queues.values())) == {id(queues[MessageQueue("T", "b", 0)])}
    assert queues[MessageQueue("T", "b", 0)] == Replicas("b", world.name_server.addresses, world.name_server_address)
    assert list(cluster.bounds(queues).values()) == [QueueBounds(0, 10), QueueBounds(5, 12), QueueBounds(7, 7)]


def test_thousands_of_queues_are_asked_for_with_many_requests_in_flight(world: World) -> None:
    count = REQUESTS_IN_FLIGHT_MAX * 3 + 1
    world.broker.queues = {number: (number, number + 5) for number in range(count)}
    world.name_server.queues = count
    cluster = world.cluster()
    bounds = cluster.bounds(cluster.queues("T"))
    assert len(bounds) == count
    assert all(each == QueueBounds(queue.queue_id, queue.queue_id + 5) for queue, each in bounds.items())


def test_queues_without_read_permission_are_left_out(world: World) -> None:
    world.name_server.perm = 2
    assert world.cluster().queues("T") == {}


def test_an_unknown_topic_names_the_nameservers(world: World) -> None:
    with pytest.raises(ClientError, match=f"topic U is not known to nameserver {world.name_server_address}") as caught:
        world.cluster().queues("U")
    assert caught.value.response_code == ResponseCode.TOPIC_NOT_EXIST


def test_the_next_nameserver_is_asked_when_one_is_down_or_knows_less(world: World) -> None:
    with served(lambda request: make_response(request, ResponseCode.TOPIC_NOT_EXIST, "just started")) as new:
        assert len(world.cluster("127.0.0.1:1", new, world.name_server_address).queues("T")) == 3
    with pytest.raises(RemotingConnectError, match=r"127\.0\.0\.1:1"):
        world.cluster("127.0.0.1:1").queues("T")
    with pytest.raises(ClientError, match="topic U is not known"):
        world.cluster(world.name_server_address, "127.0.0.1:1").queues("U")


def test_a_broker_without_a_master_is_named_with_what_is_known_of_it(world: World) -> None:
    """A slave may lag: reading it would silently return less, unless the user asks for it."""
    world.name_server.addresses = {1: "10.0.0.9:10911"}
    cluster = world.cluster()
    with pytest.raises(ClientError, match=r"broker b has no master .* knows 10\.0\.0\.9:10911 \(id 1\)"):
        cluster.bounds(cluster.queues("T"))


@pytest.mark.parametrize("master", [{}, {0: "127.0.0.1:1"}])
def test_a_slave_stands_in_for_a_master_that_is_not_there_where_slaves_may_be_read(
    world: World, master: dict[int, str]
) -> None:
    world.name_server.addresses = {**master, 1: "127.0.0.1:1", 2: world.name_server.addresses[0]}
    cluster = world.cluster(asks_slaves=True)
    bounds = cluster.bounds(cluster.queues("T"))
    assert list(bounds.values()) == [QueueBounds(0, 10, True), QueueBounds(5, 12, True), QueueBounds(7, 7, True)]
    world.name_server.addresses = {0: "127.0.0.1:1", 1: "127.0.0.1:1"}
    with pytest.raises(RemotingConnectError, match="broker b that nameserver"):
        cluster.bounds(cluster.queues("T"))
    world.name_server.addresses = {}
    with pytest.raises(ClientError, match="knows none of its addresses"):
        cluster.bounds(cluster.queues("T"))


def test_a_slave_is_not_told_what_a_master_is_to_know(world: World) -> None:
    world.name_server.addresses = {0: "127.0.0.1:1", 1: world.name_server.addresses[0]}
    cluster = world.cluster(asks_slaves=True)
    [replicas, *_] = cluster.queues("T").values()
    with pytest.raises(RemotingConnectError, match=r"127\.0\.0\.1:1"):
        cluster.ask_master(replicas, [])


def test_a_connection_that_failed_is_not_used_again(world: World) -> None:
    asked: list[int] = []

    def once(request: RemotingCommand) -> RemotingCommand | None:
        asked.append(request.code)
        return None if len(asked) == 1 else world.broker.answer(request)

    with served(once) as address:
        world.name_server.addresses = {0: address}
        cluster = world.cluster()
        queues = cluster.queues("T")
        with pytest.raises(Exception, match=address):
            cluster.bounds(queues)
        assert len(cluster.bounds(queues)) == 3


def test_a_broker_that_comes_back_elsewhere_leaves_no_connection(world: World) -> None:
    """A stream runs for months, and a pod has another address after each restart."""
    cluster, more = world.cluster(), world.exits
    for _ in range(3):
        cluster.close_unused()
        cluster.bounds(cluster.queues("T"))
        world.name_server.addresses = {0: more.enter_context(served(world.broker.answer))}
        assert sizes_within(cluster)["Cluster._clients"] <= 3
    cluster.close_unused()
    cluster.close_unused()
    assert not sizes_within(cluster)["Cluster._clients"]
    assert len(cluster.bounds(cluster.queues("T"))) == 3


def test_garbage_names_the_address(world: World) -> None:
    with (
        served(lambda request: b"HTTP/1.1 400 Bad Request\r\n") as address,
        pytest.raises(RemoteProtocolError, match=address),
    ):
        world.cluster(address).queues("T")
    with (
        served(lambda request: make_response(request, body=b"[]")) as address,
        pytest.raises(RemoteProtocolError, match=f"{address}: TopicRouteData"),
    ):
        world.cluster(address).queues("T")
    with served(lambda request: make_response(request)) as address:
        world.name_server.addresses = {0: address}
        cluster = world.cluster()
        with pytest.raises(RemoteProtocolError, match=f"{address}: GetMinOffsetResponseHeader"):
            cluster.bounds(cluster.queues("T"))


def test_a_route_of_more_queues_than_there_can_be_is_refused(world: World) -> None:
    """A number of queues is 4 bytes of an answer."""
    world.name_server.queues = 2**31 - 1
    with pytest.raises(RemoteProtocolError, match=f"{world.name_server_address}: route of T: expected at most 65536 r"):
        world.cluster().queues("T")


def test_all_topics_of_the_cluster() -> None:
    def answer(request: RemotingCommand) -> RemotingCommand:
        assert request.code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
        return make_response(request, body=b'{"topicList":["U","T"]}')

    with served(answer) as address, Cluster(ClusterAccess(name_servers=(address,), timeout_s=60)) as cluster:
        assert cluster.topics() == ["T", "U"]
