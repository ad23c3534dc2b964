"""One sync serves all waiting requests, a timer answers those that wait too long, and a failed sync answers none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import attrs
import outcome
import pytest
import trio
import trio.testing

from rocketpy.errors import StoreError
from rocketpy.runner import BeginBlocking
from rocketpy.store.recovery.checkpoint import StoreCheckpoint
from rocketpy.store.results import PutMessageStatus
from rocketpy.store.services.group_commit import FlushWait, GroupCommitService
from rocketpy.testing.sim.disk import SimDisk

T = TypeVar("T")
OK, TIMEOUT = PutMessageStatus.PUT_OK, PutMessageStatus.FLUSH_DISK_TIMEOUT


@attrs.define(eq=False)
class Range:
    end_offset: int
    store_timestamp_ms: int
    log: Log

    def sync(self) -> None:
        self.log.sync_count += 1
        if self.log.is_broken:
            raise StoreError("cannot sync", path="/log")


@attrs.define(eq=False)
class Log:
    """A log of which only the ends matter; ``pending`` is what the burst has not written yet."""

    wrote: int = 0
    pending: int = 0
    flushed: int = 0
    timestamp_ms: int = 0
    sync_count: int = 0
    is_broken: bool = False
    ends: list[bool] = attrs.Factory(list)

    def end_burst(self) -> None:
        self.wrote += self.pending
        self.pending = 0

    def begin_flush(self, *, least_pages: int = 0) -> Range | None:
        return Range(self.wrote, self.timestamp_ms, self) if self.wrote > self.flushed else None

    def end_flush(self, flush_range: Range, /, *, is_synced: bool) -> None:
        self.ends.append(is_synced)
        if is_synced:
            self.flushed = flush_range.end_offset


@attrs.define(eq=False)
class Bench:
    """A service with what surrounds it. Syncs wait while ``may_sync`` is not set."""

    log: Log = attrs.Factory(Log)
    checkpoint: StoreCheckpoint = attrs.Factory(lambda: StoreCheckpoint(SimDisk(), "/checkpoint"))
    may_sync: trio.Event = attrs.Factory(trio.Event)
    answers: list[object] = attrs.Factory(list)

    def service(self, timeout_ms: int = 5_000, begin_blocking: BeginBlocking | None = None) -> GroupCommitService:
        return GroupCommitService(
            commit_log=self.log,
            checkpoint=self.checkpoint,
            run_blocking=self.run_blocking,
            begin_blocking=begin_blocking,
            sync_flush_timeout_ms=timeout_ms,
            end_burst=self.log.end_burst,
            flush_replies=lambda: self.answers.append("flush"),
        )

    async def run_blocking(self, function: Callable[..., T], /, *arguments: object) -> T:
        with trio.CancelScope(shield=True):
            await self.may_sync.wait()
        return function(*arguments)

    def put(self, service: GroupCommitService, name: str, size: int = 100) -> None:
        self.log.pending += size
        service.wait_durable(self.log.wrote + self.log.pending, lambda status: self.answers.append((name, status)))


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_one_sync_serves_all_waiting_requests(bench: Bench, nursery: trio.Nursery) -> None:
    service = bench.service()
    await nursery.start(service.run)
    bench.put(service, "a")
    bench.put(service, "b")
    assert bench.answers == [], "never from inside the call"
    await trio.testing.wait_all_tasks_blocked()
    bench.put(service, "c")
    bench.log.timestamp_ms = 7
    assert bench.answers == []
    bench.may_sync.set()
    await trio.testing.wait_all_tasks_blocked()
    assert bench.answers == [("a", OK), ("b", OK), "flush", ("c", OK), "flush"]
    assert bench.log.sync_count == 2
    assert bench.checkpoint.physic_msg_timestamp_ms == 7
    assert service.statistics().answered_count == 3


async def test_the_checkpoint_gets_the_time_from_before_the_flush(bench: Bench, nursery: trio.Nursery) -> None:
    service = bench.service()
    await nursery.start(service.run)
    bench.log.timestamp_ms = 5
    bench.put(service, "a")
    await trio.testing.wait_all_tasks_blocked()
    bench.log.timestamp_ms = 9
    bench.may_sync.set()
    await trio.testing.wait_all_tasks_blocked()
    assert bench.checkpoint.physic_msg_timestamp_ms == 5


async def test_what_is_durable_already_is_answered_without_a_sync(bench: Bench, nursery: trio.Nursery) -> None:
    service = bench.service()
    bench.log.wrote = bench.log.flushed = 100
    await nursery.start(service.run)
    bench.put(service, "a", 0)
    await trio.testing.wait_all_tasks_blocked()
    assert bench.answers == [("a", OK), "flush"]
    assert bench.log.sync_count == 0


async def test_a_slow_sync_is_a_timeout_and_goes_on(
    bench: Bench, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    service = bench.service(timeout_ms=1_000)
    await nursery.start(service.run)
    bench.put(service, "a")
    await trio.sleep(0.5)
    bench.put(service, "b")
    await trio.sleep(0.6)
    assert bench.answers == [("a", TIMEOUT), "flush"]
    await trio.sleep(0.5)
    assert bench.answers == [("a", TIMEOUT), "flush", ("b", TIMEOUT), "flush"]
    bench.may_sync.set()
    await trio.sleep(0.1)
    assert bench.log.flushed == 200
    assert bench.answers == [("a", TIMEOUT), "flush", ("b", TIMEOUT), "flush"]
    bench.put(service, "c")
    await trio.sleep(0.1)
    assert bench.answers[-2:] == [("c", OK), "flush"]
    assert service.statistics() == attrs.evolve(service.statistics(), waiting=0, timeout_count=2, answered_count=3)


async def test_it_says_who_waits_and_for_how_long_the_disk_is_silent(
    bench: Bench, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    service = bench.service()
    await nursery.start(service.run)
    assert service.wait() == FlushWait(0, 0.0)
    bench.put(service, "a")
    await trio.sleep(2)
    bench.put(service, "b")
    assert service.wait() == FlushWait(2, 2.0)
    bench.may_sync.set()
    await trio.sleep(0.001)
    assert service.wait() == FlushWait(0, 0.0)
    nursery.cancel_scope.cancel()


async def test_after_a_failed_sync_no_request_is_called_back(bench: Bench) -> None:
    service = bench.service()
    bench.log.is_broken = True
    with pytest.RaisesGroup(pytest.RaisesGroup(StoreError)):
        async with trio.open_nursery() as nursery:
            await nursery.start(service.run)
            bench.put(service, "a")
            await trio.testing.wait_all_tasks_blocked()
            bench.put(service, "b")
            bench.may_sync.set()
    assert bench.answers == []
    assert bench.log.ends == [False]
    assert service.statistics().waiting == 0


async def test_cancelled_it_waits_for_its_sync(bench: Bench) -> None:
    service = bench.service()
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        bench.put(service, "a")
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        bench.may_sync.set()
    assert bench.log.ends == [True]


async def test_cancelled_before_its_sync_is_called_it_gives_the_range_back(bench: Bench) -> None:
    service = bench.service()
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        bench.put(service, "a")
        bench.log.end_burst()
        service.begin_wanted()
    assert bench.log.ends == [False]
    assert (bench.log.sync_count, bench.answers) == (0, [])


# ---- with a thread of its own ----------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Thread:
    """Calls that are begun and end when a test says so."""

    bench: Bench
    calls: list[tuple[Callable[[], None], Callable[[outcome.Outcome[None]], None]]] = attrs.Factory(list)

    def __enter__(self) -> GroupCommitService:
        return self.bench.service(begin_blocking=self.begin)

    def __exit__(self, *failure: object) -> None:
        while self.calls:  # the service waits for them, also when a test has failed
            self.end_call()

    def begin(self, function: Callable[[], T], then: Callable[[outcome.Outcome[T]], None], /) -> None:
        self.bench.answers.append("sync begins")
        self.calls.append((function, then))  # type: ignore[arg-type]

    def end_call(self) -> None:
        ((function, then),) = self.calls
        self.calls.clear()
        then(outcome.capture(function))


async def test_a_sync_begins_at_the_end_of_the_burst_and_not_before(bench: Bench, nursery: trio.Nursery) -> None:
    thread = Thread(bench)
    with thread as service:
        await nursery.start(service.run)
        bench.put(service, "a")
        bench.put(service, "b")
        assert thread.calls == [], "the burst is not written"
        bench.log.end_burst()
        service.begin_wanted()
        assert len(thread.calls) == 1
        await trio.testing.wait_all_tasks_blocked()
        assert len(thread.calls) == 1, "the task finds nothing left to do"
        bench.put(service, "c")
        bench.log.end_burst()
        service.begin_wanted()
        assert len(thread.calls) == 1, "one at a time"
        thread.end_call()
        assert bench.answers == ["sync begins", "sync begins", ("a", OK), ("b", OK), "flush"]


async def test_the_next_sync_begins_before_those_of_the_last_are_answered(bench: Bench, nursery: trio.Nursery) -> None:
    thread = Thread(bench)
    with thread as service:
        await nursery.start(service.run)
        bench.put(service, "a")
        bench.log.end_burst()
        service.begin_wanted()
        bench.put(service, "b")
        thread.end_call()
        assert bench.answers == ["sync begins", "sync begins", ("a", OK), "flush"]
        assert (bench.log.wrote, bench.log.flushed) == (200, 100), "with what was still in the burst"
        thread.end_call()
        assert bench.answers[4:] == [("b", OK), "flush"]
        assert bench.log.flushed == 200


async def test_after_a_failure_no_sync_begins(bench: Bench) -> None:
    thread = Thread(bench)
    with thread as service:
        bench.log.is_broken = True
        with pytest.RaisesGroup(pytest.RaisesGroup(StoreError)):
            async with trio.open_nursery() as nursery:
                await nursery.start(service.run)
                bench.put(service, "a")
                bench.log.end_burst()
                service.begin_wanted()
                bench.put(service, "b")
                thread.end_call()
                assert service.statistics().waiting == 0
                bench.put(service, "c")
                bench.log.end_burst()
                service.begin_wanted()
        bench.put(service, "d")
        service.begin_wanted()
        assert bench.answers == ["sync begins"]
        assert bench.log.sync_count == 1
        assert bench.log.ends == [False]


async def test_a_bug_in_an_answer_ends_the_service(bench: Bench) -> None:
    thread = Thread(bench)
    with thread as service:

        def fail(status: PutMessageStatus) -> None:
            raise KeyError("a bug")

        with pytest.RaisesGroup(pytest.RaisesGroup(KeyError)):
            async with trio.open_nursery() as nursery:
                await nursery.start(service.run)
                bench.log.pending = 100
                service.wait_durable(100, fail)
                await trio.testing.wait_all_tasks_blocked()
                thread.end_call()


async def test_cancelled_it_waits_for_its_thread_and_begins_no_other_sync(bench: Bench) -> None:
    thread = Thread(bench)
    with thread as service:
        async with trio.open_nursery() as outer:
            async with trio.open_nursery() as nursery:
                await nursery.start(service.run)
                bench.put(service, "a")
                await trio.testing.wait_all_tasks_blocked()
                bench.put(service, "b")

                async def end_later() -> None:
                    await trio.testing.wait_all_tasks_blocked()
                    assert bench.log.ends == []
                    thread.end_call()

                outer.start_soon(end_later)
                nursery.cancel_scope.cancel()
            assert bench.log.ends == [True], "not before the sync has ended"
        assert bench.answers == ["sync begins", ("a", OK), "flush"]
        assert service.statistics().waiting == 0
