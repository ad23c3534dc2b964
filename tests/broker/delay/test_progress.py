"""What delayOffset.json says of the log is durable before the file is, whatever fails in between."""

from __future__ import annotations

import logging
from typing import cast

import attrs
import pytest
import trio
import trio.testing

from rocketpy.broker.delay.offsets import DelayOffsetManager, DelayProgress
from rocketpy.broker.delay.progress import NOTE_AFTER_BYTES, DelayProgressService
from rocketpy.errors import StoreError
from rocketpy.runner import run_inline
from rocketpy.store.message_store import MessageStore
from rocketpy.testing.sim.disk import SimDisk

PATH = "/config/delayOffset.json"


@attrs.define(eq=False)
class Log:
    """A fake log that has only its ends, and a disk whose file is read when a flush begins."""

    disk: SimDisk
    wrote_offset: int = 0
    durable_offset: int = 0
    noted_at_flush: list[DelayProgress | None] = attrs.Factory(list)
    is_broken: bool = False

    async def flush(self) -> None:
        self.noted_at_flush.append(on_disk(self.disk))
        if self.is_broken:
            raise StoreError("cannot sync", path="/log")
        await trio.lowlevel.checkpoint()
        self.durable_offset = self.wrote_offset


def on_disk(disk: SimDisk) -> DelayProgress | None:
    """Return the progress that a start would load."""
    table = DelayOffsetManager(path=PATH, disk=disk, run_blocking=run_inline)
    if not disk.exists(PATH):
        return None
    table.load()
    return table.noted


@attrs.define(eq=False)
class Bench:
    disk: SimDisk = attrs.Factory(SimDisk)
    log: Log = attrs.Factory(lambda self: Log(self.disk), takes_self=True)

    def life(self) -> tuple[DelayProgressService, DelayOffsetManager]:
        """A life of the broker: the table as its file has it."""
        offsets = DelayOffsetManager(path=PATH, disk=self.disk, run_blocking=run_inline)
        offsets.load()
        store = cast("MessageStore", self.log)
        return DelayProgressService(store=store, offsets=offsets, flush_interval_ms=10_000), offsets


@pytest.fixture
def bench() -> Bench:
    return Bench()


# ---- the anchor -----------------------------------------------------------------------------------------------------


async def test_the_first_note_names_what_is_durable_already(bench: Bench) -> None:
    """It is written before the first delivery, so none of our deliveries has a lower physical offset."""
    bench.log.wrote_offset, bench.log.durable_offset = 900, 400
    service, _ = bench.life()
    assert await service.is_anchored()
    assert on_disk(bench.disk) == DelayProgress({}, 400)
    assert bench.log.noted_at_flush == [], "no flush is waited for"


async def test_an_anchor_of_an_earlier_life_is_written_again_with_its_physical_offset(bench: Bench) -> None:
    """It was read from a file that may have been in memory only, so it does not count for a loss of power yet."""
    first, offsets = bench.life()
    await first.is_anchored()
    offsets.offset_table[1] = 3
    await first.finish()
    bench.log.wrote_offset = bench.log.durable_offset = 5_000
    syncs = bench.disk.calls["sync"]
    second, _ = bench.life()
    assert await second.is_anchored()
    assert bench.disk.calls["sync"] > syncs
    assert on_disk(bench.disk) == DelayProgress({1: 3}, 0), "not the current offset: deliveries may lie before it"


async def test_without_room_there_is_no_anchor_until_there_is_room(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    service, offsets = bench.life()
    capacity = bench.disk.capacity_bytes
    bench.disk.capacity_bytes = 0
    assert not await service.is_anchored()
    assert offsets.noted == DelayProgress(), "the table does not say what the file does not have"
    assert "no space" in caplog.text
    assert on_disk(bench.disk) is None
    bench.disk.capacity_bytes = capacity
    assert await service.is_anchored()
    assert on_disk(bench.disk) == DelayProgress({}, 0)


# ---- the notes ------------------------------------------------------------------------------------------------------


async def test_the_log_is_durable_up_to_the_physical_offset_before_the_file_has_it(
    bench: Bench, autojump_clock: trio.testing.MockClock
) -> None:
    service, offsets = bench.life()
    await service.is_anchored()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        offsets.offset_table[2] = 7
        bench.log.wrote_offset = 1_000
        await trio.sleep(9.999)
        assert bench.log.noted_at_flush == []
        await trio.sleep(0.002)
        nursery.cancel_scope.cancel()
    assert bench.log.noted_at_flush == [DelayProgress({}, 0)], "the older note stands while the log is flushed"
    assert on_disk(bench.disk) == DelayProgress({2: 7}, 1_000)


async def test_what_is_delivered_while_the_log_is_flushed_is_of_the_next_note(bench: Bench) -> None:
    service, offsets = bench.life()
    await service.is_anchored()
    offsets.offset_table[2] = 7
    bench.log.wrote_offset = 1_000
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.finish)
        await trio.lowlevel.checkpoint()
        while not bench.log.noted_at_flush:
            await trio.lowlevel.checkpoint()
        offsets.offset_table[2] = 8
        bench.log.wrote_offset = 2_000
    assert on_disk(bench.disk) == DelayProgress({2: 7}, 1_000)


async def test_nothing_is_noted_while_nothing_changes(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    service, _ = bench.life()
    await service.is_anchored()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        bench.log.wrote_offset = NOTE_AFTER_BYTES - 1
        await trio.sleep(55)  # it looks each 10 s, and not in this moment
        assert bench.log.noted_at_flush == []
        bench.log.wrote_offset = NOTE_AFTER_BYTES
        await trio.sleep(10)
        assert len(bench.log.noted_at_flush) == 1, "a bound on what a start has to read"
        await trio.sleep(50)
        assert len(bench.log.noted_at_flush) == 1
        nursery.cancel_scope.cancel()
    assert on_disk(bench.disk) == DelayProgress({}, NOTE_AFTER_BYTES)


async def test_a_broker_that_never_delivered_notes_nothing(
    bench: Bench, autojump_clock: trio.testing.MockClock
) -> None:
    """Its store stays as Java left it."""
    service, _ = bench.life()
    bench.log.wrote_offset = 10 * NOTE_AFTER_BYTES
    with trio.move_on_after(100):
        await service.run()
    await service.finish()
    assert bench.log.noted_at_flush == []
    assert on_disk(bench.disk) is None


async def test_a_full_disk_leaves_the_older_note_and_is_tried_again(
    bench: Bench, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    service, offsets = bench.life()
    await service.is_anchored()
    capacity = bench.disk.capacity_bytes
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        offsets.offset_table[2] = 7
        bench.disk.capacity_bytes = 0
        await trio.sleep(10.5)
        assert on_disk(bench.disk) == DelayProgress({}, 0)
        bench.disk.capacity_bytes = capacity
        offsets.offset_table[2] = 8
        await trio.sleep(10)
        nursery.cancel_scope.cancel()
    assert on_disk(bench.disk) == DelayProgress({2: 8}, 0)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_a_log_that_cannot_be_synced_ends_it_and_leaves_the_older_note(bench: Bench) -> None:
    service, offsets = bench.life()
    await service.is_anchored()
    offsets.offset_table[2] = 7
    bench.log.is_broken = True
    with pytest.raises(StoreError):
        await service.finish()
    assert on_disk(bench.disk) == DelayProgress({}, 0)


async def test_an_end_notes_offsets_that_came_from_java(bench: Bench) -> None:
    """Java's file has no physical offset; with ours the next start reads only the log past it."""
    service, offsets = bench.life()
    offsets.offset_table[3] = 4
    bench.log.wrote_offset = 77
    await service.finish()
    assert on_disk(bench.disk) == DelayProgress({3: 4}, 77)
