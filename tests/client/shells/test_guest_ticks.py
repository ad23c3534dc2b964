"""A guest of asyncio that waits without a thread: it is woken by sockets, deadlines, other threads and its host."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import outcome
import pytest
import trio

from rocketpy.client.shells.guest_ticks import GuestClock, GuestTicks
from tests.patience import PATIENCE_SECONDS


@attrs.define
class Guest:
    """A run, and what it may be asked."""

    ticks: GuestTicks
    token: trio.lowlevel.TrioToken
    nursery: trio.Nursery
    thread_count: int = 0


@asynccontextmanager
async def a_guest(soon: Callable[[GuestTicks], Any] | None = None) -> AsyncIterator[Guest]:
    loop = asyncio.get_running_loop()
    ticks = GuestTicks(loop)
    ready: asyncio.Future[tuple[trio.lowlevel.TrioToken, trio.Nursery]] = loop.create_future()
    done: asyncio.Future[outcome.Outcome[None]] = loop.create_future()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            ready.set_result((trio.lowlevel.current_trio_token(), nursery))
            await trio.sleep_forever()

    def end(result: outcome.Outcome[None]) -> None:
        ticks.close()
        done.set_result(result)

    trio.lowlevel.start_guest_run(
        main,
        run_sync_soon_threadsafe=loop.call_soon_threadsafe,
        run_sync_soon_not_threadsafe=ticks.soon if soon is None else soon(ticks),
        done_callback=end,
        clock=ticks.clock,
        host_uses_signal_set_wakeup_fd=True,
    )
    token, nursery = await ready
    guest = Guest(ticks, token, nursery)
    await parked()
    try:
        yield guest
    finally:
        nursery.cancel_scope.cancel()
        (await done).unwrap()


async def parked() -> None:
    """Let the guest run until it has nothing to do."""
    for _ in range(20):
        await asyncio.sleep(0)


def run(main: Any) -> Any:
    return asyncio.run(asyncio.wait_for(main, PATIENCE_SECONDS))


def test_the_installed_trio_is_one_whose_guests_need_no_thread() -> None:
    async def main() -> None:
        before = set(threading.enumerate())
        async with a_guest() as guest:
            assert guest.ticks.is_threadless
            await asyncio.sleep(0.01)
            assert set(threading.enumerate()) <= before

    run(main())


def test_deadlines_wake_a_parked_guest_the_earlier_one_first() -> None:
    async def main() -> None:
        order: list[str] = []
        ended = asyncio.get_running_loop().create_future()
        scope = trio.CancelScope()

        async def wait() -> None:
            scope.deadline = trio.current_time() + 4 * PATIENCE_SECONDS
            with scope:
                await trio.sleep_forever()
            order.append("later")
            ended.set_result(None)

        async def sleep() -> None:
            await trio.sleep(0.02)
            order.append("earlier")
            scope.deadline = trio.current_time() + 0.02  # else it would not end before the test does

        async with a_guest() as guest:
            guest.nursery.start_soon(wait)
            await parked()
            guest.nursery.start_soon(sleep)
            await ended
        assert order == ["earlier", "later"]

    run(main())


def test_a_deadline_that_the_host_sets_counts() -> None:
    async def main() -> None:
        scope = trio.CancelScope()
        ended = asyncio.get_running_loop().create_future()

        async def wait() -> None:
            with scope:
                await trio.sleep_forever()
            ended.set_result(None)

        async with a_guest() as guest:
            guest.nursery.start_soon(wait)
            await parked()
            scope.deadline = guest.ticks.clock.current_time() + 0.01
            await ended

    run(main())


def test_another_thread_wakes_a_parked_guest() -> None:
    async def main() -> None:
        called = asyncio.get_running_loop().create_future()
        async with a_guest() as guest:
            thread = threading.Thread(target=guest.token.run_sync_soon, args=(called.set_result, None))
            thread.start()
            await called
            thread.join()

    run(main())


@pytest.mark.parametrize("is_told", [False, True])
def test_the_host_wakes_a_parked_guest_whether_it_says_so_before_or_not(is_told: bool) -> None:
    async def main() -> None:
        event = trio.Event()
        woken = asyncio.get_running_loop().create_future()

        async def wait() -> None:
            await event.wait()
            woken.set_result(None)

        async with a_guest() as guest:
            guest.nursery.start_soon(wait)
            await parked()
            if is_told:
                guest.ticks.wake()
            event.set()
            await woken

    run(main())


def test_a_busy_guest_lets_asyncio_have_its_turn() -> None:
    async def main() -> None:
        async def spin() -> None:
            while True:
                await trio.lowlevel.checkpoint()

        async with a_guest() as guest:
            guest.nursery.start_soon(spin)
            for _ in range(100):
                await asyncio.sleep(0)

    run(main())


def test_without_the_names_of_trio_the_guest_waits_in_a_thread() -> None:
    async def main() -> None:
        def hidden(ticks: GuestTicks) -> Callable[[Callable[[], object]], None]:
            return lambda tick: ticks.soon(lambda: tick())  # what it belongs to is not to be seen

        ended = asyncio.get_running_loop().create_future()

        async def sleep() -> None:
            await trio.sleep(0.01)
            ended.set_result(None)

        async with a_guest(hidden) as guest:
            assert not guest.ticks.is_threadless
            guest.nursery.start_soon(sleep)
            await ended

    run(main())


def test_the_clock_keeps_a_guest_awake_only_while_it_parks() -> None:
    clock = GuestClock()
    now = clock.current_time()
    assert 9 < clock.deadline_to_sleep_time(now + 10) <= 10
    assert clock.sleep_seconds is None
    clock.parks = True
    assert clock.deadline_to_sleep_time(now + 10) == 0
    assert clock.sleep_seconds is not None
    assert 9 < clock.sleep_seconds <= 10
    assert clock.deadline_to_sleep_time(now - 1) < 0
