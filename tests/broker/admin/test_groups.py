"""Groups by command, and who is connected."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.connection import (
    Connection,
    ProducerConnection,
)
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.admin import (
    DeleteSubscriptionGroupRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetProducerConnectionListRequestHeader,
)
from tests.broker.broker_on_bytes import BrokerOnBytes
from tests.broker.tables_of_a_broker import make_tables


def update(body: bytes | None) -> RemotingCommand:
    return make_request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)


def delete(group: str, *, remove_offset: bool = False) -> RemotingCommand:
    header = DeleteSubscriptionGroupRequestHeader(group_name=group, remove_offset=remove_offset)
    return make_request(RequestCode.DELETE_SUBSCRIPTIONGROUP, header)


async def test_a_group_is_in_the_file_before_the_answer(broker: BrokerOnBytes, tmp_path: Path) -> None:
    group = SubscriptionGroupConfig("g", consume_enable=False, retry_max_times=3)
    assert (await broker.ask(update(encode_body(group)))).code == ResponseCode.SUCCESS
    again = make_tables(tmp_path)
    again.groups.load()
    assert again.groups.subscription_group_table["g"] == group


@pytest.mark.parametrize(
    ("body", "remark"),
    [
        (None, "SubscriptionGroupConfig: expected a body, found none"),
        (b"nonsense", "body: "),
        (b"{}", "body: SubscriptionGroupConfig.groupName: expected a value, found nothing"),
        (b'{"groupName":" "}', "SubscriptionGroupConfig.groupName: expected a name, found a blank text"),
        (
            b'{"groupName":"g","retryQueueNums":-1}',
            "SubscriptionGroupConfig.retryQueueNums: expected 0 to 65535, found -1",
        ),
        (
            b'{"groupName":"g","brokerId":-9223372036854775808}',
            "SubscriptionGroupConfig.brokerId: expected 0 or more, found -9223372036854775808",
        ),
        (
            b'{"groupName":"g","whichBrokerWhenConsumeSlowly":-1}',
            "SubscriptionGroupConfig.whichBrokerWhenConsumeSlowly: expected 0 or more, found -1",
        ),
        (b'{"groupName":"g","retryMaxTimes":"often"}', "body: SubscriptionGroupConfig.retryMaxTimes: expected int32"),
        (b'{"groupName":"g","consumeEnable":7}', "body: SubscriptionGroupConfig.consumeEnable: expected true or false"),
    ],
)
async def test_a_wrong_group_is_refused_and_changes_nothing(
    broker: BrokerOnBytes, body: bytes | None, remark: str
) -> None:
    answer = await broker.ask(update(body))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith(remark)
    assert "g" not in broker.tables.groups.subscription_group_table
    assert not broker.tables.groups.stored.has_changes


@pytest.mark.parametrize("remove_offset", [False, True])
async def test_deleting_a_group_takes_its_offsets_only_if_asked(broker: BrokerOnBytes, remove_offset: bool) -> None:
    broker.tables.topics.update_topic_config(TopicConfig("t"))
    await broker.ask(update(b'{"groupName":"g"}'))
    broker.tables.offsets.commit_offset("peer", "g", "t", 0, 5)
    assert (await broker.ask(delete("g", remove_offset=remove_offset))).code == ResponseCode.SUCCESS
    assert "g" not in broker.tables.groups.subscription_group_table
    assert broker.tables.offsets.query_offset("g", "t", 0) == (-1 if remove_offset else 5)


async def test_a_deleted_group_leaves_no_offset_in_a_topic_that_has_gone(broker: BrokerOnBytes) -> None:
    offsets = broker.tables.offsets
    broker.tables.topics.update_topic_config(TopicConfig("t"))
    for topic in ("t", "gone", "RMQ_SYS_TRANS_HALF_TOPIC"):
        offsets.commit_offset("peer", "g", topic, 0, 5)
    assert (await broker.ask(delete("g"))).code == ResponseCode.SUCCESS
    assert offsets.which_topic_by_consumer("g") == ["t", "RMQ_SYS_TRANS_HALF_TOPIC"]
    assert not offsets.stored.has_changes


async def test_the_offsets_are_written_only_by_a_deletion_that_removes_some(broker: BrokerOnBytes) -> None:
    """They change all the time, and the table is large: whatever changes a group would write all of it."""
    offsets = broker.tables.offsets
    broker.tables.topics.update_topic_config(TopicConfig("t"))
    offsets.commit_offset("peer", "other", "t", 0, 5)
    await broker.ask(update(b'{"groupName":"g"}'))
    for remove_offset in (False, True):
        await broker.ask(delete("g", remove_offset=remove_offset))
    assert offsets.stored.has_changes
    offsets.commit_offset("peer", "g", "t", 0, 5)
    await broker.ask(delete("g"))
    assert offsets.stored.has_changes
    await broker.ask(delete("g", remove_offset=True))
    assert not offsets.stored.has_changes


async def test_deleting_what_is_not_there_is_fine_and_deleting_nothing_is_not(broker: BrokerOnBytes) -> None:
    assert (await broker.ask(delete("g"))).code == ResponseCode.SUCCESS
    answer = await broker.ask(delete(""))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "DeleteSubscriptionGroupRequestHeader.groupName: expected a name, found a blank text"


async def test_a_consumer_group_that_is_not_online(broker: BrokerOnBytes) -> None:
    header = GetConsumerConnectionListRequestHeader("g")
    answer = await broker.ask(make_request(RequestCode.GET_CONSUMER_CONNECTION_LIST, header))
    assert (answer.code, answer.remark) == (ResponseCode.CONSUMER_NOT_ONLINE, "the consumer group[g] not online")


async def test_the_members_of_a_producer_group(broker: BrokerOnBytes) -> None:
    header = GetProducerConnectionListRequestHeader("p")
    request = make_request(RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
    answer = await broker.ask(request)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "the producer group[p] not exist")
    beat = make_request(RequestCode.HEART_BEAT, body=encode_body(HeartbeatData("c1", [ProducerData("p")])))
    connection = broker.connect(("10.0.0.9", 4711))
    await broker.ask_all(beat, connection)
    answer = await broker.ask(request)
    members = decode_body(answer.body, ProducerConnection).connection_set
    assert members == [Connection("c1", "10.0.0.9:4711", "PYTHON", 409)]


async def test_the_settings_of_a_group_have_a_length(broker: BrokerOnBytes) -> None:
    body = encode_body(SubscriptionGroupConfig("G")) + b" " * 65_536
    answer = await broker.ask(make_request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("SubscriptionGroupConfig: expected at most 65536 bytes, found 65")
    assert "G" not in broker.tables.groups.subscription_group_table
