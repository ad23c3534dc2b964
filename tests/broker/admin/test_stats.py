"""Statistics by name and key; what Java answered is in ``test_golden_admin``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpy.broker.monitoring.stats_item import StatsWindow
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.stats import (
    BrokerStatsData,
    BrokerStatsItem,
)
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.admin import ViewBrokerStatsDataRequestHeader
from tests.broker.broker_on_bytes import BrokerOnBytes


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


# ---- what goes with topics and groups -------------------------------------------------------------------------------


@pytest.mark.parametrize("is_on", [None, True, False])
async def test_what_is_deleted_leaves_the_statistics_unless_told_otherwise(
    broker_with: Callable[..., BrokerOnBytes], is_on: bool | None
) -> None:
    broker = broker_with() if is_on is None else broker_with(auto_delete_unused_stats=is_on)
    is_on = is_on is not False
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
