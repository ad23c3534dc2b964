"""Queues are synced by time, and the checkpoint says only what was durable when it was written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise

import attrs
import pytest
import trio
import trio.testing

from rocketpy.errors import DescriptorShortageError, StoreError
from rocketpy.store.recovery.checkpoint import DurableEnds, StoreCheckpoint, load_checkpoint
from rocketpy.store.services.flush_consume_queue import (
    CHECKPOINT_BYTES,
    CHECKPOINT_BYTES_MIN,
    CHECKPOINT_SECONDS,
    FlushConsumeQueueService,
)
from rocketpy.testing.sim.disk import SimDisk
from tests.turns import run_in_turn

PER_FLUSH = 3


@attrs.define(eq=False)
class Range:
    queues: list[int]
    is_last: bool
    table: Queues

    def sync(self) -> None:
        if self.table.during_sync is not None:
            self.table.during_sync()


@attrs.define(eq=False)
class Log:
    """How far the log is written."""

    wrote_timestamp_ms: int = 0
    wrote_offset: int = 0
    flushed_offset: int = 0


@attrs.define(eq=False)
class Queues:
    """Queues by number, with how many pages of each are not durable."""

    unflushed: dict[int, int] = attrs.Factory(dict)
    flushed: list[list[int]] = attrs.Factory(list)
    during_sync: Callable[[], None] | None = None
    log: Log = attrs.Factory(lambda: Log())
    unit_count: int = 3
    ends_burst: Callable[[], None] | None = None
    can_flush_log: bool = True

    def end_burst(self) -> None:
        if self.ends_burst is not None:
            self.ends_burst()

    async def flush_log(self, physical_end: int) -> None:
        if self.can_flush_log:
            self.log.flushed_offset = max(self.log.flushed_offset, physical_end)

    def begin_flush(self, *, least_pages: int = 0) -> Range | None:
        chosen = [queue for queue, pages in self.unflushed.items() if pages >= least_pages][:PER_FLUSH]
        for queue in chosen:
            del self.unflushed[queue]
        return Range(chosen, not self.unflushed, self) if chosen else None

    def end_flush(self, flush_range: Range, /, *, is_synced: bool) -> None:
        if is_synced:
            self.flushed.append(flush_range.queues)


def service(
    queues: Queues,
    disk: SimDisk,
    checkpoint: StoreCheckpoint | None = None,
    *,
    flush_log: Callable[[int], Awaitable[None]] | None = None,
) -> FlushConsumeQueueService:
    return FlushConsumeQueueService(
        queues=queues,
        checkpoint=checkpoint or StoreCheckpoint(disk, "/checkpoint"),
        run_blocking=run_in_turn,
        commit_log=queues.log,
        end_burst=queues.end_burst,
        flush_log=flush_log or queues.flush_log,
        interval_ms=1_000,
        thorough_interval_ms=60_000,
        least_pages=2,
    )


def durable_offset(disk: SimDisk) -> int:
    """Up to where all was durable, as the checkpoint says."""
    ends = load_checkpoint(disk, "/checkpoint").ends
    assert ends is not None
    return ends.durable_offset


async def test_while_messages_come_a_checkpoint_follows_every_few_seconds(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What was stored since the last one is what a restart after a kill must read again."""
    queues, disk = Queues({1: 1}, log=Log(5, 0, 0), unit_count=30), SimDisk()
    async with trio.open_nursery() as nursery:
        await nursery.start(service(queues, disk).run)
        queues.log.wrote_offset = CHECKPOINT_BYTES_MIN
        await trio.sleep(CHECKPOINT_SECONDS - 0.5)
        assert not disk.exists("/checkpoint")
        await trio.sleep(1)
        assert load_checkpoint(disk, "/checkpoint").ends == DurableEnds(CHECKPOINT_BYTES_MIN, CHECKPOINT_BYTES_MIN, 30)
        write_count = disk.calls["write"]
        queues.log.wrote_offset += CHECKPOINT_BYTES_MIN - 1
        await trio.sleep(50)
        assert disk.calls["write"] == write_count, "a few messages are not worth a flush of all queues"
        queues.log.wrote_offset += 1
        await trio.sleep(CHECKPOINT_SECONDS)
        assert durable_offset(disk) == 2 * CHECKPOINT_BYTES_MIN
        nursery.cancel_scope.cancel()


async def test_much_that_comes_at_once_does_not_wait_for_the_interval(autojump_clock: trio.testing.MockClock) -> None:
    queues, disk = Queues(unit_count=30), SimDisk()
    async with trio.open_nursery() as nursery:
        await nursery.start(service(queues, disk).run)
        queues.log.wrote_offset = CHECKPOINT_BYTES
        await trio.sleep(1.1)
        ends = load_checkpoint(disk, "/checkpoint").ends
        assert ends == DurableEnds(CHECKPOINT_BYTES, CHECKPOINT_BYTES, 30)
        queues.log.wrote_offset *= 2  # while it grows so fast the service looks four times a second
        await trio.sleep(0.3)
        assert durable_offset(disk) == 2 * CHECKPOINT_BYTES
        nursery.cancel_scope.cancel()


async def test_what_a_start_has_walked_is_covered_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """Killed before its first checkpoint, a store without one of ours would walk its whole log again."""
    size = CHECKPOINT_BYTES_MIN
    queues, disk = Queues(dict.fromkeys(range(5), 0), log=Log(5, size, size), unit_count=30), SimDisk()
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        await nursery.start(service(queues, disk).run)
        assert not disk.exists("/checkpoint"), "the start does not wait for it"
        await trio.testing.wait_all_tasks_blocked()
        assert trio.current_time() == began
        assert queues.flushed == [[0, 1, 2], [3, 4]]
        assert load_checkpoint(disk, "/checkpoint").ends == DurableEnds(size, size, 30)
        write_count = disk.calls["write"]
        await trio.sleep(50)
        assert disk.calls["write"] == write_count, "once"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("covered", [1, CHECKPOINT_BYTES_MIN])
async def test_a_short_walk_is_worth_no_checkpoint_at_once(
    autojump_clock: trio.testing.MockClock, covered: int
) -> None:
    size, disk = CHECKPOINT_BYTES_MIN, SimDisk()
    checkpoint = StoreCheckpoint(disk, "/checkpoint", ends=DurableEnds(covered, covered, 1))
    queues = Queues({1: 1}, log=Log(5, size, size), unit_count=30)
    async with trio.open_nursery() as nursery:
        await nursery.start(service(queues, disk, checkpoint).run)
        await trio.sleep(50)
        assert not disk.exists("/checkpoint")
        nursery.cancel_scope.cancel()


async def test_a_shortage_at_the_start_leaves_the_checkpoint_to_the_interval(
    autojump_clock: trio.testing.MockClock,
) -> None:
    size, disk = CHECKPOINT_BYTES_MIN, SimDisk()
    queues = Queues({1: 1}, log=Log(5, size, size), unit_count=30)

    def no_descriptor() -> None:
        queues.during_sync = None
        raise DescriptorShortageError("cannot open", path="/queue", reason="simulated limit")

    queues.during_sync = no_descriptor
    async with trio.open_nursery() as nursery:
        await nursery.start(service(queues, disk).run)
        await trio.sleep(CHECKPOINT_SECONDS - 0.5)
        assert not disk.exists("/checkpoint")
        await trio.sleep(1)
        assert load_checkpoint(disk, "/checkpoint").ends == DurableEnds(size, size, 30)
        nursery.cancel_scope.cancel()


async def test_after_a_slow_flush_the_next_one_waits_no_longer_than_the_interval(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """With thousands of queues a flush takes long, and processor time of the sends."""
    queues, disk = Queues(unit_count=30), SimDisk()
    began: list[float] = []
    took_s = 0.5

    async def slow_flush(physical_end: int) -> None:
        began.append(trio.current_time())
        await trio.sleep(took_s)
        queues.log.flushed_offset = physical_end

    flusher = service(queues, disk, flush_log=slow_flush)
    async with trio.open_nursery() as nursery:
        await nursery.start(flusher.run)
        for _ in range(600):
            queues.log.wrote_offset += CHECKPOINT_BYTES
            took_s = 0.5 if trio.current_time() < 30 else 3.0
            await trio.sleep(0.1)
        nursery.cancel_scope.cancel()
    pauses = {round(after - before, 1) for before, after in pairwise(began)}
    quick = [after - before for before, after in pairwise(began) if after < 30]
    slow = [after - before for before, after in pairwise(began) if before > 31]
    assert len(quick) > 5, pauses
    assert len(slow) > 1, pauses
    assert all(2.5 <= pause <= 3 for pause in quick), "the flush, four times as long, and the tick"
    assert all(8 <= pause <= 8.5 for pause in slow), "the flush, the interval, and the tick"


async def test_a_thorough_flush_ends_under_load_and_says_what_it_began_with() -> None:
    """Queues that get units during the flush are left to the next one, and their time is not claimed."""
    queues, disk = Queues(dict.fromkeys(range(5), 0), log=Log(5, 500, 400)), SimDisk()

    def more() -> None:
        queues.log.wrote_timestamp_ms += 1
        queues.unflushed.update(dict.fromkeys(range(100, 104), 0))

    queues.during_sync = more
    await service(queues, disk).flush_thoroughly()
    assert {0, 1, 2, 3, 4} <= {each for flushed in queues.flushed for each in flushed}
    assert load_checkpoint(disk, "/checkpoint").logics_msg_timestamp_ms == 5


async def test_units_and_offset_are_captured_before_the_flush() -> None:
    """What comes meanwhile is not durable when it ends: a torn unit would be trusted."""
    queues, disk = Queues({1: 1}, log=Log(5, 500, 500), unit_count=30), SimDisk()

    def more() -> None:
        queues.log.wrote_offset = queues.log.flushed_offset = 900
        queues.unit_count = 70

    queues.during_sync = more
    await service(queues, disk).flush_thoroughly()
    assert load_checkpoint(disk, "/checkpoint").ends == DurableEnds(900, 500, 30)


async def test_units_of_queues_that_are_deleted_meanwhile_do_not_count_as_durable() -> None:
    queues, disk = Queues({1: 1}, log=Log(5, 500, 500), unit_count=30), SimDisk()
    checkpoint = StoreCheckpoint(disk, "/checkpoint")
    checkpoint.units_removed(4)  # before they were counted
    queues.during_sync = lambda: checkpoint.units_removed(20)
    await service(queues, disk, checkpoint).flush_thoroughly()
    assert load_checkpoint(disk, "/checkpoint").ends == DurableEnds(500, 500, 10)


async def test_a_burst_that_is_partly_in_the_log_ends_before_the_checkpoint_says_where_units_end() -> None:
    """A long burst is in the log before its units are: they would be missing where recovery begins."""
    queues, disk = Queues({1: 1}, log=Log(5, 500, 500)), SimDisk()

    def end_burst() -> None:
        queues.log.wrote_offset = queues.log.flushed_offset = 600
        queues.unflushed[2] = 1

    queues.ends_burst = end_burst
    await service(queues, disk).flush_thoroughly()
    assert queues.flushed == [[1, 2]]
    assert durable_offset(disk) == 600


async def test_a_failed_sync_leaves_the_checkpoint_alone() -> None:
    queues, disk = Queues({1: 1}, log=Log(5, 500, 400)), SimDisk()

    def fail() -> None:
        raise StoreError("cannot sync", path="/queue")

    queues.during_sync = fail
    with pytest.raises(StoreError):
        await service(queues, disk).flush_thoroughly()
    assert not disk.exists("/checkpoint")


async def test_the_number_of_units_belongs_to_an_offset_of_the_log(autojump_clock: trio.testing.MockClock) -> None:
    """While the log is not durable up to where the units were counted, the checkpoint keeps the smaller number."""
    queues, disk = Queues({1: 1}, log=Log(5, 500, 400), unit_count=30, can_flush_log=False), SimDisk()
    async with trio.open_nursery() as nursery:
        await nursery.start(service(queues, disk).run)
        await trio.sleep(60.5)
        assert load_checkpoint(disk, "/checkpoint").ends == DurableEnds(400, 400, 0)
        queues.log.wrote_offset, queues.unit_count = 900, 70
        queues.log.flushed_offset = 600
        await trio.sleep(1)
        assert load_checkpoint(disk, "/checkpoint").ends == DurableEnds(600, 500, 30)
        queues.log.flushed_offset = 900
        await trio.sleep(1)
        assert load_checkpoint(disk, "/checkpoint").ends == DurableEnds(600, 500, 30)
        await trio.sleep(60)
        assert load_checkpoint(disk, "/checkpoint").ends == DurableEnds(900, 900, 70)
        nursery.cancel_scope.cancel()
