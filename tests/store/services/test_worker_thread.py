"""The worker thread returns results and failures, one call at a time, and cannot be abandoned."""

from __future__ import annotations

import threading

import pytest
import trio

from rocketpy.store.services.worker_thread import open_worker_thread


async def test_calls_return_in_another_thread() -> None:
    async with open_worker_thread("worker") as run_blocking:
        assert await run_blocking(divmod, 7, 2) == (3, 1)
        names = [await run_blocking(lambda: threading.current_thread().name) for _ in range(3)]
    assert names == ["worker"] * 3


async def test_failures_are_raised() -> None:
    async with open_worker_thread("worker") as run_blocking:
        with pytest.raises(ZeroDivisionError):
            await run_blocking(divmod, 1, 0)
        assert await run_blocking(divmod, 1, 1) == (1, 0)


async def test_calls_of_several_tasks_wait_for_each_other() -> None:
    at_once: list[int] = []
    running = 0

    def call() -> None:
        nonlocal running
        running += 1
        at_once.append(running)
        running -= 1

    async with open_worker_thread("worker") as run_blocking, trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(run_blocking, call)
    assert at_once == [1] * 10


async def test_a_cancelled_call_is_waited_for() -> None:
    may_end = threading.Event()
    ended = []

    def call() -> int:
        may_end.wait()
        ended.append(True)
        return 5

    async with open_worker_thread("worker") as run_blocking:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def cancel() -> None:
                    scope.cancel()
                    may_end.set()

                assert await run_blocking(call) == 5
        assert ended == [True]
        with trio.CancelScope() as scope:
            scope.cancel()
            await run_blocking(call)
        assert ended == [True], "one that was cancelled before is not begun"


async def test_the_thread_ends_with_the_block() -> None:
    async with open_worker_thread("worker") as run_blocking:
        thread = await run_blocking(threading.current_thread)
    thread.join(10)
    assert not thread.is_alive()
