"""Ctrl-C in a program that runs its loop without a runner: it ends the program, and never a tick of Trio."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest
import trio

from rocketpy.client.shells.guest_interrupts import GuestInterrupts
from tests.client.shells.test_guest_host import User, double
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("in_a_tick", [False, True])
def test_ctrl_c_ends_the_program_and_leaves_a_client_that_can_be_closed(
    loop: asyncio.AbstractEventLoop, in_a_tick: bool
) -> None:
    async def interrupt_in_trio() -> None:
        interrupt()
        done.append(True)  # not interrupted
        await trio.sleep_forever()

    async def main() -> None:
        host = await user.__aenter__()
        if in_a_tick:
            await host.call(interrupt_in_trio)
        interrupt()
        await asyncio.sleep(PATIENCE_SECONDS)

    async def close() -> None:
        assert user.host is not None
        assert await user.host.call(double, 1) == 2
        await user.close()

    user, done = User(), list[bool]()
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(main())
    assert done == [True] * in_a_tick
    loop.run_until_complete(close())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_program_stays() -> None:
    seen: list[int] = []
    interrupts = GuestInterrupts(lambda: seen.append(0))
    before = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        interrupts.install()
        interrupt()
        interrupts.remove()
        interrupt()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        interrupts.install()
        interrupt()
        interrupts.remove()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT, signal.SIGINT, 0]
