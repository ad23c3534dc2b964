"""Topics by command."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.errors import DiskFullError, StoreError
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.group import GroupList
from rocketpy.protocol.bodies.stats import TopicOffset, TopicStatsTable
from rocketpy.protocol.bodies.topic import RecordMark, ReplicatedTopics, TopicConfig, TopicConfigSerializeWrapper
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.topic import (
    DeleteTopicRequestHeader,
    GetTopicStatsInfoRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
)
from rocketpy.protocol.message import MessageQueue
from tests.broker.broker_on_bytes import BrokerOnBytes
from tests.broker.tables_of_a_broker import make_tables

FIELDS = {
    "topic": "t",
    "defaultTopic": "TBW102",
    "readQueueNums": "4",
    "writeQueueNums": "8",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "1",
    "order": "true",
}


def update(**changes: str | None) -> RemotingCommand:
    fields = {key: value for key, value in {**FIELDS, **changes}.items() if value is not None}
    return RemotingCommand(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


async def test_a_topic_is_in_the_file_and_registered_before_the_answer(broker: BrokerOnBytes, tmp_path: Path) -> None:
    answer = await broker.ask(update())
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
    expected = TopicConfig("t", 4, 8, 6, topic_sys_flag=1)  # order is ignored
    assert broker.tables.topics.select_topic_config("t") == expected
    assert broker.registered_count == 1
    again = make_tables(tmp_path)
    again.topics.load()
    assert again.topics.select_topic_config("t") == expected


async def test_a_topic_is_replaced(broker: BrokerOnBytes) -> None:
    await broker.ask(update())
    await broker.ask(update(readQueueNums="0", perm="4", topicSysFlag=None, topicFilterType="MULTI_TAG"))
    assert broker.tables.topics.select_topic_config("t") == TopicConfig("t", 0, 8, 4, "MULTI_TAG")


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"topic": ""}, "The specified topic is blank."),
        ({"topic": "a b"}, "The specified topic contains illegal characters"),
        ({"topic": "x" * 128}, "The specified topic is longer than topic max length."),
        ({"topic": "TBW102"}, "The topic[TBW102] is conflict with system topic."),
        ({"topic": "broker-a"}, "The topic[broker-a] is conflict with system topic."),
        ({"topic": "rmq_sys_x"}, "The topic[rmq_sys_x] is conflict with system topic."),
        ({"topic": None}, "CreateTopicRequestHeader.topic: expected text, found nothing"),
        ({"readQueueNums": "-1"}, "CreateTopicRequestHeader.readQueueNums: expected 0 to 65535, found -1"),
        ({"writeQueueNums": "65536"}, "CreateTopicRequestHeader.writeQueueNums: expected 0 to 65535, found 65536"),
        ({"writeQueueNums": "2147483648"}, "CreateTopicRequestHeader.writeQueueNums: expected int32, found 2147483648"),
        ({"writeQueueNums": "four"}, "CreateTopicRequestHeader.writeQueueNums: expected int32, found four"),
        ({"writeQueueNums": ""}, "CreateTopicRequestHeader.writeQueueNums: expected int32, found "),
        ({"writeQueueNums": None}, "CreateTopicRequestHeader.writeQueueNums: expected int32, found nothing"),
        ({"perm": "8"}, "CreateTopicRequestHeader.perm: expected 0 to 7, found 8"),
        ({"topicFilterType": "NO_TAG"}, "CreateTopicRequestHeader.topicFilterType: expected one of SINGLE_TAG"),
    ],
)
async def test_a_wrong_field_is_refused_and_changes_nothing(
    broker: BrokerOnBytes, changes: dict[str, str | None], remark: str
) -> None:
    before = dict(broker.tables.topics.topic_config_table)
    answer = await broker.ask(update(**changes))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith(remark)
    assert broker.tables.topics.topic_config_table == before
    assert broker.registered_count == 0


async def test_a_full_disk_is_said_and_a_broken_one_ends_the_broker(
    broker: BrokerOnBytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure: StoreError = DiskFullError(path="topics.json", wanted_bytes=9, free_bytes=0)

    async def persist() -> None:
        raise failure

    monkeypatch.setattr(broker.tables.topics.stored, "persist", persist)
    answer = await broker.ask(update())
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("the change counts, but is not in the file yet: no space")
    failure = StoreError("the disk is gone", path="topics.json")
    with pytest.raises(StoreError):
        await broker.ask(update())


async def test_deleting_a_topic_deletes_its_queues_and_the_offsets_of_its_groups(
    broker: BrokerOnBytes, tmp_path: Path
) -> None:
    await broker.ask(update())
    broker.tables.offsets.commit_offset("peer", "g", "t", 0, 5)
    broker.tables.offsets.commit_offset("peer", "g", "other", 0, 6)
    answer = await broker.ask(make_request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader("t")))
    assert answer.code == ResponseCode.SUCCESS
    assert broker.store.deleted == ["t"]
    again = make_tables(tmp_path)
    for table in (again.topics, again.offsets, again.deleted_topics):
        table.load()
    assert again.topics.select_topic_config("t") is None
    assert again.offsets.snapshot() == broker.tables.offsets.snapshot() == {"other@g": {0: 6}}
    assert [topic for topic, _ in again.deleted_topics] == ["t"]


async def test_slaves_are_told_what_was_deleted(broker: BrokerOnBytes) -> None:
    """A Java slave reads the same answer without it."""
    await broker.ask(update())
    request = make_request(RequestCode.GET_ALL_TOPIC_CONFIG)
    before = (await broker.ask(request)).body
    assert b"deletedTopics" not in (before or b"")
    await broker.ask(make_request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader("t")))
    body = (await broker.ask(make_request(RequestCode.GET_ALL_TOPIC_CONFIG))).body
    topics = decode_body(body, ReplicatedTopics)
    assert topics.deleted_topics == {"t": RecordMark(7, 7, "0" * 64)}
    assert "t" not in topics.topic_config_table
    assert decode_body(body, TopicConfigSerializeWrapper) == TopicConfigSerializeWrapper(
        topics.topic_config_table, topics.data_version
    )


@pytest.mark.parametrize("topic", ["", "TBW102", "DefaultCluster", "../t"])
async def test_a_topic_that_may_not_be_deleted_is_not(broker: BrokerOnBytes, topic: str) -> None:
    answer = await broker.ask(make_request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader(topic)))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert broker.store.deleted == []


async def test_deleting_what_is_not_there_is_fine(broker: BrokerOnBytes) -> None:
    answer = await broker.ask(make_request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader("t")))
    assert answer.code == ResponseCode.SUCCESS


async def test_where_the_write_queues_of_a_topic_stand(broker: BrokerOnBytes) -> None:
    await broker.ask(update(writeQueueNums="2"))
    broker.store.min_offsets["t", 1] = 3
    broker.store.max_offsets["t", 1] = 7
    broker.store.timestamps["t", 1, 6] = 1234
    answer = await broker.ask(make_request(RequestCode.GET_TOPIC_STATS_INFO, GetTopicStatsInfoRequestHeader("t")))
    assert answer.code == ResponseCode.SUCCESS
    assert decode_body(answer.body, TopicStatsTable).offset_table == {
        MessageQueue("t", "broker-a", 0): TopicOffset(0, 0, 0),
        MessageQueue("t", "broker-a", 1): TopicOffset(3, 7, 1234),
    }


async def test_a_topic_that_is_not_there_has_no_queues(broker: BrokerOnBytes) -> None:
    answer = await broker.ask(make_request(RequestCode.GET_TOPIC_STATS_INFO, GetTopicStatsInfoRequestHeader("t")))
    assert (answer.code, answer.remark) == (ResponseCode.TOPIC_NOT_EXIST, "topic[t] not exist")


async def test_who_consumes_a_topic(broker: BrokerOnBytes) -> None:
    for group, topic in (("h", "t"), ("g", "t"), ("i", "u")):
        broker.tables.offsets.commit_offset("peer", group, topic, 0, 5)
    broker.join("online", "t")
    header = QueryTopicConsumeByWhoRequestHeader("t")
    answer = await broker.ask(make_request(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header))
    assert decode_body(answer.body, GroupList).group_list == ["g", "h", "online"]
