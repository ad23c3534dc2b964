"""Every header field of every request, missing, empty, not a number, too large, negative: an answer, never a traceback.

Rule: an answer to a bad request is one of RocketMQ's codes with a remark; what is refused has changed no table; the
connection lives. A remark that begins with the name of a Python exception would be a bug that the server caught.
"""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.admin import (
    CloneGroupOffsetRequestHeader,
    DeleteSubscriptionGroupRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetConsumeStatsRequestHeader,
    GetProducerConnectionListRequestHeader,
    QueryCorrectionOffsetHeader,
)
from rocketpy.protocol.headers.client import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerListByGroupRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
    ResetOffsetRequestHeader,
    UnregisterClientRequestHeader,
)
from rocketpy.protocol.headers.codec import wire_names
from rocketpy.protocol.headers.offset import QueryConsumerOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from rocketpy.protocol.headers.query import QueryConsumeQueueRequestHeader
from rocketpy.protocol.headers.queue_bounds import (
    GetEarliestMsgStoretimeRequestHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    SearchOffsetRequestHeader,
)
from rocketpy.protocol.headers.topic import (
    CreateTopicRequestHeader,
    DeleteTopicRequestHeader,
    GetTopicStatsInfoRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
)
from tests.broker.broker_on_bytes import BrokerOnBytes

HEADERS: dict[int, type] = {
    RequestCode.UNREGISTER_CLIENT: UnregisterClientRequestHeader,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: GetConsumerListByGroupRequestHeader,
    RequestCode.QUERY_CONSUMER_OFFSET: QueryConsumerOffsetRequestHeader,
    RequestCode.UPDATE_CONSUMER_OFFSET: UpdateConsumerOffsetRequestHeader,
    RequestCode.UPDATE_AND_CREATE_TOPIC: CreateTopicRequestHeader,
    RequestCode.DELETE_TOPIC_IN_BROKER: DeleteTopicRequestHeader,
    RequestCode.GET_TOPIC_STATS_INFO: GetTopicStatsInfoRequestHeader,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: QueryTopicConsumeByWhoRequestHeader,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: SearchOffsetRequestHeader,
    RequestCode.GET_MAX_OFFSET: GetMaxOffsetRequestHeader,
    RequestCode.GET_MIN_OFFSET: GetMinOffsetRequestHeader,
    RequestCode.GET_EARLIEST_MSG_STORETIME: GetEarliestMsgStoretimeRequestHeader,
    RequestCode.GET_CONSUME_STATS: GetConsumeStatsRequestHeader,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: DeleteSubscriptionGroupRequestHeader,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: GetConsumerConnectionListRequestHeader,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: GetProducerConnectionListRequestHeader,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: ResetOffsetRequestHeader,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: GetConsumerStatusRequestHeader,
    RequestCode.GET_CONSUMER_RUNNING_INFO: GetConsumerRunningInfoRequestHeader,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: ConsumeMessageDirectlyResultRequestHeader,
    RequestCode.QUERY_CORRECTION_OFFSET: QueryCorrectionOffsetHeader,
    RequestCode.CLONE_GROUP_OFFSET: CloneGroupOffsetRequestHeader,
    RequestCode.QUERY_CONSUME_QUEUE: QueryConsumeQueueRequestHeader,
}

BODIES = (
    RequestCode.HEART_BEAT,
    RequestCode.CHECK_CLIENT_CONFIG,
    RequestCode.LOCK_BATCH_MQ,
    RequestCode.UNLOCK_BATCH_MQ,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_BROKER_CONFIG,
)

GOOD = {
    "topic": "t",
    "defaultTopic": "TBW102",
    "consumerGroup": "g",
    "producerGroup": "p",
    "groupName": "g",
    "clientID": "c",
    "topicFilterType": "SINGLE_TAG",
    "bname": "broker-a",
    "order": "false",
    "removeOffset": "true",
}
EXCEPTION = re.compile(r"[A-Z][A-Za-z]*(Error|Exception)\b")
BAD_TEXTS = ["", " ", "\x00", "\u2028", "a" * 40_000, "1.5", "0x1", "１", "@"]
BAD_TEXTS += ["-1", "2147483648", "9223372036854775808", "9" * 5000]
BAD_BODIES = [b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"\x00", b'"' + b"x" * 100_000, b"null"]


def good_fields(header_class: type) -> dict[str, str]:
    return {name: GOOD.get(name, "1") for name in wire_names(header_class)}


def tables_of(broker: BrokerOnBytes) -> object:
    tables = broker.tables
    return (
        dict(tables.topics.topic_config_table),
        dict(tables.groups.subscription_group_table),
        {key: dict(offsets) for key, offsets in tables.offsets.offset_table.items()},
        list(tables.consumers),
        tables.producers.groups,
    )


async def ask(broker: BrokerOnBytes, request: RemotingCommand) -> RemotingCommand:
    """Ask, check the rule, and return the answer."""
    before = tables_of(broker)
    connection = broker.connect()
    answers = [each for each in await broker.ask_all(request, connection) if each.is_response]
    assert len(answers) == 1
    answer = answers[0]
    assert not connection.is_closed
    if answer.code != ResponseCode.SUCCESS:
        ResponseCode(answer.code)
        assert answer.remark
        assert not EXCEPTION.match(answer.remark), answer.remark
        assert tables_of(broker) == before
    return answer


CASES = [(code, name) for code, header_class in HEADERS.items() for name in wire_names(header_class)]


@pytest.mark.parametrize(("code", "name"), CASES)
async def test_a_bad_field_is_answered(broker: BrokerOnBytes, code: int, name: str) -> None:
    for text in BAD_TEXTS:
        await ask(broker, RemotingCommand(code, {**good_fields(HEADERS[code]), name: text}))


@pytest.mark.parametrize(("code", "name"), CASES)
async def test_a_missing_field_that_is_needed_is_named(broker: BrokerOnBytes, code: int, name: str) -> None:
    header_class = HEADERS[code]
    fields = good_fields(header_class)
    del fields[name]
    answer = await ask(broker, RemotingCommand(code, fields))
    position = wire_names(header_class).index(name)
    if attrs.fields(header_class)[position].default is attrs.NOTHING:
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (answer.remark or "").startswith(f"{header_class.__name__}.{name}: expected ")
        assert (answer.remark or "").endswith("found nothing")


@pytest.mark.parametrize("code", HEADERS)
async def test_no_fields_at_all(broker: BrokerOnBytes, code: int) -> None:
    answer = await ask(broker, RemotingCommand(code))
    assert answer.code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("code", HEADERS)
async def test_a_bad_oneway_is_not_answered(broker: BrokerOnBytes, code: int) -> None:
    assert await broker.ask_all(RemotingCommand(code, flag=2)) == []


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["clientID", "clientId", "consumerGroup", "groupName", "mqSet", "topic", "queueId", "brokerName"]
                + [
                    "consumerDataSet",
                    "producerDataSet",
                    "subscriptionDataSet",
                    "consumeType",
                    "group",
                    "subscriptionData",
                ]
                + ["retryQueueNums", "consumeEnable", "subVersion", "tagsSet", "codeSet"]
            ),
            children,
            max_size=6,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("code", BODIES)
@given(values=st.lists(st.tuples(JSON_VALUES, st.integers(0, 200)), min_size=4, max_size=8))
@settings(max_examples=10, deadline=None)
async def test_any_json_body_is_answered(
    code: int, values: list[tuple[object, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Several for each broker, because to make one takes longer than to ask."""
    broker = BrokerOnBytes(fresh_directory(tmp_path_factory))
    for value, cut in values:
        content = msgspec.json.encode(value)
        for body in (content, content[:cut]):
            await ask(broker, make_request(code, body=body))


@pytest.mark.parametrize("code", BODIES)
@pytest.mark.parametrize("body", BAD_BODIES)
async def test_a_body_that_is_no_json_is_answered(broker: BrokerOnBytes, code: int, body: bytes) -> None:
    await ask(broker, make_request(code, body=body))


def fresh_directory(factory: pytest.TempPathFactory) -> Path:
    return factory.mktemp("broker")
