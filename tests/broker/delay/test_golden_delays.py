"""Delivery of the delayed messages in a store that a Java broker has left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from rocketpy.protocol.fastjson import loads
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.disk.os_disk import OsDisk
from tests.broker.delay.delayed import DelayedMessages, TrioWallClock, open_delayed
from tests.store.golden_store import expected, unpack_store

LEVELS = MessageStoreConfig().message_delay_level
PENDING = [each for each in expected("store-clean")["record"] if each["properties"].get("DELAY") == "18"]
DUE_MS = [
    due_ms for units in expected("store-clean")["units"] if units["queueId"] == 17 for _, _, due_ms in units["units"]
]
REPEATED = ("body", "flag", "sys_flag", "born_timestamp", "born_host", "reconsume_times", "properties")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return unpack_store("store-clean", tmp_path)


def clock_at(timestamp_ms: int) -> TrioWallClock:
    """A clock that shows a time now."""
    clock = TrioWallClock()
    clock.set_by_ms = timestamp_ms - clock.timestamp_ms()
    return clock


def tail(delayed: DelayedMessages) -> list[Any]:
    return [message for message in delayed.messages("GoldA", 1) if message.properties.get("DELAY") == "18"]


async def test_what_java_left_is_delivered_when_it_is_due(root: Path, autojump_clock: trio.testing.MockClock) -> None:
    assert len(PENDING) == len(DUE_MS) == 3
    clock = clock_at(DUE_MS[0] - 3_000)
    async with open_delayed(OsDisk(), root=str(root), levels=LEVELS, clock=clock) as delayed:
        await trio.sleep(2.9)
        assert tail(delayed) == []
        await trio.sleep(0.2)
        delivered = tail(delayed)
        sources = delayed.messages("SCHEDULE_TOPIC_XXXX", 17)
        assert len(delivered) == 3
        for message, source, due_ms in zip(delivered, sources, DUE_MS, strict=True):
            assert [getattr(message, name) for name in REPEATED] == [getattr(source, name) for name in REPEATED]
            assert message.prepared_transaction_offset == ~source.physical_offset
            assert due_ms <= message.store_timestamp <= due_ms + 1
        # Nothing that Java had delivered comes again.
        assert delayed.service.statistics().delivered_count == 3
    content = loads((root / "config" / "delayOffset.json").read_text())
    assert content["offsetTable"] == {1: 4, 2: 1, 18: 3}  # type: ignore[index]


async def test_units_made_again_hold_the_time_of_delivery(root: Path, autojump_clock: trio.testing.MockClock) -> None:
    """Java's own recovery puts the hash of the tags there, and such messages are delivered at once."""
    for path in (root / "consumequeue" / "SCHEDULE_TOPIC_XXXX").rglob("0*"):
        if path.is_file():
            path.unlink()
    clock = clock_at(DUE_MS[0] - 3_000)
    async with open_delayed(OsDisk(), root=str(root), levels=LEVELS, clock=clock, orderly=False) as delayed:
        listing = await delayed.store.list_units("SCHEDULE_TOPIC_XXXX", 17, 0, 10)
        assert listing is not None
        assert [unit.tags_code for unit in listing.units] == DUE_MS
        await trio.sleep(2.9)
        assert tail(delayed) == []
        await trio.sleep(0.2)
        assert len(tail(delayed)) == 3


async def test_a_store_of_java_whose_clock_was_ahead(root: Path, autojump_clock: trio.testing.MockClock) -> None:
    """They wait as long as their level says, counted from the start: what the units say is a day away.

    Two minutes here, and not two hours, in which the services of the store would do what they do twice a second.
    """
    clock = clock_at(DUE_MS[0] - 86_400_000)
    levels = LEVELS.replace(" 2h", " 2m")
    async with open_delayed(OsDisk(), root=str(root), levels=levels, clock=clock, orderly=False) as delayed:
        await trio.sleep(119)
        assert tail(delayed) == []
        await trio.sleep(2)
        assert len(tail(delayed)) == 3
