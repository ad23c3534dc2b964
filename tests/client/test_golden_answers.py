"""What our client answers to brokers is what Java's was recorded to answer to the same requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from rocketpy.client import Message
from rocketpy.client.producer.producer import Producer
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.properties import decode_properties, encode_properties
from tests.client.fake_cluster import FakeCluster
from tests.client.recorded_frames import recorded_frames
from tests.client.test_golden_requests import body_of, opened_cluster, running, without_changing
from tests.patience import PATIENCE_SECONDS, until

OFFSET = 8
"""How far the recorded group had come in each of its two queues."""

OF_THE_MEMBER = {
    "PROP_CLIENT_VERSION",
    "PROP_CONSUMER_START_TIMESTAMP",
    "PROP_NAMESERVER_ADDR",
    "PROP_THREADPOOL_CORE_SIZE",
    "allocateMessageQueueStrategy",
}
"""Properties of a report with another value here: another time, place and version, and a name instead of an object."""


def exchange(scenario: str, code: RequestCode) -> tuple[RemotingCommand, RemotingCommand]:
    """Return the first request of a broker's in a scenario of the run ``json``, and what Java's client answered."""
    found = {
        (each.sender, each.kind): each.command
        for each in reversed(recorded_frames())
        if (each.run, each.scenario, each.request_code) == ("json", scenario, code)
    }
    return found["broker", "request"], found["client", "response"]


@asynccontextmanager
async def gold_group() -> AsyncIterator[FakeCluster]:
    """A member of the recorded group that has consumed what the recorded one had."""
    async with opened_cluster("GoldTopic") as (cluster, client):
        cluster.add_topic("%RETRY%GoldGroup", 1)
        for queue_id in (0, 1):
            for _ in range(OFFSET):
                cluster.broker.put("GoldTopic", queue_id, b"x")
        async with running(client, "GoldGroup", {"GoldTopic": "*"}):
            yield cluster


async def answer_to(cluster: FakeCluster, request: RemotingCommand) -> RemotingCommand:
    """Return our client's answer to a recorded request."""
    asked = RemotingCommand(request.code, request.ext_fields, request.body)
    return await cluster.broker.peers[0].request(asked, PATIENCE_SECONDS)


def form_of(answer: RemotingCommand) -> tuple[object, ...]:
    """Return code, flag and fields. Java's remark may be the one that it begins with: "not set any response code"."""
    return answer.code, answer.flag, answer.ext_fields


async def test_the_offsets_of_a_member() -> None:
    request, of_java = exchange("consume-status", RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT)
    async with gold_group() as cluster:
        ours = await answer_to(cluster, request)
        with trio.move_on_after(PATIENCE_SECONDS):
            while body_of(ours) != body_of(of_java):
                await trio.sleep(0.01)
                ours = await answer_to(cluster, request)
    assert form_of(ours) == form_of(of_java)
    assert body_of(ours) == body_of(of_java)


async def test_a_message_that_is_handed_to_a_member() -> None:
    request, of_java = exchange("consume-directly", RequestCode.CONSUME_MESSAGE_DIRECTLY)
    async with gold_group() as cluster:
        ours = await answer_to(cluster, request)
    assert form_of(ours) == form_of(of_java)
    mine, theirs = body_of(ours), body_of(of_java)
    assert mine.keys() == theirs.keys()
    assert {**mine, "spentTimeMills": 0} == {**theirs, "spentTimeMills": 0}


async def test_the_report_of_a_member() -> None:
    request, of_java = exchange("consumer-running-info", RequestCode.GET_CONSUMER_RUNNING_INFO)
    async with gold_group() as cluster:
        await until(lambda: len(cluster.broker.waiting) == 3)
        ours = await answer_to(cluster, request)
    assert form_of(ours) == form_of(of_java)
    mine, theirs = body_of(ours), body_of(of_java)
    assert mine.keys() == theirs.keys()
    assert without_changing(mine["subscriptionSet"]) == without_changing(theirs["subscriptionSet"])
    for name in ("mqTable", "statusTable"):
        of_ours, of_theirs = mine[name], theirs[name]
        assert isinstance(of_ours, dict)
        assert isinstance(of_theirs, dict)
        assert of_ours.keys() == of_theirs.keys()
        for key, value in of_ours.items():
            assert {field: type(each) for field, each in value.items()} == {
                field: type(each) for field, each in of_theirs[key].items()
            }
    of_ours, of_theirs = mine["properties"], theirs["properties"]
    assert isinstance(of_ours, dict)
    assert isinstance(of_theirs, dict)
    # Java's has more: fields of its objects.
    assert {**of_theirs, **of_ours}.keys() == of_theirs.keys()
    assert of_ours.keys() > OF_THE_MEMBER
    for name in of_ours.keys() - OF_THE_MEMBER:
        assert of_ours[name] == of_theirs[name], name


async def test_a_reply_that_is_passed_on() -> None:
    request, of_java = exchange("request-reply", RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
    async with opened_cluster("GoldReq") as (cluster, client), client.producer("GoldRequester") as producer:
        replies: list[bytes] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_request, producer, replies)
            await until(lambda: cluster.broker.messages("GoldReq"))
            (asked,) = cluster.broker.messages("GoldReq")
            fields = dict(request.ext_fields or {})
            properties = decode_properties(fields["properties"])
            properties["CORRELATION_ID"] = asked.properties["CORRELATION_ID"]
            fields["properties"] = encode_properties(properties)
            ours = await answer_to(cluster, attrs.evolve(request, ext_fields=fields))
    assert form_of(ours) == form_of(of_java)
    assert (ours.body or b"") == (of_java.body or b"")
    assert replies == [request.body]


async def _request(producer: Producer, replies: list[bytes]) -> None:
    reply = await producer.request(Message("GoldReq", b"the request"), timeout_s=PATIENCE_SECONDS)
    replies.append(reply.body)
