"""The log is synced by time, thoroughly now and then, and the checkpoint follows."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rocketpy.errors import StoreError
from rocketpy.store.services.flush_real_time import FlushRealTimeService
from tests.store.services.test_group_commit import Bench, Log, Range


class PagedLog(Log):
    """Counts pages as the log does."""

    def begin_flush(self, *, least_pages: int = 0) -> Range | None:
        if self.wrote // 4096 - self.flushed // 4096 < least_pages:
            return None
        return super().begin_flush(least_pages=least_pages)


def service(bench: Bench, *, is_timed: bool = True) -> FlushRealTimeService:
    return FlushRealTimeService(
        commit_log=bench.log,
        checkpoint=bench.checkpoint,
        run_blocking=bench.run_blocking,
        interval_ms=500,
        thorough_interval_ms=10_000,
        least_pages=4,
        is_timed=is_timed,
    )


async def test_a_few_pages_wait_for_the_thorough_flush(autojump_clock: trio.testing.MockClock) -> None:
    bench = Bench(log=PagedLog())
    bench.may_sync.set()
    async with trio.open_nursery() as nursery:
        await nursery.start(service(bench).run)
        bench.log.wrote, bench.log.timestamp_ms = 4 * 4096, 5
        await trio.sleep(0.6)
        assert (bench.log.flushed, bench.checkpoint.physic_msg_timestamp_ms) == (4 * 4096, 5)
        bench.log.wrote, bench.log.timestamp_ms = 6 * 4096 + 1, 6
        await trio.sleep(9)
        assert bench.log.flushed == 4 * 4096
        await trio.sleep(0.6)
        assert (bench.log.flushed, bench.checkpoint.physic_msg_timestamp_ms) == (6 * 4096 + 1, 6)
        await trio.sleep(60)
        assert bench.log.sync_count == 2, "nothing to do is no sync"
        nursery.cancel_scope.cancel()


async def test_a_failed_sync_is_final(autojump_clock: trio.testing.MockClock) -> None:
    bench = Bench()
    bench.may_sync.set()
    bench.log.is_broken = True
    bench.log.wrote = 100_000
    with pytest.RaisesGroup(StoreError):
        async with trio.open_nursery() as nursery:
            await nursery.start(service(bench).run)
    assert bench.log.ends == [False]
    assert bench.checkpoint.physic_msg_timestamp_ms == 0
