"""Nameservers that answer garbage: an error of its own for each call, and the next nameserver is asked."""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from random import Random

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.client import open_client
from rocketpy.client.config import ClientConfig
from rocketpy.client.routes import ADDRESSES_OF_TOPIC_MAX, QUEUES_OF_TOPIC_MAX
from rocketpy.errors import (
    RemoteProtocolError,
    RocketpyError,
)
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.message import Message
from rocketpy.remoting.connection import Connection
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster, Spoil, open_fake_cluster
from tests.client.hostile.conftest import World
from tests.client.opened import opened

SOON = ClientConfig(mq_client_api_timeout=1000)


def with_body(body: bytes) -> Spoil:
    def spoil(connection: Connection, request: RemotingCommand, answer: RemotingCommand) -> RemotingCommand:
        answer.body = body
        return answer

    return spoil


def route_with(queue_nums: int, *, order: str | None = None, addresses: int = 1) -> bytes:
    return encode_body(
        TopicRouteData(
            order_topic_conf=order,
            queue_datas=[QueueData("broker-a", queue_nums, queue_nums, 6)],
            broker_datas=[BrokerData("c", "broker-a", {number: f"10.0.0.2:{number}" for number in range(addresses)})],
        ),
        standard=True,
    )


GARBAGE = {
    "no body": b"",
    "no json": b"\x00\x01\x02",
    "no utf-8": b'{"queueDatas":"\xff\xfe"}',
    "cut json": b'{"brokerDatas":[{"brokerName":',
    "a list": b"[]",
    "a number": b"7",
    "other types": b'{"queueDatas":{"a":1},"brokerDatas":"text"}',
    "a queue without a broker": b'{"queueDatas":[{"readQueueNums":4}],"brokerDatas":[]}',
    "a number of queues that is text": b'{"queueDatas":[{"brokerName":"b","readQueueNums":"many"}],"brokerDatas":[]}',
    "digits without end": b'{"queueDatas":[{"brokerName":"b","readQueueNums":' + b"9" * 5000 + b"}]}",
    "nested without end": b"[" * 100_000,
    "too many queues": route_with(2**31 - 1),
    "one queue too many": route_with(QUEUES_OF_TOPIC_MAX + 1),
    "too many in the order list": route_with(4, order="broker-a:999999999"),
    "too many addresses": route_with(4, addresses=ADDRESSES_OF_TOPIC_MAX + 1),
}


@pytest.mark.parametrize("body", GARBAGE.values(), ids=GARBAGE.keys())
async def test_a_route_that_is_garbage_is_a_protocol_error_for_each_role(
    world: World, autojump_clock: MockClock, body: bytes
) -> None:
    world.cluster.name_server.spoil = with_body(body)
    async with open_client(world.address, config=SOON, environment=world.environment) as client:
        with trio.fail_after(60):
            with pytest.raises(RemoteProtocolError) as caught:
                await client.admin().topics.route(TOPIC)
            assert len(str(caught.value)) < 500, "it does not repeat what the peer has sent"
            async with client.producer("p") as producer:
                with pytest.raises(RemoteProtocolError):
                    await producer.send(Message(TOPIC, b"x"))
                with pytest.raises(RemoteProtocolError):
                    await producer.send_oneway(Message(TOPIC, b"x"))
                with pytest.raises(RemoteProtocolError):
                    await producer.request(Message(TOPIC, b"x"), timeout_s=1)
            async with client.pull_consumer("pull") as pulling:
                with pytest.raises(RemoteProtocolError):
                    await pulling.queues(TOPIC)
            async with client.consumer("g", TOPIC) as consumer:
                assert await consumer.wait_assigned() == [], "it goes on looking"
                world.cluster.name_server.behave()
                while not any(queue.topic == TOPIC for queue in consumer.assigned):
                    await trio.sleep(1)


@pytest.mark.parametrize("queue_nums", [-1, -(2**31), 0])
async def test_a_number_of_queues_below_one_is_no_queue(
    world: World, autojump_clock: MockClock, queue_nums: int
) -> None:
    world.cluster.name_server.spoil = with_body(route_with(queue_nums))
    async with open_client(world.address, config=SOON, environment=world.environment) as client:
        async with client.producer("p") as producer:
            with pytest.raises(RocketpyError, match="CODE: 10005"):
                await producer.send(Message(TOPIC, b"x"))
        async with client.pull_consumer("pull") as pulling:
            assert await pulling.queues(TOPIC) == []


@pytest.mark.parametrize("name", ["a;b", "a:1", "a@b", "a/../b", "%RETRY%", "", " ", "\u2603", "a\nb"])
async def test_broker_names_with_separators_are_names(world: World, autojump_clock: MockClock, name: str) -> None:
    broker = world.cluster.broker
    world.cluster.name_server.routes[TOPIC] = TopicRouteData(
        queue_datas=[QueueData(name, 1, 1, 6)], broker_datas=[BrokerData("c", name, {0: broker.address})]
    )
    async with open_client(world.address, config=SOON, environment=world.environment) as client:
        async with client.producer("p") as producer:
            result = await producer.send(Message(TOPIC, b"x"))
        async with client.pull_consumer("pull") as pulling:
            found = await pulling.pull(result.message_queue, 0)
    assert result.message_queue.broker_name == name
    assert [each.broker_name for each in found.messages] == [name]


async def test_a_second_answer_is_dropped(world: World, autojump_clock: MockClock) -> None:
    world.cluster.name_server.spoil = lambda connection, request, answer: encode_frame(answer) * 2
    async with opened(world.address, environment=world.environment) as instance:
        for _ in range(3):
            assert await instance.name_servers.find_route(TOPIC) is not None


# ---- one of several ------------------------------------------------------------------------------------------------


class Unshuffled(Random):
    """Leaves nameservers in the order in which a test names them."""

    def shuffle(self, x: MutableSequence[object]) -> None:
        pass


BAD: dict[str, Callable[[FakeCluster], None]] = {
    "garbage": lambda bad: setattr(bad.name_server, "spoil", with_body(b"garbage")),
    "refusals": lambda bad: bad.name_server.refuse(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.SYSTEM_ERROR),
    "silence": lambda bad: bad.name_server.be_silent(RequestCode.GET_ROUTEINFO_BY_TOPIC),
    "too many queues": lambda bad: setattr(bad.name_server, "spoil", with_body(route_with(2**31 - 1))),
}


@pytest.mark.parametrize("make_bad", BAD.values(), ids=BAD.keys())
async def test_a_bad_nameserver_does_not_keep_a_client_from_the_good_one(
    world: World, autojump_clock: MockClock, make_bad: Callable[[FakeCluster], None]
) -> None:
    environment = attrs.evolve(world.environment, randomness=Unshuffled(1))
    async with open_fake_cluster((), network=world.network) as bad:
        bad.add_topic(TOPIC)
        make_bad(bad)
        names = f"{bad.address};{world.address}"
        async with opened(names, environment=environment, mq_client_api_timeout=1000) as instance:
            for _ in range(4):
                assert await instance.name_servers.find_route(TOPIC) is not None
            assert len(bad.name_server.requests) == 1, "the good one is kept"


async def test_when_all_are_bad_the_first_answer_says_why(world: World, autojump_clock: MockClock) -> None:
    """One refuses, one answers garbage, one is silent: two answers, the first of which is raised."""
    async with (
        open_fake_cluster((), network=world.network) as garbage,
        open_fake_cluster((), network=world.network) as refusing,
        open_fake_cluster((), network=world.network) as silence,
    ):
        for each in (garbage, refusing, silence):
            each.add_topic(TOPIC)
        BAD["garbage"](garbage)
        BAD["refusals"](refusing)
        BAD["silence"](silence)
        names = [each.address for each in (silence, garbage, refusing)]
        environment = attrs.evolve(world.environment, randomness=Unshuffled(1))
        async with opened(";".join(names), environment=environment, mq_client_api_timeout=1000) as instance:
            with pytest.raises(RemoteProtocolError):
                await instance.name_servers.find_route(TOPIC)
