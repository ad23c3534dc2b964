"""What is in the pool is committed by size and by time, and the flush is woken when something was."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

from rocketpy.errors import StoreError
from rocketpy.store.append.transient_store_pool import TransientStorePool
from rocketpy.store.services.commit_real_time import CommitRealTimeService

PAGE = 4096


@attrs.define(eq=False)
class Appender:
    """An appender of which only the ends matter."""

    pool: TransientStorePool
    wrote_offset: int = 0
    kept_count: int = 0
    commits: list[int] = attrs.Factory(list)  # up to where
    times: list[float] = attrs.Factory(list)
    is_broken: bool = False

    def keep_burst(self) -> None:
        self.kept_count += 1

    def end_burst(self) -> None:
        if self.is_broken:
            raise StoreError("cannot write", path="/log")
        self.commits.append(self.wrote_offset)
        self.times.append(trio.current_time())
        self.pool.committed_offset = self.wrote_offset


@attrs.define(eq=False)
class Bench:
    """The service between an appender and a flush."""

    pool: TransientStorePool = attrs.Factory(lambda: TransientStorePool(size_bytes=1 << 20, is_fail_fast=False))
    appender: Appender = attrs.Factory(lambda self: Appender(self.pool), takes_self=True)
    wakes: list[float] = attrs.Factory(list)

    def service(self, *, thorough_interval_ms: int = 200, least_pages: int = 4) -> CommitRealTimeService:
        return CommitRealTimeService(
            appender=self.appender,
            pool=self.pool,
            wake_flush=lambda: self.wakes.append(trio.current_time()),
            interval_ms=200,
            thorough_interval_ms=thorough_interval_ms,
            least_pages=least_pages,
        )

    def put(self, service: CommitRealTimeService, size: int) -> None:
        self.appender.wrote_offset += size
        service.end_burst()


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_a_few_bytes_are_committed_by_time(
    bench: Bench, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    service, begin = bench.service(), trio.current_time()
    await nursery.start(service.run)
    bench.put(service, 100)
    bench.put(service, 100)
    await trio.testing.wait_all_tasks_blocked()
    assert bench.appender.commits == []
    assert service.statistics().uncommitted_bytes == 200
    await trio.sleep(0.3)
    assert bench.appender.commits == [200]
    assert bench.appender.times == pytest.approx([begin + 0.2])
    assert bench.wakes == pytest.approx([begin + 0.2])
    assert bench.appender.kept_count == 2
    assert (service.statistics().uncommitted_bytes, service.statistics().commit_count) == (0, 1)


async def test_enough_pages_are_committed_at_once(
    bench: Bench, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    service, begin = bench.service(), trio.current_time()
    await nursery.start(service.run)
    await trio.sleep(0.01)
    bench.put(service, 3 * PAGE)
    await trio.testing.wait_all_tasks_blocked()
    assert bench.appender.commits == []
    bench.put(service, PAGE)
    await trio.testing.wait_all_tasks_blocked()
    assert bench.appender.commits == [4 * PAGE]
    assert bench.appender.times == pytest.approx([begin + 0.01])


async def test_nothing_to_commit_wakes_no_flush(
    bench: Bench, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    await nursery.start(bench.service().run)
    await trio.sleep(10)
    assert (bench.appender.commits, bench.wakes) == ([], [])


async def test_a_commit_that_fails_ends_the_service(bench: Bench, autojump_clock: trio.testing.MockClock) -> None:
    service = bench.service()
    bench.appender.is_broken = True
    bench.put(service, 10)
    with pytest.RaisesGroup(StoreError):
        async with trio.open_nursery() as nursery:
            await nursery.start(service.run)
    assert bench.wakes == []
