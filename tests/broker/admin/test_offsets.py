"""Offsets of queues and groups by command."""

from __future__ import annotations

import pytest

from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.group import ConsumerOffsetSerializeWrapper
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
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


async def test_what_was_committed_since_the_last_answer_is_in_the_next(broker: BrokerOnBytes) -> None:
    for offset in (3, 4):
        broker.tables.offsets.commit_offset("p", "g", "t", 1, offset)
        answer = await broker.ask(RemotingCommand(RequestCode.GET_ALL_CONSUMER_OFFSET))
        assert decode_body(answer.body or b"", ConsumerOffsetSerializeWrapper).offset_table == {"t@g": {1: offset}}
