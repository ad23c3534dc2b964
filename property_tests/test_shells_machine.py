"""Programs of asyncio and plain code, whose clients come, go, are cancelled, forked and left, do what Trio's do.

The machine itself is in ``shells_machine.py``; here are deliberate bugs, each of which it must find by a script, and
the common ones by chance. Most of them are what was there once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import settings

from property_tests.hunts import Bug, Function, MachineTests
from property_tests.shells_machine import STEPS, AsyncioShells, PlainShells, Promise, Shells
from rocketpy.client.shells import asyncio_shell, blocking_shell, guest_host
from rocketpy.client.shells.guest_host import GuestHost
from rocketpy.client.shells.guest_interrupts import GuestInterrupts
from rocketpy.client.shells.held_scope import HeldScope
from rocketpy.client.shells.loop_call import CallTasks
from rocketpy.client.shells.loop_thread import LoopThread

TestAsyncio = AsyncioShells.TestCase
TestAsyncio.settings = settings(stateful_step_count=20)

TestPlain = PlainShells.TestCase
TestPlain.settings = settings(stateful_step_count=20)

# ---- the changes ----------------------------------------------------------------------------------------------------


def _does_nothing(_: Function) -> Function:
    return lambda *arguments: None


def _does_nothing_async(_: Function) -> Function:
    async def nothing(*arguments: object) -> None:
        pass

    return nothing


def _lets_the_next_begin(release: Function) -> Function:
    """The run is taken out of the table before it has ended."""

    async def release_wrongly(self: GuestHost, user: Any) -> None:
        vars(guest_host)["_thread"].host = None
        await release(self, user)

    return release_wrongly


def _keeps_a_run_that_starts(release: Function) -> Function:
    """A client that gives up while it starts takes only its name off it."""

    async def release_wrongly(self: GuestHost, user: Any) -> None:
        if vars(self)["_is_watching_loop"]:
            await release(self, user)
        else:
            vars(self)["_users"].remove(user)

    return release_wrongly


def _gives_up(_: Function) -> Function:
    def give_up(self: GuestHost) -> None:
        raise RuntimeError("Attempted to call run() from inside a run()")

    return give_up


def _does_not_wait(_: Function) -> Function:
    async def abandon(self: GuestHost, call: Any) -> None:
        call.abandon()

    return abandon


def _swallows(handle: Function) -> Function:
    async def handle_wrongly(*arguments: Any) -> Any:
        try:
            return await handle(*arguments)
        except ZeroDivisionError:
            return ""

    return handle_wrongly


def _never(_: object) -> Any:
    return property(lambda self: False)


# ---- scripts --------------------------------------------------------------------------------------------------------


def clients_come_and_go(state: AsyncioShells) -> None:
    """At every distance from each other, and given up at every moment."""
    state.first_start()
    state.opens(0)
    for step in range(STEPS):
        state.come_and_go(3, [step, 2 * step, 0, 0, 0, step, step + 1, step], 0b110)
        state.come_and_go(1, [0, 0, 0, 0, 0, 0, 0, step], 0b001)
    state.closes(0)
    for step in range(STEPS):
        state.come_and_go(3, [step, 2 * step, 0, 0, 0, step, step + 1, step], 0b010)
        state.come_and_go(1, [0, 0, 0, 0, 0, 0, 0, step], 0b001)
        state.second_loop()


def blocks_that_are_given_up(state: AsyncioShells) -> None:
    state.first_start()
    state.opens(0)
    for step in range(STEPS):
        state.gives_up(0, step)


def loops_are_left(state: AsyncioShells) -> None:
    state.first_start()
    for steps in range(4):
        state.opens(0)
        state.opens(1)
        state.hangs(2, 1)
        state.loop_is_left(steps, bool(steps))
        state.opens(0)
        state.opens(1)
        state.waits(2, 1)
        state.loop_ends()


def commits_of_others(state: Shells) -> None:
    state.first_start()
    state.opens(0)
    for worker in (0, 1, 1, 0, 0, 2):
        state.calls(worker, 0, "takes")
        for each in (1, 2, 0, 1):
            state.calls(each, 0, "commits")


def handlers_that_fail(state: Shells) -> None:
    state.first_start()
    state.opens(0)
    for raises in (False, True, False):
        state.handles(1, 0, raises)


def blocks_that_end_under_calls(state: Shells) -> None:
    state.first_start()
    for hangs in (state.hangs, state.waits):
        state.opens(0)
        hangs(1, 0)
        hangs(2, 0)
        state.closes(0)
        state.calls(1, 0, "doubles")


def calls_that_are_cancelled(state: AsyncioShells) -> None:
    state.first_start()
    state.opens(0)
    for hangs in (state.hangs, state.waits):
        hangs(1, 0)
        hangs(2, 0)
        state.is_cancelled(1)
        state.calls(1, 0, "doubles")
        state.is_cancelled(2)


def interrupts(state: AsyncioShells) -> None:
    state.first_start()
    state.is_interrupted()
    state.opens(0)
    state.hangs(1, 0)
    state.is_interrupted()
    state.calls(2, 0, "doubles")


def forks(state: Shells) -> None:
    state.first_start()
    state.forks(0)
    state.opens(0)
    state.opens(1)
    state.hangs(2, 1)
    state.forks(0)
    state.calls(1, 0, "doubles")
    state.closes(1)


OF_BOTH: Mapping[str, Callable[[Any], Bug]] = {
    "the task of Trio says who commits": lambda shell: Bug(
        shell, "form_for_caller", _does_nothing, (Promise.SAME,), commits_of_others, is_common=False
    ),
    "the end of a block leaves it open": lambda _: Bug(
        HeldScope, "leave", _does_nothing_async, (Promise.LEFT,), blocks_that_end_under_calls
    ),
    "calls without a task outlive their block": lambda _: Bug(
        CallTasks, "close", _does_nothing, (Promise.ENDS,), blocks_that_end_under_calls, is_common=False
    ),
}

OF_ASYNCIO: Mapping[str, Bug] = {
    "the next client does not wait for the end of the run": Bug(
        GuestHost,
        "release",
        _lets_the_next_begin,
        (Promise.SAME, Promise.ENDS, Promise.LOOPS),
        clients_come_and_go,
        is_common=False,  # the next client has to come in the moment in which the last one goes
    ),
    "an open that is cancelled keeps its run": Bug(
        GuestHost,
        "release",
        _keeps_a_run_that_starts,
        (Promise.LOOPS, Promise.SAME, Promise.ENDS),
        clients_come_and_go,
        is_common=False,
    ),
    "an open that is cancelled as it ends stays open": Bug(
        HeldScope, "is_entered", _never, (Promise.LEFT,), blocks_that_are_given_up, is_common=False
    ),
    "the run of a closed loop stays": Bug(GuestHost, "_end_orphan", _gives_up, (Promise.LOOPS,), loops_are_left),
    "the end of a loop leaves clients open": Bug(
        GuestHost, "_close_users", _does_nothing_async, (Promise.LEFT,), loops_are_left
    ),
    "Trio takes Ctrl-C": Bug(
        GuestInterrupts, "install", _does_nothing, (Promise.INTERRUPT,), interrupts, is_common=False
    ),
    "a child has its parent's run": Bug(guest_host, "_forget_run", _does_nothing, (Promise.CHILD,), forks),
    "a cancelled call is not waited for": Bug(
        GuestHost, "_abandoned", _does_not_wait, (Promise.SAME,), calls_that_are_cancelled, is_common=False
    ),
    "a handler that fails has succeeded": Bug(
        vars(asyncio_shell)["_Handler"], "__call__", _swallows, (Promise.SAME,), handlers_that_fail, is_common=False
    ),
    **{name: bug(asyncio_shell) for name, bug in OF_BOTH.items()},
}

OF_PLAIN: Mapping[str, Bug] = {
    "a child waits for its parent's thread": Bug(
        LoopThread, "check_process", _does_nothing, (Promise.CHILD,), forks, is_common=False
    ),
    **{name: bug(blocking_shell) for name, bug in OF_BOTH.items()},
}


class TestAsyncioScripts(MachineTests):
    machine, bugs, hunt_steps = AsyncioShells, OF_ASYNCIO, 20


class TestPlainScripts(MachineTests):
    machine, bugs, hunt_steps = PlainShells, OF_PLAIN, 20
