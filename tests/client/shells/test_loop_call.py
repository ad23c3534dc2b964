"""Calls from outside of Trio: their tasks are kept, and no call is left without an end."""

from __future__ import annotations

import gc
import weakref
from contextvars import ContextVar

import pytest
import trio
import trio.testing

from rocketpy.client.shells.loop_call import CallTasks, LoopCall
from rocketpy.errors import LocalProtocolError

USER: ContextVar[str] = ContextVar("USER", default="nobody")


class Ends:
    """Calls that have ended, in their order."""

    def __init__(self) -> None:
        self.calls: list[LoopCall[object]] = []

    def call(self, function: object, *arguments: object) -> LoopCall[object]:
        return LoopCall(function, arguments, self.calls.append)  # type: ignore[arg-type]


async def current() -> trio.lowlevel.Task:
    return trio.lowlevel.current_task()


async def hang() -> None:
    await trio.sleep_forever()


async def run(tasks: CallTasks, call: LoopCall[object]) -> object:
    tasks.start(call)
    await trio.testing.wait_all_tasks_blocked()
    return call.unwrap()


async def test_one_task_runs_one_call_after_the_other_and_several_run_at_once(nursery: trio.Nursery) -> None:
    ends, tasks = Ends(), CallTasks(nursery)
    first = await run(tasks, ends.call(current))
    assert await run(tasks, ends.call(current)) is first
    hanging = ends.call(hang)
    tasks.start(hanging)
    assert await run(tasks, ends.call(current)) is not first
    assert not hanging.has_ended
    nursery.cancel_scope.cancel()


async def test_each_call_runs_in_the_context_of_its_caller_and_an_idle_task_keeps_nothing_of_it(
    nursery: trio.Nursery,
) -> None:
    class Argument:
        pass

    async def who(argument: Argument) -> str:
        before = USER.get()
        USER.set("changed")
        await trio.lowlevel.checkpoint()
        return before

    ended: list[object] = []
    tasks, kept = CallTasks(nursery), []
    for user in ("first", "second"):
        USER.set(user)
        argument = Argument()
        call: LoopCall[object] = LoopCall(who, [argument], lambda _: ended.append(1))
        assert await run(tasks, call) == user
        kept += [weakref.ref(argument), weakref.ref(call.context)]
        del argument, call
    gc.collect()
    assert [each() for each in kept] == [None] * 4
    nursery.cancel_scope.cancel()


async def test_a_call_raises_what_its_function_raises_and_its_task_goes_on(nursery: trio.Nursery) -> None:
    async def fail() -> None:
        raise BaseExceptionGroup("planted", [KeyboardInterrupt()])

    ends, tasks = Ends(), CallTasks(nursery)
    with pytest.raises(BaseExceptionGroup, match="planted"):
        await run(tasks, ends.call(fail))
    assert isinstance(await run(tasks, ends.call(current)), trio.lowlevel.Task)
    nursery.cancel_scope.cancel()


async def test_an_abandoned_call_ends_alone(nursery: trio.Nursery) -> None:
    ends, tasks = Ends(), CallTasks(nursery)
    one, two = ends.call(hang), ends.call(hang)
    tasks.start(one)
    tasks.start(two)
    await trio.testing.wait_all_tasks_blocked()
    one.abandon()
    await trio.testing.wait_all_tasks_blocked()
    assert ends.calls == [one]
    with pytest.raises(LocalProtocolError, match="closed while the call was in progress"):
        one.unwrap()
    nursery.cancel_scope.cancel()


async def test_a_call_that_has_ended_cannot_be_abandoned_any_more(nursery: trio.Nursery) -> None:
    """Its task runs another one by now."""
    ends, tasks = Ends(), CallTasks(nursery)
    done, later = ends.call(current), ends.call(hang)
    await run(tasks, done)
    tasks.start(later)
    done.abandon()
    await trio.testing.wait_all_tasks_blocked()
    assert not later.has_ended
    nursery.cancel_scope.cancel()


async def test_a_call_that_is_abandoned_before_it_starts_never_runs(nursery: trio.Nursery) -> None:
    ends, tasks = Ends(), CallTasks(nursery)
    call = ends.call(current)
    call.abandon()
    with pytest.raises(LocalProtocolError, match="the client is closed"):
        await run(tasks, call)
    assert ends.calls == [call]


async def test_a_call_that_is_abandoned_as_it_completes_keeps_its_result(nursery: trio.Nursery) -> None:
    ends, tasks = Ends(), CallTasks(nursery)
    calls: list[LoopCall[object]] = []

    async def complete() -> int:
        calls[0].abandon()
        return 7

    calls.append(ends.call(complete))
    assert await run(tasks, calls[0]) == 7
    assert isinstance(await run(tasks, ends.call(current)), trio.lowlevel.Task)
    nursery.cancel_scope.cancel()


async def test_the_end_of_the_nursery_ends_calls_that_run_that_wait_and_that_come_later() -> None:
    ends = Ends()
    async with trio.open_nursery() as nursery:
        tasks = CallTasks(nursery)
        running = ends.call(hang)
        tasks.start(running)
        await run(tasks, ends.call(current))  # its task waits for another call now
        nursery.cancel_scope.cancel()
        during = ends.call(hang)
        tasks.start(during)
    later = ends.call(current)
    tasks.start(later)
    assert [each.has_ended for each in (running, during, later)] == [True] * 3
    for each in (running, during, later):
        with pytest.raises(LocalProtocolError):
            each.unwrap()
