"""A wait ends by time or by call, and no call is lost; calls are repeated until there is no shortage."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rocketpy.errors import DescriptorShortageError, StoreError
from rocketpy.runner import run_inline
from rocketpy.store.services.waiting import SHORTAGE_PAUSE_SECONDS, WakeUp, call_until_done


async def test_a_wait_ends_by_time(autojump_clock: trio.testing.MockClock) -> None:
    begin = trio.current_time()
    await WakeUp().wait_until(trio.current_time() + 3)
    assert trio.current_time() == begin + 3


async def test_a_wait_ends_by_call(autojump_clock: trio.testing.MockClock) -> None:
    wake_up, begin = WakeUp(), trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wake_up.wait_until, begin + 3)
        await trio.sleep(1)
        wake_up.wake()
    assert trio.current_time() == begin + 1


async def test_a_call_without_a_waiter_ends_the_next_wait_and_only_that(
    autojump_clock: trio.testing.MockClock,
) -> None:
    wake_up, begin = WakeUp(), trio.current_time()
    wake_up.wake()
    wake_up.wake()
    await wake_up.wait_until(trio.current_time() + 3)
    assert trio.current_time() == begin
    await wake_up.wait_until(trio.current_time() + 3)
    assert trio.current_time() == begin + 3


async def test_a_call_is_repeated_until_it_meets_no_shortage(autojump_clock: trio.testing.MockClock) -> None:
    failures = [DescriptorShortageError("cannot open", path="/d")] * 3

    def call(path: str) -> str:
        if failures:
            raise failures.pop()
        return path

    began = trio.current_time()
    assert await call_until_done(run_inline, call, "/d") == "/d"
    assert trio.current_time() - began == pytest.approx(3 * SHORTAGE_PAUSE_SECONDS)


async def test_another_failure_is_final() -> None:
    def call() -> None:
        raise StoreError("the disk is gone", path="/d")

    with pytest.raises(StoreError, match="gone"):
        await call_until_done(run_inline, call)
