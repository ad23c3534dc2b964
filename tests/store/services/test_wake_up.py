"""A wait ends by time or by call, and no call is lost."""

from __future__ import annotations

import trio
import trio.testing

from rocketpy.store.services.wake_up import WakeUp


async def test_a_wait_ends_by_time(autojump_clock: trio.testing.MockClock) -> None:
    begin = trio.current_time()
    await WakeUp().wait(3)
    assert trio.current_time() == begin + 3


async def test_a_wait_ends_by_call(autojump_clock: trio.testing.MockClock) -> None:
    wake_up, begin = WakeUp(), trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wake_up.wait, 3)
        await trio.sleep(1)
        wake_up.wake()
    assert trio.current_time() == begin + 1


async def test_a_call_while_nobody_waits_ends_the_next_wait_and_only_that(
    autojump_clock: trio.testing.MockClock,
) -> None:
    wake_up, begin = WakeUp(), trio.current_time()
    wake_up.wake()
    wake_up.wake()
    await wake_up.wait(3)
    assert trio.current_time() == begin
    await wake_up.wait(3)
    assert trio.current_time() == begin + 3
