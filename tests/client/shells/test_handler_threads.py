"""Handlers in threads: which cancellation leaves a thread, and how many are left at most."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import trio

from rocketpy.client.shells import handler_threads as module
from rocketpy.client.shells.handler_threads import HandlerThreads
from tests.patience import PATIENCE_SECONDS, until


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Set when handlers may end."""
    event = threading.Event()
    yield event
    event.set()


async def test_a_handler_whose_time_is_over_is_left_and_ends_later(
    release: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    threads = HandlerThreads()

    def fail() -> None:
        release.wait(PATIENCE_SECONDS)
        raise ZeroDivisionError("late")

    with trio.move_on_after(0.05) as limit:
        await threads.call(fail)
    assert limit.cancelled_caught
    assert threads.left_count == 1
    release.set()
    await until(lambda: threads.left_count == 0)
    await until(lambda: caplog.records)
    assert "has ended, its result is ignored" in caplog.text
    assert "ZeroDivisionError: late" in caplog.text


async def test_any_other_cancellation_waits_for_the_handler() -> None:
    threads = HandlerThreads()
    begun, ended = threading.Event(), threading.Event()

    def handler() -> None:
        begun.set()
        ended.wait(PATIENCE_SECONDS)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(threads.call, handler)
        await until(begun.is_set)
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await trio.sleep(0.02)
            assert threads.left_count == 0
            ended.set()
    with trio.CancelScope() as scope:
        scope.cancel()
        await threads.call(ended.clear)
    assert ended.is_set(), "what is cancelled before does not begin"


async def test_results_and_failures_are_those_of_the_function() -> None:
    threads = HandlerThreads()
    assert await threads.call(pow, 2, 3) == 8
    with pytest.raises(ZeroDivisionError):
        await threads.call(divmod, 1, 0)


async def test_the_threads_that_are_left_are_bounded(
    release: threading.Event, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "LEFT_THREADS_MAX", 2)
    threads = HandlerThreads()
    for _ in range(2):
        with trio.move_on_after(0.01):
            await threads.call(release.wait, PATIENCE_SECONDS)
    assert threads.left_count == 2
    assert "further ones are waited for" in caplog.text
    begun = threading.Event()

    def short() -> str:
        begun.set()
        release.wait(PATIENCE_SECONDS)
        return "waited for"

    async def release_soon() -> None:
        await until(begun.is_set)
        await trio.sleep(0.05)
        release.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(release_soon)
        with trio.move_on_after(0.01):
            assert await threads.call(short) == "waited for"
    await until(lambda: threads.left_count == 0)


async def test_a_handler_that_was_left_before_its_thread_began_never_begins() -> None:
    threads = HandlerThreads()
    call = module.HandlerCall(threads, pytest.fail, ("begun",))
    threads.leave(call)
    assert call.run() is None
    assert threads.left_count == 0
