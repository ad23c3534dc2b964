"""What a Java broker answered to operators who reset, clone and look: in the same state ours answers the same.

A sibling of ``test_golden_frames``, which reads the recording and compares what is the same for every code. Java's
successes of these codes carry the remark ``not set any response code``, which is that of a fresh answer there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import pytest
import trio

from rocketpy.broker.clients.channel import ClientChannelInfo
from rocketpy.broker.monitoring.stats_item import StatsWindow
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.connection import ProducerInfo, ProducerTableInfo
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.bodies.offset import (
    DelayOffsetSerializeWrapper,
    GetConsumerStatusBody,
    QueryCorrectionOffsetBody,
    ResetOffsetBody,
)
from rocketpy.protocol.bodies.queue import QueryConsumeQueueResponseBody
from rocketpy.protocol.bodies.stats import (
    BrokerStatsData,
    BrokerStatsItem,
    ConsumeStatsList,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
)
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import LanguageCode, RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.message import MessageQueue
from rocketpy.remoting.connection import Connection
from rocketpy.store.results import ListedUnit
from rocketpy.store.results import QueueTimeSpan as StoreTimeSpan
from tests.broker.broker_on_bytes import BrokerOnBytes, received
from tests.broker.test_golden_frames import Exchange, answer, of


async def answer_through(
    broker: BrokerOnBytes, exchange: Exchange, consumer: Connection, reply: Callable[[RemotingCommand], RemotingCommand]
) -> tuple[RemotingCommand, RemotingCommand]:
    """Ask while a consumer answers; return the answer, and what the consumer was asked."""
    found: list[RemotingCommand] = []
    asked: list[RemotingCommand] = []

    async def ask() -> None:
        found.append(await answer(broker, exchange))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        for question in received(consumer):
            asked.append(question)
            consumer.receive(encode_frame(attrs.evolve(reply(question), opaque=question.opaque)))
            consumer.serve(10)
    return found[0], asked[0]


@pytest.mark.parametrize("exchange", of(RequestCode.UPDATE_BROKER_CONFIG))
async def test_update_broker_config(broker: BrokerOnBytes, exchange: Exchange, tmp_path: Path) -> None:
    assert exchange.request.body is not None
    if exchange.request.body == b"brokerRole=SYNC_MASTER\n":  # accepted by Java, without effect on what runs
        [refused] = await broker.ask_frame(exchange.frame, broker.connect())
        assert (refused.code, refused.opaque) == (ResponseCode.NO_PERMISSION, exchange.java.opaque)
        assert "brokerRole" in (refused.remark or "")
        assert not (tmp_path / "broker.conf").exists() or "SYNC_MASTER" not in (tmp_path / "broker.conf").read_text()
        return
    await answer(broker, exchange)
    text = (tmp_path / "broker.conf").read_text()
    assert all(line in text.splitlines() for line in exchange.request.body.decode().splitlines())


@pytest.mark.parametrize("exchange", of(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET))
async def test_reset_offset(broker_with: Callable[..., BrokerOnBytes], exchange: Exchange) -> None:
    fields = exchange.fields
    topic, group, timestamp = fields["topic"], fields["group"], int(fields["timestamp"])
    table = {}
    if exchange.java.code == ResponseCode.SUCCESS:
        table = decode_body(exchange.java.body, ResetOffsetBody).offset_table
    broker = broker_with(broker_name=next((queue.broker_name for queue in table), "b"))
    broker.tables.topics.update_topic_config(TopicConfig(topic, 2, 2))
    if group != "GoldNobody":
        for queue_id in range(2):
            broker.tables.offsets.commit_offset("p", group, topic, queue_id, 8)
    for queue, offset in table.items():
        broker.store.max_offsets[topic, queue.queue_id] = offset
        broker.store.by_time[topic, queue.queue_id, timestamp] = offset
    if table:
        broker.join(group, topic)
    ours = await answer(broker, exchange)
    if table:
        assert decode_body(ours.body, ResetOffsetBody).offset_table == table


@pytest.mark.parametrize("exchange", of(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS))
async def test_get_consumer_status(broker: BrokerOnBytes, exchange: Exchange) -> None:
    if (exchange.java.remark or "").startswith("org.apache.rocketmq.acl"):
        return
    java = decode_body(exchange.java.body, GetConsumerStatusBody)
    ((client_id, table),) = java.consumer_table.items()
    consumer = broker.join(exchange.fields["group"], exchange.fields["topic"], client_id="127.0.0.1@i7")
    body = encode_body(GetConsumerStatusBody(message_queue_table=table))
    ours, asked = await answer_through(broker, exchange, consumer, lambda question: make_response(question, body=body))
    assert ours.body == exchange.java.body
    assert client_id == "127.0.0.1@i7"
    assert asked.ext_fields == {"topic": exchange.fields["topic"], "group": exchange.fields["group"]}


@pytest.mark.parametrize("exchange", of(RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.CONSUME_MESSAGE_DIRECTLY))
async def test_what_is_asked_of_a_consumer(broker_with: Callable[..., BrokerOnBytes], exchange: Exchange) -> None:
    broker = broker_with(broker_name="broker-0")
    fields = exchange.fields
    consumer = broker.join(fields["consumerGroup"], "GoldTopic", client_id="127.0.0.1@i7")
    if "msgId" in fields:
        broker.store.records[int(fields["msgId"][-16:], 16)] = b"record"
    java = exchange.java
    ours, asked = await answer_through(
        broker, exchange, consumer, lambda question: make_response(question, java.code, java.remark, body=java.body)
    )
    assert (ours.body, ours.remark) == (java.body, java.remark)
    more = {"brokerName": "broker-0"} if "msgId" in fields else {}
    assert asked.body == (b"record" if "msgId" in fields else None)
    assert asked.ext_fields == {key: fields[key] for key in fields if key not in ("AccessKey", "Signature")} | more


@pytest.mark.parametrize("exchange", of(RequestCode.QUERY_CORRECTION_OFFSET))
async def test_query_correction_offset(broker: BrokerOnBytes, exchange: Exchange) -> None:
    for queue_id, offset in decode_body(exchange.java.body, QueryCorrectionOffsetBody).correction_offsets.items():
        broker.tables.offsets.commit_offset("p", "g", exchange.fields["topic"], queue_id, offset)
    assert (await answer(broker, exchange)).body == exchange.java.body


@pytest.mark.parametrize("exchange", of(RequestCode.CLONE_GROUP_OFFSET))
async def test_clone_group_offset(broker: BrokerOnBytes, exchange: Exchange) -> None:
    fields = exchange.fields
    broker.tables.topics.update_topic_config(TopicConfig(fields["topic"], 1, 1))
    broker.tables.offsets.commit_offset("p", fields["srcGroup"], fields["topic"], 0, 5)
    await answer(broker, exchange)
    assert broker.tables.offsets.query_offset(fields["destGroup"], fields["topic"], 0) == 5


@pytest.mark.parametrize("exchange", of(RequestCode.QUERY_CONSUME_QUEUE))
async def test_query_consume_queue(broker: BrokerOnBytes, exchange: Exchange) -> None:
    java = decode_body(exchange.java.body, QueryConsumeQueueResponseBody)
    queue = (exchange.fields["topic"], int(exchange.fields["queueId"]))
    units = [ListedUnit(unit.physic_offset, unit.physic_size, unit.tags_code, None) for unit in java.queue_data or ()]
    broker.store.listings[queue] = units
    broker.store.max_offsets[queue] = java.max_queue_index
    assert (await answer(broker, exchange)).body == exchange.java.body


CLEANING = {
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: "clean_expired_consumer_queue",
    RequestCode.CLEAN_UNUSED_TOPIC: "clean_unused_topics",
    RequestCode.DELETE_EXPIRED_COMMITLOG: "execute_delete_files_manually",
}


@pytest.mark.parametrize("exchange", of(*CLEANING))
async def test_cleaning(broker: BrokerOnBytes, exchange: Exchange) -> None:
    await answer(broker, exchange)
    (cleaned,) = broker.store.cleaned
    assert cleaned.startswith(CLEANING[RequestCode(exchange.request.code)])


@pytest.mark.parametrize("exchange", of(RequestCode.GET_ALL_DELAY_OFFSET))
async def test_get_all_delay_offset(broker: BrokerOnBytes, exchange: Exchange) -> None:
    java = decode_body(exchange.java.body, DelayOffsetSerializeWrapper)
    broker.tables.delay_offsets.offset_table.update(java.offset_table)
    assert (await answer(broker, exchange)).body == exchange.java.body


@pytest.mark.parametrize("exchange", of(RequestCode.GET_ALL_PRODUCER_INFO))
async def test_get_all_producer_info(broker: BrokerOnBytes, exchange: Exchange) -> None:
    """All but the time of a producer's last heartbeat, which is now here."""
    java = decode_body(exchange.java.body, ProducerTableInfo).data
    for group, producers in java.items():
        for each in producers:
            address, _, port = each.remote_ip.removeprefix("/").rpartition(":")
            channel = broker.connect((address, int(port)))
            client = ClientChannelInfo(
                channel, each.client_id, LanguageCode[each.language or "JAVA"], each.version, 0.0
            )
            broker.tables.producers.register_producer(group, client)
    ours = decode_body((await answer(broker, exchange)).body, ProducerTableInfo).data

    def without_times(table: dict[str, Sequence[ProducerInfo]]) -> dict[str, list[ProducerInfo]]:
        return {
            group: sorted((attrs.evolve(each, last_update_timestamp=0) for each in producers), key=repr)
            for group, producers in table.items()
        }

    assert without_times(ours) == without_times(java)


@pytest.mark.parametrize("exchange", of(RequestCode.GET_BROKER_CONSUME_STATS))
async def test_get_broker_consume_stats(broker_with: Callable[..., BrokerOnBytes], exchange: Exchange) -> None:
    """All but rates; a group of Java's table is one of ours, in the same order."""
    java = decode_body(exchange.java.body, ConsumeStatsList)
    queues = [queue for groups in java.consume_stats_list for each in groups.values() for table in each
              for queue in table.offset_table]  # fmt: skip
    broker = broker_with(broker_name=queues[0].broker_name)
    broker.tables.groups.subscription_group_table.clear()
    for groups in java.consume_stats_list:
        for group, tables in groups.items():
            broker.tables.groups.subscription_group_table[group] = SubscriptionGroupConfig(group_name=group)
            for table in tables:
                for queue, offset in table.offset_table.items():
                    key = (queue.topic, queue.queue_id)
                    count = len(table.offset_table)
                    broker.tables.topics.update_topic_config(TopicConfig(queue.topic, count, count))
                    broker.tables.offsets.commit_offset("p", group, *key, offset.consumer_offset)
                    broker.store.max_offsets[key] = offset.broker_offset
                    broker.store.timestamps[(*key, offset.consumer_offset - 1)] = offset.last_timestamp
    ours = decode_body((await answer(broker, exchange)).body, ConsumeStatsList)
    assert ours.total_diff == java.total_diff

    def offsets(stats: ConsumeStatsList) -> list[dict[str, dict[MessageQueue, OffsetWrapper]]]:
        return [
            {group: {queue: offset for table in tables for queue, offset in table.offset_table.items()}}
            for groups in stats.consume_stats_list
            for group, tables in groups.items()
        ]

    assert offsets(ours) == offsets(java)


@pytest.mark.parametrize("exchange", of(RequestCode.QUERY_CONSUME_TIME_SPAN))
async def test_query_consume_time_span(broker_with: Callable[..., BrokerOnBytes], exchange: Exchange) -> None:
    java = decode_body(exchange.java.body, QueryConsumeTimeSpanBody).consume_time_span_set
    broker = broker_with(broker_name=java[0].message_queue.broker_name)
    broker.tables.topics.update_topic_config(TopicConfig(exchange.fields["topic"], len(java), len(java)))
    for span in java:
        assert span.delay_time == 0, "everything was consumed"
        queue = (span.message_queue.topic, span.message_queue.queue_id)
        times = (span.min_time_stamp, span.max_time_stamp, span.consume_time_stamp)
        broker.store.time_spans[queue] = StoreTimeSpan(*times, None)
    ours = decode_body((await answer(broker, exchange)).body, QueryConsumeTimeSpanBody).consume_time_span_set

    def without_texts(spans: Sequence[QueueTimeSpan]) -> list[QueueTimeSpan]:  # they are in local time
        return [
            attrs.evolve(span, min_time_stamp_str=None, max_time_stamp_str=None, consume_time_stamp_str=None)
            for span in spans
        ]

    assert without_texts(ours) == without_texts(java)
    assert all(span.min_time_stamp_str for span in ours)


@pytest.mark.parametrize("exchange", of(RequestCode.VIEW_BROKER_STATS_DATA))
async def test_view_broker_stats_data(broker: BrokerOnBytes, exchange: Exchange) -> None:
    """After as many messages in as many requests as Java had counted; rates are of another broker's minutes."""
    if exchange.java.code != ResponseCode.SUCCESS:
        await answer(broker, exchange)
        return
    java = decode_body(exchange.java.body, BrokerStatsData)
    count_messages(broker, exchange.fields["statsName"], exchange.fields["statsKey"], java.stats_minute)
    list(broker.tables.stats.sample(StatsWindow.MINUTE, 0.0))
    ours = decode_body((await answer(broker, exchange)).body, BrokerStatsData)
    assert (ours.stats_minute.sum, ours.stats_minute.avgpt) == (java.stats_minute.sum, java.stats_minute.avgpt)
    assert ours.stats_hour == java.stats_hour


def count_messages(broker: BrokerOnBytes, name: str, key: str, of_java: BrokerStatsItem) -> None:
    """Count as many messages in as many requests, each of at least one message."""
    request_count = round(of_java.sum / of_java.avgpt) if of_java.avgpt else 0
    for messages in [1] * (request_count - 1) + [of_java.sum - max(request_count - 1, 0)]:
        if name == "TOPIC_PUT_NUMS":
            broker.tables.stats.inc_topic_put(key, messages, 0)
        else:
            assert name == "GROUP_GET_NUMS"
            topic, _, group = key.partition("@")
            broker.tables.stats.inc_group_get(group, topic, messages, 0)
