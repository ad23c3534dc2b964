"""The tables of a broker: nothing is in them at first, and what their files hold after a load."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from rocketpy.broker.delay.offsets import DelayProgress
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.broker.tables import Tables
from rocketpy.clock import ManualClock
from rocketpy.protocol.bodies.heartbeat import SubscriptionData
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.topic_name import may_be_in_table
from rocketpy.runner import run_inline
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.inspection.verify.inventory import read_inventory
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.store.inspection.verify.small_files_inspection import known_topics, why_no_json
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
    tables.offset_resets.changed("t@g", 0, 9, 7)
    tables.offset_differences.committed("t@g", 0, 9, 7)
    for table in (tables.topics, tables.offsets, tables.groups, tables.offset_resets, tables.offset_differences):
        await table.stored.persist()
    again = load(settings)
    assert again.topics.topic_config_table["t"].write_queue_nums == 3
    assert again.offsets.query_offset("g", "t", 0) == 7
    assert "g" in again.groups.subscription_group_table
    assert again.offset_resets.revoked_offset("t@g", 0) == 9
    assert again.offset_differences.count == 1


NAMES_OF_PEERS = [
    "$ref",
    "@type",
    "$",
    "$.offsetTable",
    '{"$ref":"$"}',
    "{0:7}",
    "0",
    "-1",
    "null",
    "true",
    "offsetTable",
    "lmqOffsetTable",
    "topicConfigTable",
    "dataVersion",
    "groupName",
    "a@b",
    "@",
    "'",
    '"',
    "\\",
    "\\u0000",
    "/*",
    "a b\t\n\0\x7f\x85",
    "\u2028\ufeff\U0001f600",
    "\ud83d",
    "%RETRY%$ref",
    "%LMQ%$ref",
]
"""Names that mean something in fastjson's dialect or in the tables' own files.

A peer can bring each of them as a group, as the topic of a subscription, and as the topic of an offset; topics that are
created obey the rule of names.
"""


@pytest.mark.parametrize("enable_lmq", [False, True])
async def test_no_name_that_a_peer_chooses_keeps_the_broker_from_starting(tmp_path: Path, enable_lmq: bool) -> None:
    settings = settings_at(tmp_path)
    settings = attrs.evolve(settings, store=attrs.evolve(settings.store, enable_lmq=enable_lmq))
    tables = load(settings)
    for number, name in enumerate(NAMES_OF_PEERS):
        tables.topics.update_topic_config(TopicConfig(name, 3, 3))  # more than any request may: the file is Java's too
        tables.groups.find_subscription_group_config(name)
        for topic, group in ((name, "g"), ("t", name), (name, name)):
            tables.offsets.commit_offset("peer", group, topic, 0, number)
        subscriptions = [
            SubscriptionData(each, f"a = '{text}'", 1, expression_type="SQL92")
            for each in NAMES_OF_PEERS
            for text in ["$ref", '{"$ref":"$"}']
        ]
        tables.filters.register(name, subscriptions)
    tables.delay_offsets.note(DelayProgress({1: 4}, 81_723))
    everything = (tables.topics, tables.groups, tables.offsets, tables.filters, tables.delay_offsets)
    for each in everything:
        await each.stored.persist()

    again = load(settings)
    written = [name for name in NAMES_OF_PEERS if not (enable_lmq and name.startswith("%LMQ%"))]
    known = [name.replace("\ud83d", "?") for name in written]  # as Java encodes it
    assert {name for name in known if may_be_in_table(name)} == again.topics.topic_config_table.keys() & set(known)
    assert set(known) <= again.groups.subscription_group_table.keys()
    assert len(again.filters) == len(tables.filters) == len(NAMES_OF_PEERS) ** 2
    assert again.delay_offsets.noted == tables.delay_offsets.noted
    for number, name in enumerate(NAMES_OF_PEERS):
        loaded_name = name.replace("\ud83d", "?")
        found = again.filters.get(loaded_name, loaded_name)
        assert found is not None
        assert found.expression == "a = '$ref'"
        for topic, group in ((loaded_name, "g"), ("t", loaded_name), (loaded_name, loaded_name)):
            is_of_a_group = topic and group and not topic.startswith("@")  # else it is left out, with a line
            assert again.offsets.query_offset(group, topic, 0) == (number if is_of_a_group else -1)

    opened = ReadOnlyFiles(OsDisk())
    inventory = read_inventory(OsDisk(), settings.store.root)
    tables_read = [path for path in inventory.config_files if OsDisk().exists(path)]
    assert len(tables_read) == len(everything)
    assert [why_no_json(OsDisk(), opened, path) for path in tables_read] == [None] * len(everything)
    topics = known_topics(OsDisk(), inventory, opened)
    opened.close()
    assert topics is not None
    assert set(known) <= topics


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
