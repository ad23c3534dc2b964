"""A broker of 50,000 topics, groups and offsets: nothing that a peer asks for holds the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import pytest
import trio

from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.bodies.heartbeat import ConsumerData, HeartbeatData
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.frame import encode_frame
from rocketpy.remoting.connection import Connection
from tests.broker.broker_on_bytes import BrokerOnBytes, received
from tests.worst_requests import SLICE_SECONDS_MAX, longest_slice

COUNT = 50_000
T = TypeVar("T")


async def leave_to_a_thread(function: Callable[..., T], /, *arguments: object) -> T:
    """Encode and write nothing: a worker thread does that, and it takes no time of the loop."""
    await trio.lowlevel.checkpoint()
    return cast(T, None)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> BrokerOnBytes:
    broker = BrokerOnBytes(
        tmp_path_factory.mktemp("large"), run_blocking=leave_to_a_thread, auto_create_topic_max=COUNT * 2
    )
    for number in range(COUNT):
        topic, group = f"topic-{number:06}", f"group-{number:06}"
        broker.tables.topics.topic_config_table[topic] = TopicConfig(topic, 8, 8)
        broker.tables.groups.subscription_group_table[group] = SubscriptionGroupConfig(group)
        broker.tables.offsets.commit_offset("peer", group, topic, number % 8, number)
    broker.tables.topics.topic_config_table["wide"] = TopicConfig("wide", 65_535, 65_535)
    return broker


async def asked_in_tasks(broker: BrokerOnBytes, connection: Connection, request: RemotingCommand) -> None:
    """Serve a request in other tasks than this one, as a server does; the answer stays in the connection."""

    async def serve() -> None:
        connection.receive(encode_frame(request))
        connection.serve(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        await trio.testing.wait_all_tasks_blocked()
        tasks, broker.transport.tasks = broker.transport.tasks, []
        for function, arguments in tasks:
            nursery.start_soon(function, *arguments)


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (RequestCode.GET_ALL_TOPIC_CONFIG, {}),
        (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {}),
        (RequestCode.GET_ALL_CONSUMER_OFFSET, {}),
        (RequestCode.GET_ALL_DELAY_OFFSET, {}),
        (RequestCode.GET_TOPIC_STATS_INFO, {"topic": "wide"}),
        (RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, {}),
        (RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "topic-000007"}),
        (RequestCode.CLONE_GROUP_OFFSET, {"srcGroup": "group-000007", "destGroup": "g", "topic": ""}),
        (RequestCode.QUERY_CORRECTION_OFFSET, {"topic": "topic-000007", "compareGroup": "g", "filterGroups": ""}),
        (RequestCode.UPDATE_CONSUMER_OFFSET, {"consumerGroup": "g", "topic": "t", "queueId": "0", "commitOffset": "1"}),
    ],
)
async def test_no_request_about_tables_holds_the_loop(
    large: BrokerOnBytes, code: RequestCode, fields: dict[str, str]
) -> None:
    connection = large.connect()
    longest = await longest_slice(lambda: asked_in_tasks(large, connection, RemotingCommand(code, dict(fields))))
    assert longest < SLICE_SECONDS_MAX
    assert {answer.code for answer in received(connection)} == {ResponseCode.SUCCESS}


async def test_a_group_that_appears_holds_the_loop_no_longer_than_in_a_small_broker(large: BrokerOnBytes) -> None:
    connection = large.connect()

    async def appear() -> None:
        groups = [ConsumerData(f"new-{len(large.tables.groups.subscription_group_table)}")]
        body = encode_body(HeartbeatData("c", [], groups))
        await asked_in_tasks(large, connection, make_request(RequestCode.HEART_BEAT, body=body))
        async with trio.open_nursery() as nursery:
            for table in (large.tables.topics.stored, large.tables.groups.stored, large.tables.offsets.stored):
                nursery.start_soon(table.persist)

    assert await longest_slice(appear) < SLICE_SECONDS_MAX
