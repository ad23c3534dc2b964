"""The tables of a broker: nothing is in them at first, and what their files hold after a load."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.broker.tables import Tables
from rocketpy.clock import ManualClock
from rocketpy.errors import StartError
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.runner import run_inline
from rocketpy.store.disk import OsDisk
from tests.broker.test_app import settings_at


def load(settings: BrokerSettings) -> Tables:
    return Tables.load(settings, disk=OsDisk(), clock=ManualClock(), run_blocking=run_inline)


async def test_what_was_written_is_loaded(tmp_path: Path) -> None:
    settings = settings_at(tmp_path)
    tables = load(settings)
    assert tables.accounts is None
    assert tables.offsets.query_offset("g", "t", 0) == -1
    tables.topics.update_topic_config(TopicConfig("t", 3, 3))
    tables.offsets.commit_offset("peer", "g", "t", 0, 7)
    tables.groups.find_subscription_group_config("g")
    for stored in (tables.topics.stored, tables.offsets.stored, tables.groups.stored):
        await stored.persist()
    again = load(settings)
    assert again.topics.topic_config_table["t"].write_queue_nums == 3
    assert again.offsets.query_offset("g", "t", 0) == 7
    assert "g" in again.groups.subscription_group_table


@pytest.mark.parametrize(
    "name", ["topics.json", "subscriptionGroup.json", "consumerOffset.json", "consumerFilter.json", "delayOffset.json"]
)
def test_a_file_that_makes_no_sense_is_named(tmp_path: Path, name: str) -> None:
    settings = settings_at(tmp_path)
    path = Path(settings.store.root, "config", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("no table")
    with pytest.raises(StartError, match=name):
        load(settings)


def test_what_is_counted_is_a_setting(tmp_path: Path) -> None:
    settings = settings_at(tmp_path)
    for enabled in (True, False):
        broker = attrs.evolve(settings.broker, enable_detail_stat=enabled)
        store = attrs.evolve(settings.store, disk_fall_recorded=enabled)
        stats = load(attrs.evolve(settings, broker=broker, store=store)).stats
        stats.record_fall("G", "T", 0, 5, 6)
        stats.inc_queue_put("T", 0, 1, 300)
        assert bool(stats.fall_bytes()) is enabled
        assert (stats.get_stats_item("QUEUE_PUT_NUMS", "T@0") is not None) is enabled


def test_delay_levels_are_those_of_the_store(tmp_path: Path) -> None:
    settings = settings_at(tmp_path)
    settings = attrs.evolve(settings, store=attrs.evolve(settings.store, message_delay_level="1s 9s"))
    assert load(settings).levels.delay_ms(2) == 9_000
