"""Scopes held for callers outside of Trio."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from rocketpy.client.shells.held_scope import HeldScope, is_own
from rocketpy.client.shells.loop_call import CallTasks
from rocketpy.errors import LocalProtocolError


async def test_a_held_scope_is_entered_and_left_in_one_task(nursery: trio.Nursery) -> None:
    tasks: list[trio.lowlevel.Task] = []

    @asynccontextmanager
    async def opening() -> AsyncIterator[int]:
        tasks.append(trio.lowlevel.current_task())
        with trio.CancelScope():  # must be left by the task that has entered it
            yield 7
        tasks.append(trio.lowlevel.current_task())

    held = HeldScope(opening)
    with pytest.raises(LocalProtocolError, match="closed"):
        _ = held.calls
    assert await held.enter(CallTasks(nursery)) == 7
    assert isinstance(held.calls, CallTasks)
    await held.leave(None)
    await held.leave(None)  # by whoever was not the first
    assert tasks[0] is tasks[1]
    with pytest.raises(LocalProtocolError, match="closed"):
        _ = held.calls


async def test_entering_that_is_cancelled_leaves_nothing(nursery: trio.Nursery) -> None:
    events: list[str] = []

    @asynccontextmanager
    async def opening() -> AsyncIterator[None]:
        try:
            await trio.sleep_forever()
            yield
        finally:
            events.append("ended")

    async with trio.open_nursery() as entering:
        entering.start_soon(HeldScope(opening).enter, CallTasks(nursery))
        await trio.testing.wait_all_tasks_blocked()
        entering.cancel_scope.cancel()
    assert events == ["ended"]


async def test_a_scope_is_closed_after_those_within_it_the_last_first(nursery: trio.Nursery) -> None:
    events: list[str] = []

    @asynccontextmanager
    async def opening(name: str) -> AsyncIterator[None]:
        yield
        await trio.lowlevel.checkpoint()  # not cancelled
        events.append(name)
        if name == "two":
            raise ZeroDivisionError

    outer = HeldScope(lambda: opening("outer"))
    await outer.enter(CallTasks(nursery))
    inner = [HeldScope(lambda name=name: opening(name)) for name in ("one", "two", "three", "left")]  # type: ignore[misc]
    for each in inner:
        await each.enter(outer.calls)
    await inner.pop().leave(None)
    with pytest.raises(ZeroDivisionError):
        await outer.close()
    assert events == ["left", "three", "two", "one", "outer"]


async def test_the_end_of_everything_ends_a_held_scope() -> None:
    @asynccontextmanager
    async def opening() -> AsyncIterator[None]:
        yield

    held = HeldScope(opening)
    async with trio.open_nursery() as nursery:
        await held.enter(CallTasks(nursery))
        nursery.cancel_scope.cancel()
    with pytest.raises(LocalProtocolError, match="closed"):
        await held.leave(None)


def test_an_exception_is_known_as_the_blocks_own() -> None:
    mine = StopIteration()
    remade = RuntimeError()
    remade.__cause__ = mine
    assert is_own(mine, mine)
    assert is_own(remade, mine)
    assert not is_own(RuntimeError(), None)
    assert not is_own(RuntimeError(), mine)
