"""Statistics by name and key, as Java answered them too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpy.broker.clients.channel import ClientChannelInfo
from rocketpy.broker.monitoring.stats_item import StatsWindow
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.connection import ProducerTableInfo
from rocketpy.protocol.bodies.stats import (
    BrokerStatsData,
    BrokerStatsItem,
    ConsumeStatsList,
    QueryConsumeTimeSpanBody,
)
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import LanguageCode, RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.admin import ViewBrokerStatsDataRequestHeader
from tests.broker.broker_on_bytes import BrokerOnBytes
from tests.broker.test_golden_frames import Exchange, answer, of

SERVED = (
    RequestCode.VIEW_BROKER_STATS_DATA,
    RequestCode.GET_BROKER_CONSUME_STATS,
    RequestCode.QUERY_CONSUME_TIME_SPAN,
    RequestCode.GET_ALL_PRODUCER_INFO,
)


def view(name: str, key: str) -> RemotingCommand:
    return make_request(
        RequestCode.VIEW_BROKER_STATS_DATA, ViewBrokerStatsDataRequestHeader(stats_name=name, stats_key=key)
    )


async def test_a_counter_is_shown_for_every_window(broker: BrokerOnBytes) -> None:
    stats = broker.tables.stats
    stats.inc_topic_put("T", 30, 3000)
    for window in (StatsWindow.MINUTE, StatsWindow.DAY):
        list(stats.sample(window, 1000.0))
    found = decode_body((await broker.ask(view("TOPIC_PUT_NUMS", "T"))).body, BrokerStatsData)
    assert found.stats_minute == BrokerStatsItem(30, 3.0, 30.0)
    assert found.stats_hour == BrokerStatsItem(0, 0.0, 0.0)
    assert found.stats_day == BrokerStatsItem(30, 30 / 3600, 30.0)


async def test_a_counter_is_there_before_its_first_note(broker: BrokerOnBytes) -> None:
    broker.tables.stats.topic_put_counter("T").count += 1
    found = decode_body((await broker.ask(view("TOPIC_PUT_NUMS", "T"))).body, BrokerStatsData)
    assert found == BrokerStatsData()


@pytest.mark.parametrize(("name", "key"), [("TOPIC_PUT_NUMS", "T"), ("NO_SUCH", "T"), ("TOPIC_PUT_NUMS", "%")])
async def test_what_was_never_counted_is_not_there(broker: BrokerOnBytes, name: str, key: str) -> None:
    refusal = await broker.ask(view(name, key))
    assert (refusal.code, refusal.remark) == (ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")


async def test_a_long_key_is_not_repeated_whole(broker: BrokerOnBytes) -> None:
    refusal = await broker.ask(view("TOPIC_PUT_NUMS", "x" * 400_000))
    assert refusal.remark == f"The stats <TOPIC_PUT_NUMS> <{'x' * 1000}> not exist"


# ---- what Java answered ---------------------------------------------------------------------------------------------


def count(broker: BrokerOnBytes, name: str, key: str, total: int, times: int) -> None:
    """Count ``total`` messages in ``times`` requests, each of at least one message."""
    for messages in [1] * (times - 1) + [total - max(times - 1, 0)]:
        if name == "TOPIC_PUT_NUMS":
            broker.tables.stats.inc_topic_put(key, messages, 0)
        else:
            assert name == "GROUP_GET_NUMS"
            topic, _, group = key.partition("@")
            broker.tables.stats.inc_group_get(group, topic, messages, 0)


@pytest.mark.parametrize("exchange", of(RequestCode.VIEW_BROKER_STATS_DATA))
async def test_java_counts_in_the_same_words(broker: BrokerOnBytes, exchange: Exchange) -> None:
    if exchange.java.code == ResponseCode.SUCCESS:
        minute = decode_body(exchange.java.body, BrokerStatsData).stats_minute
        times = round(minute.sum / minute.avgpt) if minute.avgpt else 0
        count(broker, exchange.fields["statsName"], exchange.fields["statsKey"], minute.sum, times)
        list(broker.tables.stats.sample(StatsWindow.MINUTE, 0.0))
        ours = decode_body((await answer(broker, exchange)).body, BrokerStatsData)
        assert (ours.stats_minute.sum, ours.stats_minute.avgpt) == (minute.sum, minute.avgpt)
        assert ours.stats_hour == decode_body(exchange.java.body, BrokerStatsData).stats_hour
    else:
        await answer(broker, exchange)


@pytest.mark.parametrize("exchange", of(RequestCode.GET_BROKER_CONSUME_STATS))
async def test_java_lists_groups_with_the_same_fields(broker: BrokerOnBytes, exchange: Exchange) -> None:
    java = decode_body(exchange.java.body, ConsumeStatsList)
    for each in java.consume_stats_list:
        for group, topics in each.items():
            broker.tables.groups.find_subscription_group_config(group)
            for stats in topics:
                for queue, offset in stats.offset_table.items():
                    nums = len(stats.offset_table)
                    broker.tables.topics.update_topic_config(TopicConfig(queue.topic, nums, nums))
                    broker.tables.offsets.commit_offset("p", group, queue.topic, queue.queue_id, offset.consumer_offset)
                    broker.store.max_offsets[queue.topic, queue.queue_id] = offset.broker_offset
    ours = decode_body((await answer(broker, exchange)).body, ConsumeStatsList)
    assert ours.total_diff == java.total_diff

    def places(found: ConsumeStatsList) -> set[tuple[str, str, int, int, int]]:
        return {
            (group, queue.topic, queue.queue_id, offset.broker_offset, offset.consumer_offset)
            for each in found.consume_stats_list
            for group, topics in each.items()
            for stats in topics
            for queue, offset in stats.offset_table.items()
        }

    assert places(ours) == places(java)


@pytest.mark.parametrize("exchange", of(RequestCode.QUERY_CONSUME_TIME_SPAN))
async def test_java_tells_times_with_the_same_fields(broker: BrokerOnBytes, exchange: Exchange) -> None:
    if exchange.java.code == ResponseCode.SUCCESS:
        java = decode_body(exchange.java.body, QueryConsumeTimeSpanBody).consume_time_span_set
        nums = len(java)
        broker.tables.topics.update_topic_config(TopicConfig(exchange.fields["topic"], nums, nums))
        ours = decode_body((await answer(broker, exchange)).body, QueryConsumeTimeSpanBody).consume_time_span_set
        assert sorted(each.message_queue.queue_id for each in ours) == sorted(
            each.message_queue.queue_id for each in java
        )
    else:
        await answer(broker, exchange)


@pytest.mark.parametrize("exchange", of(RequestCode.GET_ALL_PRODUCER_INFO))
async def test_java_lists_producers_with_the_same_fields(broker: BrokerOnBytes, exchange: Exchange) -> None:
    java = decode_body(exchange.java.body, ProducerTableInfo).data
    for group, producers in java.items():
        for each in producers:
            host, _, port = each.remote_ip.removeprefix("/").rpartition(":")
            client = ClientChannelInfo(
                broker.connect((host, int(port))), each.client_id, LanguageCode[each.language or "JAVA"], 407, 0.0
            )
            broker.tables.producers.register_producer(group, client)
    broker.tables.time.now += 1.5
    ours = decode_body((await answer(broker, exchange)).body, ProducerTableInfo).data
    assert {
        group: sorted((each.client_id, each.remote_ip, each.language, each.version) for each in producers)
        for group, producers in ours.items()
    } == {
        group: sorted((each.client_id, each.remote_ip, each.language, each.version) for each in producers)
        for group, producers in java.items()
    }
    last = broker.tables.clock.timestamp_ms() - 1500
    assert {each.last_update_timestamp for producers in ours.values() for each in producers} <= {last}


def test_there_is_something_to_compare() -> None:
    assert all(of(code) for code in SERVED)


# ---- what goes with topics and groups -------------------------------------------------------------------------------


@pytest.mark.parametrize("is_on", [True, False])
async def test_what_is_deleted_leaves_the_statistics_if_asked(
    broker_with: Callable[..., BrokerOnBytes], is_on: bool
) -> None:
    broker = broker_with(auto_delete_unused_stats=is_on)
    stats = broker.tables.stats
    for topic, group in (("T", "G"), ("U", "H")):
        broker.tables.topics.update_topic_config(TopicConfig(topic))
        stats.inc_topic_put(topic, 1, 1)
        stats.inc_group_get(group, topic, 1, 1)
    await broker.ask(RemotingCommand(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"}))
    assert (stats.get_stats_item("TOPIC_PUT_NUMS", "T") is None) == is_on
    await broker.ask(RemotingCommand(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "H"}))
    assert (stats.get_stats_item("GROUP_GET_NUMS", "U@H") is None) == is_on
    assert stats.get_stats_item("TOPIC_PUT_NUMS", "U") is not None
