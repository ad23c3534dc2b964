"""Requests that brokers send to a client: who gets them, and what is answered for groups that are not here."""

from __future__ import annotations

import pytest
import trio

from rocketpy.client.instance import ClientInstance
from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.offset import GetConsumerStatusBody
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request, make_response
from rocketpy.protocol.headers.client import (
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
)
from rocketpy.remoting.connection import Connection
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.client.opened import opened
from tests.patience import PATIENCE_SECONDS, until

RUNNING_INFO = RequestCode.GET_CONSUMER_RUNNING_INFO


async def connected(cluster: FakeCluster, instance: ClientInstance) -> Connection:
    """The broker's side of a connection of the client."""
    instance.heartbeats.add_producer("p")
    await instance.routes.publish_queues(TOPIC)
    await until(lambda: cluster.broker.peers)
    return cluster.broker.peers[0]


async def asked(broker: Connection, request: RemotingCommand) -> RemotingCommand:
    """What the client answers."""
    return await broker.request(request, PATIENCE_SECONDS)


def running_info_of(group: str) -> RemotingCommand:
    """A request for a consumer group."""
    return make_request(RUNNING_INFO, GetConsumerRunningInfoRequestHeader(consumer_group=group, client_id="c"))


async def test_a_request_goes_to_the_group_that_it_names(cluster: FakeCluster, instance: ClientInstance) -> None:
    async def answer(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        await trio.lowlevel.checkpoint()
        return make_response(request, remark="mine")

    broker = await connected(cluster, instance)
    with instance.broker_requests.handling("g", {RUNNING_INFO: answer}):
        assert (await asked(broker, running_info_of("g"))).remark == "mine"
        assert (await asked(broker, running_info_of("other"))).code == ResponseCode.SYSTEM_ERROR
    answered = await asked(broker, running_info_of("g"))
    assert answered.remark == "The Consumer Group <g> not exist in this consumer"


async def test_a_handler_may_refuse_and_may_fail(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, instance: ClientInstance
) -> None:
    async def refuse(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        raise RequestError(ResponseCode.NO_PERMISSION, "not you")

    async def fail(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        raise KeyError("a bug")

    broker = await connected(cluster, instance)
    handling = instance.broker_requests.handling
    with handling("g", {RUNNING_INFO: refuse}), handling("h", {RUNNING_INFO: fail}):
        refused = await asked(broker, running_info_of("g"))
        assert (refused.code, refused.remark) == (ResponseCode.NO_PERMISSION, "not you")
        assert (await asked(broker, running_info_of("h"))).code == ResponseCode.SYSTEM_ERROR
    assert "a bug" in caplog.text


async def test_what_is_answered_for_a_group_that_is_not_here(cluster: FakeCluster) -> None:
    async def never(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        raise AssertionError("it is of another group")

    codes = (RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
    async with opened(cluster.address) as instance:
        broker = await connected(cluster, instance)
        assert (await asked(broker, make_request(codes[1]))).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        with instance.broker_requests.handling("other", dict.fromkeys(codes, never)):
            pass
        status = make_request(
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, GetConsumerStatusRequestHeader(topic=TOPIC, group="g")
        )
        answer = await asked(broker, status)
        assert answer.code == ResponseCode.SUCCESS
        assert decode_body(answer.body, GetConsumerStatusBody) == GetConsumerStatusBody()
        reply = await asked(broker, make_request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT))
        assert (reply.code, reply.remark) == (
            ResponseCode.SYSTEM_ERROR,
            "process reply message fail: nothing was requested",
        )
