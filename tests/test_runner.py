"""Whatever waits for the disk off the loop is called the same way in production and in simulation."""

from __future__ import annotations

import threading

import pytest
import trio

from rocketpy.runner import RunBlocking, run_inline

RUNNERS: dict[str, RunBlocking] = {"a pool of threads": trio.to_thread.run_sync, "in place": run_inline}


@pytest.mark.parametrize("name", RUNNERS)
async def test_what_the_function_returns_comes_back(name: str) -> None:
    run = RUNNERS[name]
    assert await run(pow, 2, 10) == 1024
    assert await run(list) == []


@pytest.mark.parametrize("name", RUNNERS)
async def test_what_the_function_raises_comes_back_as_it_is(name: str) -> None:
    """The caller of a sync catches StoreError, not a group around it."""
    run = RUNNERS[name]
    with pytest.raises(ZeroDivisionError):
        await run(divmod, 1, 0)
    assert await run(pow, 2, 2) == 4, "and the next call is served"


@pytest.mark.parametrize("name", ["a pool of threads"])
async def test_the_loop_goes_on_meanwhile(name: str) -> None:
    run = RUNNERS[name]
    may_end = threading.Event()
    ended = trio.Event()

    async def wait() -> None:
        await run(may_end.wait, 20)
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        assert not ended.is_set()
        may_end.set()
    assert ended.is_set()


@pytest.mark.parametrize("name", ["a pool of threads"])
async def test_a_cancelled_wait_lasts_until_the_function_has_ended(name: str) -> None:
    """A sync that goes on after its service has gone would record an outcome without a reader."""
    run = RUNNERS[name]
    has_begun, may_end, has_ended = trio.Event(), threading.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()

    def work() -> None:
        token.run_sync_soon(has_begun.set)
        may_end.wait(20)
        has_ended.set()

    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            await run(work)

        nursery.start_soon(wait)
        await has_begun.wait()
        nursery.cancel_scope.cancel()
        may_end.set()
    assert has_ended.is_set()
