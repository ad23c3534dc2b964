"""Trio as a guest of asyncio: one run per loop, from the first client to the last."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import trio

from rocketpy.client.shells.guest_host import GuestHost
from tests.client.shells.shell_cases import Later
from tests.patience import PATIENCE_SECONDS


def run(main: Any) -> Any:
    return asyncio.run(asyncio.wait_for(main, PATIENCE_SECONDS))


async def double(number: int) -> int:
    await trio.sleep(0.001)
    return 2 * number


def test_a_release_that_is_cancelled_has_ended_the_run_all_the_same() -> None:
    async def main() -> None:
        host = await GuestHost.acquire()
        task = asyncio.ensure_future(host.release())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        other = await GuestHost.acquire()  # Trio would refuse a second run
        assert await other.call(double, 1) == 2
        await other.release()

    run(main())


def test_a_call_that_has_ended_is_forgotten() -> None:
    async def main() -> None:
        host = await GuestHost.acquire()
        try:
            for is_cancelled in (False, True):
                begun = Later(20)
                task = asyncio.ensure_future(host.call(trio.lowlevel.checkpoint, begin=lambda each=begun: each))
                await asyncio.sleep(0)
                assert len(host.tasks.begun) == 1
                if is_cancelled:
                    task.cancel()
                else:
                    begun.finish()
                await asyncio.wait([task])
                assert task.cancelled() is begun.was_abandoned is is_cancelled
                assert not host.tasks.begun
        finally:
            await host.release()

    run(main())
