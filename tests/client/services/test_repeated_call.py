"""When calls are made: at intervals, on demand, never at once and never too often."""

from __future__ import annotations

import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.services.repeated_call import RepeatedCallService


class Calls:
    """Notes when it was called, in seconds from the beginning; each call lasts so long."""

    def __init__(self, *, last_s: float = 0.0) -> None:
        self.at: list[float] = []
        self._begun = trio.current_time()
        self._last_s = last_s

    async def __call__(self) -> None:
        self.at.append(trio.current_time() - self._begun)
        await trio.sleep(self._last_s)


async def test_every_interval_and_soon_after_a_wake_up(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    calls = Calls()
    service = RepeatedCallService(calls, interval_s=30)
    await nursery.start(service.run)
    await trio.sleep(65)
    service.wake()
    service.wake()
    await trio.sleep(31)
    assert calls.at == [30, 60, 65, 95]


async def test_a_wake_up_during_a_call_is_not_lost(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    calls = Calls(last_s=5)
    service = RepeatedCallService(calls, interval_s=30)
    service.wake()  # also before it runs
    await nursery.start(service.run)
    await trio.sleep(1)
    service.wake()
    await trio.sleep(20)
    assert calls.at == [0, 5]


async def test_with_a_pause_the_interval_stays_what_it_is(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    calls = Calls()
    service = RepeatedCallService(calls, interval_s=30, pause_s=1)
    await nursery.start(service.run)
    await trio.sleep(62)
    service.wake()
    await trio.sleep(10)
    assert calls.at == [29, 59, 62]


async def test_never_more_often_than_the_pause_allows(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    calls = Calls()
    service = RepeatedCallService(calls, interval_s=30, pause_s=1)
    await nursery.start(service.run)
    for _ in range(1000):  # every send to a dead broker doubts its route
        service.wake()
        await trio.sleep(0.01)
    assert 10 <= len(calls.at) <= 11


async def test_an_interval_shorter_than_the_pause_is_the_pause(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    calls = Calls()
    await nursery.start(RepeatedCallService(calls, interval_s=0.001, pause_s=1).run)
    await trio.sleep(3.5)
    assert calls.at == [0, 1, 2, 3]
