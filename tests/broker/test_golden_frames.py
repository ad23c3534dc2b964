"""What a Java broker was asked and answered, frame by frame: in the same state our broker answers the same.

The state is arranged for each exchange from Java's answer (a queue's offset, the members of a group), so each exchange
stands alone. Compared: code, header fields and body as values; of figures and settings, that Java's keys are there.
Left out: access control. Where Java failed with a null pointer,
ours refuses with the same code.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest
from _pytest.mark.structures import ParameterSet

from rocketpy.broker.clients.channel import ClientChannelInfo
from rocketpy.properties_text import read_properties
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.connection import (
    Connection,
    ConsumerConnection,
    ProducerConnection,
)
from rocketpy.protocol.bodies.group import (
    ConsumerOffsetSerializeWrapper,
    GetConsumerListByGroupResponseBody,
    GroupList,
    SubscriptionGroupWrapper,
)
from rocketpy.protocol.bodies.heartbeat import ConsumerData
from rocketpy.protocol.bodies.lock import LockBatchRequestBody, LockBatchResponseBody
from rocketpy.protocol.bodies.route import KVTable, TopicList
from rocketpy.protocol.bodies.stats import ConsumeStats, TopicStatsTable
from rocketpy.protocol.bodies.topic import TopicConfig, TopicConfigSerializeWrapper
from rocketpy.protocol.codes import LanguageCode, RequestCode, ResponseCode, SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import decode_frame
from rocketpy.store.config import BrokerRole
from tests.broker.broker_on_bytes import BrokerOnBytes, FakeStore

FRAMES = Path(__file__).parents[1] / "golden" / "frames.jsonl.gz"
NULL_POINTER = "java.lang.NullPointerException"
ON_A_SLAVE = "Can't modify topic or subscription group from slave broker"
NOT_HERE_YET = "org.apache.rocketmq.acl"


@attrs.frozen
class Exchange:
    """A request and what Java answered."""

    run: str
    frame: bytes
    request: RemotingCommand
    java: RemotingCommand

    @property
    def fields(self) -> dict[str, str]:
        return self.request.ext_fields or {}


@cache
def recorded() -> list[dict[str, Any]]:
    """Return every frame of the recording, with where it went."""
    with gzip.open(FRAMES, "rt") as lines:
        return [json.loads(line) for line in lines]


def recorded_requests(code: int) -> list[tuple[str, RemotingCommand]]:
    """Return the requests of a code, each with its run."""
    found = [
        (row["run"], decode_frame(bytes.fromhex(row["frame_hex"])))
        for row in recorded()
        if row["code"] == code and row["kind"] != "response"
    ]
    assert found
    return found


@cache
def exchanges_by_code() -> dict[int, list[Exchange]]:
    requests: dict[tuple[str, int, int], tuple[bytes, RemotingCommand]] = {}
    found: dict[int, list[Exchange]] = {}
    for row in recorded():
        frame = bytes.fromhex(row["frame_hex"])
        if "broker" not in (row["from"], row["to"]) or "namesrv" in (row["from"], row["to"]):
            continue
        command = decode_frame(frame)
        key = (row["run"], row["connection"], command.opaque)
        if row["kind"] == "request" and row["to"] == "broker":
            requests[key] = frame, command
        elif row["kind"] == "response" and key in requests:
            asked, request = requests.pop(key)
            if not (command.remark or "").startswith(NOT_HERE_YET):
                found.setdefault(request.code, []).append(Exchange(row["run"], asked, request, command))
    return found


def of(*codes: int) -> list[ParameterSet]:
    return [
        pytest.param(exchange, id=f"{RequestCode(code).name}-{exchange.run}-{index}")
        for code in codes
        for index, exchange in enumerate(exchanges_by_code()[code])
    ]


async def answer(broker: BrokerOnBytes, exchange: Exchange) -> RemotingCommand:
    """Ask, and compare what is the same for every code."""
    connection = broker.connect()
    answers = [each for each in await broker.ask_frame(exchange.frame, connection) if each.is_response]
    assert len(answers) == 1
    ours, java = answers[0], exchange.java
    assert ours.code == java.code, (ours, java)
    assert ours.opaque == java.opaque == exchange.request.opaque
    assert ours.serialize_type == exchange.request.serialize_type
    if java.code != ResponseCode.SUCCESS and not (java.remark or "").startswith((NULL_POINTER, "org.apache")):
        assert ours.remark == java.remark
    if java.serialize_type is SerializeType.JSON and ours.serialize_type is SerializeType.JSON:
        is_null_pointer = (java.remark or "").startswith(NULL_POINTER)
        assert (ours.ext_fields is None) == (java.ext_fields is None) or is_null_pointer, (ours, java)
    assert set(ours.ext_fields or ()) == set(java.ext_fields or ())
    assert (ours.body is None) == (java.body is None)
    return ours


def body_of(command: RemotingCommand, body_class: type) -> object:
    return decode_body(command.body, body_class)


SIMPLE = (
    RequestCode.HEART_BEAT,
    RequestCode.UNREGISTER_CLIENT,
    RequestCode.UNLOCK_BATCH_MQ,
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
)


@pytest.mark.parametrize("code", SIMPLE)
async def test_what_is_taken_without_state(broker_with: Callable[..., BrokerOnBytes], code: RequestCode) -> None:
    for exchange in exchanges_by_code()[code]:
        is_slave = (exchange.java.remark or "").startswith(ON_A_SLAVE)
        await answer(broker_with(role=BrokerRole.SLAVE if is_slave else BrokerRole.ASYNC_MASTER), exchange)


def test_there_is_something_to_compare() -> None:
    found = exchanges_by_code()
    counts = {code: len(found[code]) for code in SIMPLE}
    assert min(counts.values()) >= 4, counts
    assert sum(counts.values()) > 400
    remarks = [exchange.java.remark or "" for exchanges in found.values() for exchange in exchanges]
    assert sum(remark.startswith(ON_A_SLAVE) for remark in remarks) >= 2


@pytest.mark.parametrize("exchange", of(RequestCode.CHECK_CLIENT_CONFIG))
async def test_check_client_config(broker_with: Callable[..., BrokerOnBytes], exchange: Exchange) -> None:
    """What Java expected at a syntax error is listed in another order."""
    broker = broker_with(enable_property_filter=exchange.java.code != ResponseCode.SYSTEM_ERROR)
    (ours,) = await broker.ask_frame(exchange.frame)
    assert ours.code == exchange.java.code
    assert (ours.remark or "").partition("\nWas")[0] == (exchange.java.remark or "").partition("\nWas")[0]


@pytest.mark.parametrize("exchange", of(RequestCode.GET_CONSUMER_LIST_BY_GROUP))
async def test_get_consumer_list_by_group(broker: BrokerOnBytes, exchange: Exchange) -> None:
    if exchange.java.code == ResponseCode.SUCCESS:
        members = decode_body(exchange.java.body, GetConsumerListByGroupResponseBody).consumer_id_list
        for client_id in members:
            client = ClientChannelInfo(broker.connect(), client_id, LanguageCode.JAVA, 407, 0.0)
            broker.tables.consumers.register_consumer(client, ConsumerData(exchange.fields["consumerGroup"]))
    ours = await answer(broker, exchange)
    assert ours.body == exchange.java.body


@pytest.mark.parametrize("exchange", of(RequestCode.QUERY_CONSUMER_OFFSET))
async def test_query_consumer_offset(broker: BrokerOnBytes, exchange: Exchange) -> None:
    fields = exchange.fields
    if exchange.java.code == ResponseCode.SUCCESS:
        offset = int((exchange.java.ext_fields or {})["offset"])
        if offset:
            queue_id = int(fields["queueId"])
            broker.tables.offsets.commit_offset("p", fields["consumerGroup"], fields["topic"], queue_id, offset)
    ours = await answer(broker, exchange)
    assert ours.ext_fields == exchange.java.ext_fields


@pytest.mark.parametrize("exchange", of(RequestCode.LOCK_BATCH_MQ))
async def test_lock_batch(broker: BrokerOnBytes, exchange: Exchange) -> None:
    asked = decode_body(exchange.request.body, LockBatchRequestBody)
    given = decode_body(exchange.java.body, LockBatchResponseBody).lock_ok_mq_set
    others = [queue for queue in asked.mq_set if queue not in given]
    broker.tables.locks.try_lock_batch(asked.consumer_group, others, "somebody else")
    ours = await answer(broker, exchange)
    assert set(decode_body(ours.body, LockBatchResponseBody).lock_ok_mq_set) == set(given)


QUEUE_QUESTIONS = {
    RequestCode.GET_MAX_OFFSET: "offset",
    RequestCode.GET_MIN_OFFSET: "offset",
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: "offset",
    RequestCode.GET_EARLIEST_MSG_STORETIME: "timestamp",
}
"""Questions about one queue, and the field that has the answer."""


def arrange_answer(store: FakeStore, code: int, fields: dict[str, str], value: int) -> None:
    """Let the store have what Java answered to a question about a queue."""
    topic, queue_id = fields["topic"], int(fields["queueId"])
    if code == RequestCode.GET_MAX_OFFSET:
        store.max_offsets[topic, queue_id] = value
    elif code == RequestCode.GET_MIN_OFFSET:
        store.min_offsets[topic, queue_id] = value
    elif code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
        store.by_time[topic, queue_id, int(fields["timestamp"])] = value
    else:
        store.max_offsets[topic, queue_id] = 1 if value >= 0 else 0
        store.timestamps[topic, queue_id, 0] = value


@pytest.mark.parametrize("exchange", of(*QUEUE_QUESTIONS))
async def test_questions_about_a_queue(broker: BrokerOnBytes, exchange: Exchange) -> None:
    code = exchange.request.code
    if exchange.java.code == ResponseCode.SUCCESS:
        value = int((exchange.java.ext_fields or {})[QUEUE_QUESTIONS[RequestCode(code)]])
        arrange_answer(broker.store, code, exchange.fields, value)
    ours = await answer(broker, exchange)
    assert ours.ext_fields == exchange.java.ext_fields


@pytest.mark.parametrize("exchange", of(RequestCode.GET_ALL_TOPIC_CONFIG))
async def test_get_all_topic_config(broker: BrokerOnBytes, exchange: Exchange) -> None:
    topics = broker.tables.topics
    wrapper = decode_body(exchange.java.body, TopicConfigSerializeWrapper)
    topics.topic_config_table.clear()
    topics.topic_config_table.update(wrapper.topic_config_table)
    topics.data_version = wrapper.data_version
    assert (await answer(broker, exchange)).body == exchange.java.body


@pytest.mark.parametrize("exchange", of(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
async def test_get_all_subscription_groups(broker: BrokerOnBytes, exchange: Exchange) -> None:
    groups = broker.tables.groups
    wrapper = decode_body(exchange.java.body, SubscriptionGroupWrapper)
    groups.subscription_group_table = dict(wrapper.subscription_group_table)
    groups.data_version = wrapper.data_version
    assert (await answer(broker, exchange)).body == exchange.java.body


@pytest.mark.parametrize("exchange", of(RequestCode.GET_ALL_CONSUMER_OFFSET))
async def test_get_all_consumer_offset(broker: BrokerOnBytes, exchange: Exchange) -> None:
    table = decode_body(exchange.java.body, ConsumerOffsetSerializeWrapper).offset_table
    broker.tables.offsets.offset_table = table
    assert (await answer(broker, exchange)).body == exchange.java.body


@pytest.mark.parametrize("exchange", of(RequestCode.GET_TOPIC_STATS_INFO))
async def test_get_topic_stats_info(broker_with: Callable[..., BrokerOnBytes], exchange: Exchange) -> None:
    java = decode_body(exchange.java.body, TopicStatsTable)
    broker = broker_with(broker_name=next(iter(java.offset_table)).broker_name)
    count = len(java.offset_table)
    broker.tables.topics.update_topic_config(TopicConfig(exchange.fields["topic"], count, count))
    for queue, offset in java.offset_table.items():
        key = (queue.topic, queue.queue_id)
        broker.store.min_offsets[key], broker.store.max_offsets[key] = offset.min_offset, offset.max_offset
        broker.store.timestamps[(*key, offset.max_offset - 1)] = offset.last_update_timestamp
    assert body_of(await answer(broker, exchange), TopicStatsTable) == java


@pytest.mark.parametrize("exchange", of(RequestCode.GET_CONSUME_STATS))
async def test_get_consume_stats(broker_with: Callable[..., BrokerOnBytes], exchange: Exchange) -> None:
    java = decode_body(exchange.java.body, ConsumeStats)
    broker = broker_with(broker_name=next((queue.broker_name for queue in java.offset_table), "b"))
    for queue, offset in java.offset_table.items():
        key = (queue.topic, queue.queue_id)
        count = sum(each.topic == queue.topic for each in java.offset_table)
        broker.tables.topics.update_topic_config(TopicConfig(queue.topic, count, count))
        group = exchange.fields["consumerGroup"]
        broker.tables.offsets.commit_offset("p", group, *key, offset.consumer_offset)
        broker.store.max_offsets[key] = offset.broker_offset
        broker.store.timestamps[(*key, offset.consumer_offset - 1)] = offset.last_timestamp
    ours = decode_body((await answer(broker, exchange)).body, ConsumeStats)
    assert ours.offset_table == java.offset_table  # consumeTps is a statistic, which is not kept yet


def connect_as(broker: BrokerOnBytes, member: Connection) -> ClientChannelInfo:
    address, _, port = member.client_addr.rpartition(":")
    language = LanguageCode[member.language or "JAVA"]
    return ClientChannelInfo(broker.connect((address, int(port))), member.client_id, language, member.version, 0.0)


@pytest.mark.parametrize("exchange", of(RequestCode.GET_CONSUMER_CONNECTION_LIST))
async def test_get_consumer_connection_list(broker: BrokerOnBytes, exchange: Exchange) -> None:
    if exchange.java.code == ResponseCode.SUCCESS:
        java = decode_body(exchange.java.body, ConsumerConnection)
        for member in java.connection_set:
            data = ConsumerData(
                exchange.fields["consumerGroup"],
                java.consume_type or "",
                java.message_model or "",
                java.consume_from_where or "",
                list(java.subscription_table.values()),
            )
            broker.tables.consumers.register_consumer(connect_as(broker, member), data)
    ours = await answer(broker, exchange)
    assert ours.body is None or body_of(ours, ConsumerConnection) == body_of(exchange.java, ConsumerConnection)


@pytest.mark.parametrize("exchange", of(RequestCode.GET_PRODUCER_CONNECTION_LIST))
async def test_get_producer_connection_list(broker: BrokerOnBytes, exchange: Exchange) -> None:
    if exchange.java.code == ResponseCode.SUCCESS:
        java = decode_body(exchange.java.body, ProducerConnection)
        for member in java.connection_set:
            broker.tables.producers.register_producer(exchange.fields["producerGroup"], connect_as(broker, member))
    ours = await answer(broker, exchange)
    assert ours.body is None or body_of(ours, ProducerConnection) == body_of(exchange.java, ProducerConnection)


@pytest.mark.parametrize("exchange", of(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO))
async def test_query_topic_consume_by_who(broker: BrokerOnBytes, exchange: Exchange) -> None:
    java = decode_body(exchange.java.body, GroupList)
    for group in java.group_list:
        broker.tables.offsets.commit_offset("p", group, exchange.fields["topic"], 0, 1)
    ours = decode_body((await answer(broker, exchange)).body, GroupList)
    assert sorted(ours.group_list) == sorted(java.group_list)


@pytest.mark.parametrize("exchange", of(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER))
async def test_get_system_topic_list(broker_with: Callable[..., BrokerOnBytes], exchange: Exchange) -> None:
    java = decode_body(exchange.java.body, TopicList)
    cluster = next(topic for topic in java.topic_list if topic.endswith("_REPLY_TOPIC")).removesuffix("_REPLY_TOPIC")
    name = next(topic for topic in java.topic_list if topic.startswith("broker-"))
    trace = {"trace_topic_enable": exchange.run == "sync-flush"}
    broker = broker_with(broker_cluster_name=cluster, broker_name=name, **trace)
    ours = decode_body((await answer(broker, exchange)).body, TopicList)
    assert sorted(ours.topic_list) == sorted(java.topic_list)


@pytest.mark.parametrize("exchange", of(RequestCode.GET_BROKER_CONFIG))
async def test_get_broker_config(broker: BrokerOnBytes, exchange: Exchange) -> None:
    """The settings of the client side are not among those of the broker on bytes."""

    def keys(command: RemotingCommand) -> set[str]:
        assert command.body is not None
        return {line.key for line in read_properties(command.body.decode())}

    missing = keys(exchange.java) - keys(await answer(broker, exchange))
    others = {"connectTimeoutMillis", "channelNotActiveInterval", "useTLS", "disableCallbackExecutor"}
    assert {key for key in missing if not key.startswith(("client", "isEnable"))} <= others


@pytest.mark.parametrize("exchange", of(RequestCode.GET_BROKER_RUNTIME_INFO))
async def test_get_broker_runtime_info(broker: BrokerOnBytes, exchange: Exchange) -> None:
    """Figures of the store come from the store, which is none here: all the others are there."""
    java = decode_body(exchange.java.body, KVTable).table
    ours = decode_body((await answer(broker, exchange)).body, KVTable).table
    prefixes = ("send", "pull", "query", "EndTransaction", "brokerVersion", "msg", "pageCache", "startAccept")
    assert {key for key in java if key.startswith(prefixes)} <= ours.keys()
