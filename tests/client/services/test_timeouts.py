"""Entries expire when their time has come, in order, and never after they were stopped."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.services.timeouts import Timeouts


class Entry:
    """Notes when it expired."""

    def __init__(self, log: list[tuple[str, float]], name: str) -> None:
        self._log = log
        self._name = name

    def expire(self) -> None:
        self._log.append((self._name, trio.current_time() - START))


START = 0.0


@pytest.fixture
async def timeouts() -> AsyncIterator[Timeouts]:
    global START
    service = Timeouts()
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        START = trio.current_time()
        yield service
        nursery.cancel_scope.cancel()


async def test_entries_expire_at_their_own_time(timeouts: Timeouts, autojump_clock: MockClock) -> None:
    log: list[tuple[str, float]] = []
    timeouts.start(Entry(log, "slow"), 3.0)
    await trio.sleep(0.5)
    timeouts.start(Entry(log, "quick"), 1.0)
    timeouts.start(Entry(log, "slower"), 3.0)
    await trio.sleep(10)
    assert [(name, round(at, 6)) for name, at in log] == [("quick", 1.5), ("slow", 3.0), ("slower", 3.5)]


async def test_a_stopped_entry_does_not_expire(timeouts: Timeouts, autojump_clock: MockClock) -> None:
    log: list[tuple[str, float]] = []
    first, second = Entry(log, "first"), Entry(log, "second")
    timeouts.start(first, 1.0)
    timeouts.start(second, 1.0)
    timeouts.stop(first, 1.0)
    await trio.sleep(2)
    timeouts.stop(second, 1.0)
    timeouts.stop(second, 7.0)
    assert [name for name, _ in log] == ["second"]


async def test_an_entry_may_start_another_one(timeouts: Timeouts, autojump_clock: MockClock) -> None:
    log: list[tuple[str, float]] = []

    class Again(Entry):
        def expire(self) -> None:
            super().expire()
            timeouts.start(Entry(log, "again"), 1.0)

    timeouts.start(Again(log, "once"), 1.0)
    await trio.sleep(5)
    assert [(name, round(at, 6)) for name, at in log] == [("once", 1.0), ("again", 2.0)]


async def test_requests_one_after_another_do_not_wake_the_service(
    timeouts: Timeouts, autojump_clock: MockClock
) -> None:
    """A sequence of sends has an empty queue between each two; the timer is set once per duration, not per send."""
    log: list[tuple[str, float]] = []
    woken = 0

    class Count(trio.abc.Instrument):
        def task_scheduled(self, task: trio.lowlevel.Task) -> None:
            nonlocal woken
            woken += "Timeouts.run" in task.name

    timeouts.start(Entry(log, "kept"), 5.0)
    await trio.testing.wait_all_tasks_blocked()
    trio.lowlevel.add_instrument(Count())
    for _ in range(100):
        entry = Entry(log, "short")
        timeouts.start(entry, 9.0)
        await trio.testing.wait_all_tasks_blocked()
        timeouts.stop(entry, 9.0)
    assert woken == 0
