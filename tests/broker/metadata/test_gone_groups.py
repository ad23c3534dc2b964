"""Offsets of which nothing is left: what counts as gone, and for how long it has to be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import trio
import trio.testing

from rocketpy.broker.metadata import gone_groups
from rocketpy.broker.metadata.gone_groups import PERIOD_SECONDS, GoneGroupsService
from rocketpy.broker.metadata.groups import CHECK_GROUP
from rocketpy.broker.tables import Tables
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.bodies.topic import TopicConfig
from tests.broker.tables_of_a_broker import make_tables


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    tables = make_tables(tmp_path)
    tables.topics.update_topic_config(TopicConfig("T"))
    tables.groups.update_subscription_group_config(SubscriptionGroupConfig("G"))
    tables.offsets.on_change = tables.offset_resets.changed
    return tables


@pytest.fixture
def service(tables: Tables) -> GoneGroupsService:
    return service_of(tables)


def service_of(tables: Tables, *, light: Mapping[str, int] | None = None) -> GoneGroupsService:
    """Return the service of a broker; with ``enableLmq``, and ends of these light queues, if there are some."""
    return GoneGroupsService(
        topics=tables.topics,
        groups=tables.groups,
        offsets=tables.offsets,
        resets=tables.offset_resets,
        enable_lmq=light is not None,
        max_offset=lambda topic, queue_id: (light or {}).get(topic, 0),
    )


async def test_only_offsets_whose_topic_and_group_have_gone_are_removed(
    tables: Tables, service: GoneGroupsService
) -> None:
    kept = [("T", "G"), ("T", "gone"), ("gone", "G"), ("RMQ_SYS_TRANS_HALF_TOPIC", "gone"), ("gone", CHECK_GROUP)]
    for topic, group in (*kept, ("gone", "gone"), ("gone", "x@gone")):
        tables.offsets.commit_offset("peer", group, topic, 0, 5)
    await service.look()
    assert len(tables.offsets.offset_table) == len(kept) + 2
    await service.look()
    assert sorted(tables.offsets.offset_table) == sorted(f"{topic}@{group}" for topic, group in kept)


async def test_a_pair_that_is_used_or_comes_back_between_two_rounds_stays(
    tables: Tables, service: GoneGroupsService
) -> None:
    for group in ("used", "back"):
        tables.offsets.commit_offset("peer", group, "gone", 0, 5)
    await service.look()
    tables.offsets.commit_offset("peer", "used", "gone", 0, 6)
    tables.groups.update_subscription_group_config(SubscriptionGroupConfig("back"))
    await service.look()
    assert sorted(tables.offsets.offset_table) == ["gone@back", "gone@used"]
    await service.look()
    assert sorted(tables.offsets.offset_table) == ["gone@back"]


async def test_light_queues_and_groups_that_come_and_go_leave_nothing(tmp_path: Path) -> None:
    """They have no configuration that could go: any name of them counts as known."""
    tables = make_tables(tmp_path, enable_lmq=True)
    tables.topics.update_topic_config(TopicConfig("T"))
    tables.groups.update_subscription_group_config(SubscriptionGroupConfig("G"))
    kept = [("%LMQ%there", "%LMQ%g"), ("%LMQ%there", "G"), ("T", "%LMQ%g"), ("gone", "G")]
    for topic, group in (*kept, ("%LMQ%gone", "%LMQ%g"), ("%LMQ%gone", "G"), ("gone", "%LMQ%g")):
        tables.offsets.commit_offset("peer", group, topic, 0, 5)
    service = service_of(tables, light={"%LMQ%there": 1})
    for _ in range(2):
        await service.look()
    assert sorted(tables.offsets.offset_table) == sorted(f"{topic}@{group}" for topic, group in kept)


async def test_what_was_revoked_of_a_pair_goes_too(tables: Tables, service: GoneGroupsService) -> None:
    for topic in ("T", "gone"):
        tables.offsets.commit_offset("peer", "gone", topic, 0, 5)
    tables.offsets.remove_offset("gone")
    assert set(tables.offset_resets.table) == {"T@gone", "gone@gone"}
    for _ in range(2):
        await service.look()
    assert set(tables.offset_resets.table) == {"T@gone"}


async def test_groups_that_come_and_go_leave_nothing(tables: Tables, service: GoneGroupsService) -> None:
    for number in range(5):
        tables.offsets.commit_offset("peer", f"G{number}", f"T{number}", 0, 5)
    for _ in range(4):
        await service.look()
    assert not tables.offsets.offset_table
    assert not tables.offset_resets.table


async def test_it_looks_twice_an_hour_and_lets_others_run(
    tables: Tables,
    service: GoneGroupsService,
    autojump_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gone_groups, "PAIRS_PER_SLICE", 2)
    for number in range(5):
        tables.offsets.commit_offset("peer", f"G{number}", "gone", 0, 5)
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        await trio.sleep(2 * PERIOD_SECONDS - 1)
        assert len(tables.offsets.offset_table) == 5
        await trio.sleep(2)
        assert not tables.offsets.offset_table
        nursery.cancel_scope.cancel()
