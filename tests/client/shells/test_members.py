"""Kinds of members, and scopes held for callers outside of Trio."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from rocketpy.client import AdminClient, Client, Message, MessageStream, Producer, SendResult
from rocketpy.client.shells.loop_call import CallTasks
from rocketpy.client.shells.members import HeldScope, Kind, handler_parameters, has_waiting_members, is_own, kind_of
from rocketpy.errors import LocalProtocolError
from tests.client.shells.shell_cases import Pending, Role


@pytest.mark.parametrize(
    ("owner", "name", "kind"),
    [
        (Role, "double", Kind.CALL),
        (Role, "opened", Kind.OPEN),
        (Role, "count", Kind.ITERATE),
        (Role, "plain", Kind.PLAIN),
        (Role, "name", Kind.VALUE),
        (Client, "producer", Kind.OPEN),
        (Client, "admin", Kind.PLAIN),
        (Client, "client_id", Kind.VALUE),
        (Producer, "send", Kind.CALL),
        (AdminClient, "topics", Kind.VALUE),
    ],
)
def test_a_member_is_of_a_kind(owner: type, name: str, kind: Kind) -> None:
    assert kind_of(owner, name) is kind


def test_what_waits_needs_a_shell_and_values_do_not() -> None:
    waiting = (Role, Pending, Client, Producer, AdminClient, MessageStream)
    assert [each for each in waiting if not has_waiting_members(each)] == []
    assert [each for each in (Message, SendResult, str, list, type(None)) if has_waiting_members(each)] == []


def test_the_parameters_of_handlers_are_found_by_their_types() -> None:
    assert handler_parameters(Role.run) == {0, "handler"}
    assert handler_parameters(Role.double) == set()


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

    with trio.move_on_after(0.01):
        await HeldScope(opening).enter(CallTasks(nursery))
    assert events == ["ended"]


async def test_a_scope_that_cannot_be_entered_raises_its_own_exception(nursery: trio.Nursery) -> None:
    @asynccontextmanager
    async def opening() -> AsyncIterator[None]:
        raise ZeroDivisionError("planted")
        yield

    with pytest.raises(ZeroDivisionError, match="planted"):
        await HeldScope(opening).enter(CallTasks(nursery))


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
