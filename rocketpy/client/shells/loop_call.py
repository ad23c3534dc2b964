"""Calls into Trio from outside: each runs in a task, which has ended when its caller continues.

A caller that gives up cancels its call, and continues once that has ended. Rule: a call belongs to a nursery. When the
nursery is cancelled, or has ended, the call ends with :class:`~rocketpy.errors.LocalProtocolError`, never with a wait
for ever.

A method that can be begun without a task (:mod:`rocketpy.client.begun`) takes none.

A call runs in the context variables of its caller, although its task has run other calls before.

Everything here is for the thread of the loop, but the making of a :class:`LoopCall`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from typing import Any, Generic, Protocol, TypeVar

import outcome
import trio

from rocketpy.client.begun import Begun
from rocketpy.errors import LocalProtocolError

T = TypeVar("T")

CANCELLED = "the client was closed while the call was in progress"
CLOSED = "the client is closed"

IDLE_TASKS_MAX = 1024
"""Tasks of a nursery that wait for a next call; further ones end with their call."""


class Abandonable(Protocol):
    """A call that can be ended by the end of its block."""

    def abandon(self) -> None:
        """End the call."""
        ...


class Closable(Protocol):
    """A block that can be left in place of the program."""

    async def close(self) -> None:
        """Leave it."""
        ...


class LoopCall(Generic[T]):
    """One call, and what becomes of it."""

    __slots__ = (
        "_among",
        "_begun",
        "_task",
        "arguments",
        "begin",
        "context",
        "function",
        "has_ended",
        "on_end",
        "result",
    )

    def __init__(
        self,
        function: Callable[..., Awaitable[T]],
        arguments: Sequence[object],
        on_end: Callable[[LoopCall[T]], object],
        *,
        begin: Callable[..., Begun[T] | None] | None = None,
    ) -> None:
        """``on_end`` is called in the loop's thread, exactly once, when :attr:`result` is set.

        ``begin`` is the form of the function that takes no task, if it has one.
        """
        self.function = function
        self.arguments = arguments
        self.begin = begin
        self.context = copy_context()
        self.result: outcome.Outcome[T] | None = None
        self.has_ended = False
        self.on_end = on_end
        self._task: _CallTask | None = None
        self._begun: Begun[T] | None = None
        self._among: dict[Abandonable, None] | None = None  # what it is noted in while it is under way

    def unwrap(self) -> T:
        """Return or raise what the function did; LocalProtocolError if it was cancelled or never started."""
        if self.result is None:
            raise LocalProtocolError(CLOSED if self._task is None and self._begun is None else CANCELLED)
        return self.result.unwrap()

    def hand_back(self, lost: Callable[[T], object] | None) -> None:
        """Call a function with the result, if there is one: the caller does not see it."""
        if lost is not None and isinstance(self.result, outcome.Value):
            lost(self.result.unwrap())

    def abandon(self) -> None:
        """Cancel the call, or never let it start."""
        if self.has_ended:
            return
        if self._task is not None:
            self._task.scope.cancel()
            return
        if self._begun is not None:
            self._begun.abandon()
        self.end()

    # ---- for its nursery ------------------------------------------------------------------------------------------

    def follow(self, begun: Begun[T], among: dict[Abandonable, None]) -> None:
        """End with what was begun without a task; while it is under way the call is noted among others."""
        self._begun = begun
        if begun.is_done:
            self._take_result()
        else:
            among[self] = None
            self._among = among
            begun.on_done(self._take_result)

    def fail(self, failure: outcome.Error) -> None:
        """End with a failure."""
        self.result = failure
        self.end()

    def _take_result(self) -> None:
        assert self._begun is not None
        self.result = outcome.capture(self._begun.result)
        self.end()

    # ---- for its task ---------------------------------------------------------------------------------------------

    def run_by(self, task: _CallTask) -> None:
        """Note the task that runs it."""
        self._task = task

    def end(self) -> None:
        """Tell its caller."""
        self.has_ended = True
        if self._among is not None:
            del self._among[self]
        self.on_end(self)


class CallTasks:
    """The calls of one nursery, and tasks for them, which are kept: a new task takes longer than most calls."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.home = copy_context()
        """The context of tasks that are idle: that of a call would stay alive."""
        self.idle: list[_CallTask] = []
        self.begun: dict[Abandonable, None] = {}
        """Calls under way that were begun without a task."""
        self.scopes: dict[Closable, None] = {}
        """Blocks that are held open in the nursery, in the order in which they were entered."""
        self._is_closed = False

    def start(self, call: LoopCall[Any]) -> None:
        """Start a call, unless it was abandoned. A nursery that has ended ends it."""
        if call.has_ended:
            return
        if call.begin is not None and not self._is_closed:
            begun: outcome.Outcome[Begun[Any] | None] = outcome.capture(call.context.run, call.begin, *call.arguments)
            if isinstance(begun, outcome.Error):
                call.fail(begun)
                return
            if begun.value is not None:
                call.follow(begun.value, self.begun)
                return
        if self.idle:
            self.idle.pop().take(call)
        else:
            task = _CallTask(self, call)
            try:
                call.context.run(self.nursery.start_soon, task.run)
            except RuntimeError:  # Trio's own: the nursery is closed
                call.end()
            else:
                call.run_by(task)

    def close(self) -> None:
        """End the calls that were begun without a task, as the end of the nursery ends the others."""
        self._is_closed = True
        for call in list(self.begun):
            call.abandon()


class _CallTask:
    """A task that runs one call after the other, until one of them is cancelled."""

    __slots__ = ("_call", "_task", "_tasks", "scope")

    def __init__(self, tasks: CallTasks, call: LoopCall[Any]) -> None:
        self.scope = trio.CancelScope()
        self._tasks = tasks
        self._call: LoopCall[Any] | None = call
        self._task: trio.lowlevel.Task | None = None

    def take(self, call: LoopCall[Any]) -> None:
        """Run a call; only while it is idle."""
        assert self._task is not None
        self._call = call
        self._task.context = call.context  # for its next steps
        call.run_by(self)
        trio.lowlevel.reschedule(self._task)

    async def run(self) -> None:
        """Run calls until one is cancelled, or there are enough tasks that wait."""
        idle = self._tasks.idle
        try:
            with self.scope:
                self._task = trio.lowlevel.current_task()
                while self._call is not None:
                    call = self._call
                    result: outcome.Outcome[Any] = await outcome.acapture(call.function, *call.arguments)
                    if isinstance(result, outcome.Error):
                        result = without_cancellation(result)
                    call.result = result
                    self._call = None
                    call.end()
                    del call, result
                    if not self.scope.cancel_called and len(idle) < IDLE_TASKS_MAX:
                        idle.append(self)
                        self._task.context = self._tasks.home.copy()
                        await trio.lowlevel.wait_task_rescheduled(self._leave)
        finally:
            if self._call is not None:
                self._call.end()

    def _leave(self, _: object) -> trio.lowlevel.Abort:
        self._tasks.idle.remove(self)
        return trio.lowlevel.Abort.SUCCEEDED


def without_cancellation(failure: outcome.Error) -> outcome.Error:
    """Return a failure without the cancellations that nurseries group with it; raise it if it is nothing else."""
    if isinstance(failure.error, trio.Cancelled):
        raise failure.error
    if isinstance(failure.error, BaseExceptionGroup):
        rest = failure.error.split(trio.Cancelled)[1]
        if rest is None:
            raise failure.error
        if rest is not failure.error:
            return outcome.Error(rest)
    return failure
