"""Consumption progress of groups, in messages and in time."""

from __future__ import annotations

from datetime import UTC, datetime

from rocketpy.broker.admin.consume_stats import QUEUES_PER_SLICE
from rocketpy.broker.monitoring.stats_item import StatsWindow
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.bodies.stats import ConsumeStats, ConsumeStatsList, OffsetWrapper, QueryConsumeTimeSpanBody
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.admin import GetConsumeStatsInBrokerHeader, GetConsumeStatsRequestHeader
from rocketpy.protocol.headers.topic import QueryConsumeTimeSpanRequestHeader
from rocketpy.protocol.message import MessageQueue
from rocketpy.store.results import QueueTimeSpan
from tests.broker.broker_on_bytes import BrokerOnBytes
from tests.turns import counted_turns


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
    broker.join("g", "u")
    assert [queue.topic for queue in stats(await broker.ask(consume_stats()))] == ["u"]


async def test_a_group_without_anything_is_nowhere(broker: BrokerOnBytes) -> None:
    answer = await broker.ask(consume_stats())
    assert answer.body == b'{"consumeTps":0.0,"offsetTable":{}}'


async def test_rates_of_topics_are_added_up(broker: BrokerOnBytes) -> None:
    for topic, count in (("t", 10), ("u", 20)):
        broker.tables.topics.update_topic_config(TopicConfig(topic, 1, 1))
        broker.tables.offsets.commit_offset("peer", "g", topic, 0, 5)
        broker.tables.stats.inc_group_get("g", topic, count, 1)
    list(broker.tables.stats.sample(StatsWindow.MINUTE, 0.0))
    assert decode_body((await broker.ask(consume_stats())).body, ConsumeStats).consume_tps == 3.0
    assert decode_body((await broker.ask(consume_stats("t"))).body, ConsumeStats).consume_tps == 1.0


async def test_the_bytes_are_those_of_the_generic_encoder(broker: BrokerOnBytes) -> None:
    for topic, queue_nums in (("t", 2), ("none", 0), ('q"uote', 1), ("many", 3 * QUEUES_PER_SLICE + 1)):
        broker.tables.topics.update_topic_config(TopicConfig(topic, queue_nums, queue_nums))
        broker.tables.offsets.commit_offset("peer", "g", topic, 0, 5)
    broker.tables.groups.update_subscription_group_config(SubscriptionGroupConfig("g"))
    for request, body_class in (
        (consume_stats(), ConsumeStats),
        (consume_stats("none"), ConsumeStats),
        (RemotingCommand(RequestCode.GET_BROKER_CONSUME_STATS), ConsumeStatsList),
        (time_spans_request("many"), QueryConsumeTimeSpanBody),
        (time_spans_request("none"), QueryConsumeTimeSpanBody),
    ):
        answer = await broker.ask(request)
        assert answer.body == encode_body(decode_body(answer.body, body_class))


async def test_others_run_while_a_long_answer_is_made(broker: BrokerOnBytes) -> None:
    for number in range(50):
        broker.tables.topics.update_topic_config(TopicConfig(f"t{number}", 1, 1))
        broker.tables.offsets.commit_offset("peer", "g", f"t{number}", 0, 0)
    async with counted_turns() as turns:
        assert len(stats(await broker.ask(consume_stats()))) == 50
    assert turns.count >= 45


# ---- all groups -----------------------------------------------------------------------------------------------------


async def all_stats(broker: BrokerOnBytes, *, is_order: bool = False) -> ConsumeStatsList:
    answer = await broker.ask(
        make_request(RequestCode.GET_BROKER_CONSUME_STATS, GetConsumeStatsInBrokerHeader(is_order=is_order))
    )
    assert answer.code == ResponseCode.SUCCESS
    return decode_body(answer.body, ConsumeStatsList)


async def test_every_group_is_listed_with_its_topics(broker: BrokerOnBytes) -> None:
    for group in ("g", "h"):
        broker.tables.groups.update_subscription_group_config(SubscriptionGroupConfig(group))
    broker.tables.topics.update_topic_config(TopicConfig("t", 1, 2))
    broker.tables.topics.update_topic_config(TopicConfig("ordered", 1, 1, order=True))
    broker.tables.offsets.commit_offset("peer", "g", "t", 1, 3)
    broker.tables.offsets.commit_offset("peer", "g", "ordered", 0, 1)
    broker.store.max_offsets = {("t", 0): 4, ("t", 1): 10, ("ordered", 0): 2}
    found = await all_stats(broker)
    by_group = {group: stats for each in found.consume_stats_list for group, stats in each.items()}
    assert {"g", "h"} <= by_group.keys()
    assert by_group["h"] == []
    offsets = {queue: each for stats in by_group["g"] for queue, each in stats.offset_table.items()}
    assert offsets == {
        MessageQueue("t", "broker-a", 0): OffsetWrapper(4, 0, 0),
        MessageQueue("t", "broker-a", 1): OffsetWrapper(10, 3, 0),
        MessageQueue("ordered", "broker-a", 0): OffsetWrapper(2, 1, 0),
    }
    assert found.total_diff == 4 + 7 + 1
    assert found.broker_addr == "127.0.0.1:10911"
    ordered = await all_stats(broker, is_order=True)
    assert ordered.total_diff == 1


# ---- time -----------------------------------------------------------------------------------------------------------


def time_spans_request(topic: str) -> RemotingCommand:
    header = QueryConsumeTimeSpanRequestHeader(topic=topic, group="g")
    return make_request(RequestCode.QUERY_CONSUME_TIME_SPAN, header)


async def time_spans(broker: BrokerOnBytes, topic: str = "t") -> RemotingCommand:
    return await broker.ask(time_spans_request(topic))


async def test_where_a_group_is_in_time(broker: BrokerOnBytes) -> None:
    broker.tables.topics.update_topic_config(TopicConfig("t", 1, 2))
    now_ms = broker.tables.clock.timestamp_ms()
    broker.store.time_spans["t", 0] = QueueTimeSpan(1_000, 9_000, 5_000, now_ms - 250)
    first, second = decode_body((await time_spans(broker)).body, QueryConsumeTimeSpanBody).consume_time_span_set
    assert first.message_queue == MessageQueue("t", "broker-a", 0)
    assert (first.min_time_stamp, first.max_time_stamp, first.consume_time_stamp) == (1_000, 9_000, 5_000)
    assert first.delay_time == 250
    local = datetime.fromtimestamp(1, UTC).astimezone()
    assert first.min_time_stamp_str == f"{local:%Y-%m-%d#%H:%M:%S}:000"
    assert (second.min_time_stamp, second.delay_time) == (-1, 0)


async def test_of_a_topic_that_is_not_there_nothing_is_known(broker: BrokerOnBytes) -> None:
    answer = await time_spans(broker, "nothing")
    assert (answer.code, answer.remark) == (ResponseCode.TOPIC_NOT_EXIST, "topic[nothing] not exist")
