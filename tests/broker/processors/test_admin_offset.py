"""Offsets of queues and groups by command."""

from __future__ import annotations

import pytest

from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from rocketpy.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.admin import GetConsumeStatsRequestHeader
from rocketpy.protocol.message import MessageQueue
from tests.broker.broker_on_bytes import BrokerOnBytes


def about(code: int, topic: str = "t", queue_id: str = "1", **fields: str) -> RemotingCommand:
    return RemotingCommand(code, {"topic": topic, "queueId": queue_id, **fields})


async def test_where_a_queue_begins_and_ends(broker: BrokerOnBytes) -> None:
    broker.store.min_offsets["t", 1] = 3
    broker.store.max_offsets["t", 1] = 9
    broker.store.timestamps["t", 1, 3] = 1234
    broker.store.by_time["t", 1, 5000] = 6
    answers = [
        await broker.ask(about(RequestCode.GET_MIN_OFFSET)),
        await broker.ask(about(RequestCode.GET_MAX_OFFSET)),
        await broker.ask(about(RequestCode.GET_EARLIEST_MSG_STORETIME)),
        await broker.ask(about(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, timestamp="5000")),
    ]
    assert [each.code for each in answers] == [ResponseCode.SUCCESS] * 4
    assert [each.ext_fields for each in answers] == [
        {"offset": "3"},
        {"offset": "9"},
        {"timestamp": "1234"},
        {"offset": "6"},
    ]


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (RequestCode.GET_MIN_OFFSET, {"offset": "0"}),
        (RequestCode.GET_MAX_OFFSET, {"offset": "0"}),
        (RequestCode.GET_EARLIEST_MSG_STORETIME, {"timestamp": "-1"}),
        (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"offset": "0"}),
    ],
)
async def test_a_queue_that_is_not_there(broker: BrokerOnBytes, code: int, fields: dict[str, str]) -> None:
    answer = await broker.ask(about(code, "nothing", timestamp="1"))
    assert (answer.code, answer.ext_fields) == (ResponseCode.SUCCESS, fields)


@pytest.mark.parametrize(
    ("code", "header"),
    [
        (RequestCode.GET_MIN_OFFSET, "GetMinOffsetRequestHeader"),
        (RequestCode.GET_MAX_OFFSET, "GetMaxOffsetRequestHeader"),
        (RequestCode.GET_EARLIEST_MSG_STORETIME, "GetEarliestMsgStoretimeRequestHeader"),
        (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, "SearchOffsetRequestHeader"),
    ],
)
@pytest.mark.parametrize(
    ("queue_id", "expected"), [("-1", "0 or more"), ("x", "int32"), ("", "int32"), ("2147483648", "int32")]
)
async def test_a_wrong_queue_id_is_named(
    broker: BrokerOnBytes, code: int, header: str, queue_id: str, expected: str
) -> None:
    answer = await broker.ask(about(code, queue_id=queue_id, timestamp="1"))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == f"{header}.queueId: expected {expected}, found {queue_id}"


async def test_all_offsets_travel_with_bare_integer_keys(broker: BrokerOnBytes) -> None:
    broker.tables.offsets.commit_offset("peer", "g", "t", 0, 5)
    broker.tables.offsets.commit_offset("peer", "g", "t", 1, 6)
    answer = await broker.ask(make_request(RequestCode.GET_ALL_CONSUMER_OFFSET))
    assert answer.body == b'{"offsetTable":{"t@g":{0:5,1:6}}}'


def stats(answer: RemotingCommand) -> dict[MessageQueue, OffsetWrapper]:
    assert answer.code == ResponseCode.SUCCESS
    return decode_body(answer.body, ConsumeStats).offset_table


def consume_stats(topic: str | None = None) -> RemotingCommand:
    return make_request(RequestCode.GET_CONSUME_STATS, GetConsumeStatsRequestHeader(consumer_group="g", topic=topic))


async def test_how_far_a_group_is(broker: BrokerOnBytes) -> None:
    for topic in ("t", "u"):
        broker.tables.topics.update_topic_config(TopicConfig(topic, 1, 3))
        broker.tables.offsets.commit_offset("peer", "g", topic, 0, 5)
        broker.store.max_offsets[topic, 0] = 8
    broker.tables.offsets.commit_offset("peer", "g", "deleted", 0, 5)
    broker.store.timestamps["t", 0, 4] = 1234
    t0, u0 = MessageQueue("t", "broker-a", 0), MessageQueue("u", "broker-a", 0)
    both = {t0: OffsetWrapper(8, 5, 1234), u0: OffsetWrapper(8, 5, 0)}
    assert stats(await broker.ask(consume_stats())) == both
    assert stats(await broker.ask(consume_stats(" "))) == both
    assert stats(await broker.ask(consume_stats("t"))) == {t0: OffsetWrapper(8, 5, 1234)}
    assert stats(await broker.ask(consume_stats("nothing"))) == {}


async def test_what_an_online_group_does_not_subscribe_to_is_left_out(broker: BrokerOnBytes) -> None:
    for topic in ("t", "u"):
        broker.tables.topics.update_topic_config(TopicConfig(topic, 1, 1))
        broker.tables.offsets.commit_offset("peer", "g", topic, 0, 5)
    body = HeartbeatData("c1", [], [ConsumerData("g", subscription_data_set=[SubscriptionData("u")])])
    await broker.ask_all(make_request(RequestCode.HEART_BEAT, body=encode_body(body)))
    assert [queue.topic for queue in stats(await broker.ask(consume_stats()))] == ["u"]


async def test_a_group_without_anything_is_nowhere(broker: BrokerOnBytes) -> None:
    answer = await broker.ask(consume_stats())
    assert answer.body == b'{"consumeTps":0.0,"offsetTable":{}}'
