"""The worker thread reports results and failures on the loop, one call at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import outcome
import pytest
import trio

from rocketpy.runner import BeginBlocking
from rocketpy.store.services.worker_thread import open_worker_thread
from tests.patience import PATIENCE_SECONDS, until

T = TypeVar("T")


async def call(begin: BeginBlocking, function: Callable[[], T]) -> T:
    """Return what a call returns, in a task that waits for it."""
    outcomes: list[outcome.Outcome[T]] = []
    begin(function, outcomes.append)
    await until(lambda: outcomes)
    return outcomes[0].unwrap()


async def test_calls_run_in_the_thread_and_report_on_the_loop() -> None:
    loop, reported_in = threading.current_thread(), []
    async with open_worker_thread("worker") as begin:
        names = [await call(begin, lambda: threading.current_thread().name) for _ in range(3)]
        begin(lambda: None, lambda _: reported_in.append(threading.current_thread()))
        await until(lambda: reported_in)
    assert names == ["worker"] * 3
    assert reported_in == [loop]


async def test_failures_are_outcomes() -> None:
    async with open_worker_thread("worker") as begin:
        with pytest.raises(ZeroDivisionError):
            await call(begin, lambda: divmod(1, 0))
        assert await call(begin, lambda: divmod(1, 1)) == (1, 0), "and the next call is served"


async def test_the_loop_goes_on_during_a_call() -> None:
    async with open_worker_thread("worker") as begin:
        may_end, ended = threading.Event(), trio.Event()
        begin(lambda: may_end.wait(PATIENCE_SECONDS), lambda _: ended.set())
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        assert not ended.is_set()
        may_end.set()
        await ended.wait()


async def test_calls_wait_for_each_other_and_keep_their_order() -> None:
    at_once: list[int] = []
    running = 0

    def work() -> None:
        nonlocal running
        running += 1
        at_once.append(running)
        running -= 1

    ended: list[int] = []
    async with open_worker_thread("worker") as begin:
        for index in range(10):
            begin(work, lambda _, index=index: ended.append(index))  # type: ignore[misc]
        await until(lambda: len(ended) == 10)
    assert at_once == [1] * 10
    assert ended == list(range(10))


async def test_the_thread_ends_with_the_block() -> None:
    async with open_worker_thread("worker") as begin:
        thread = await call(begin, threading.current_thread)
    thread.join(10)
    assert not thread.is_alive()
