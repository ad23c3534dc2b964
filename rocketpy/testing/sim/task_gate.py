"""Tasks that can be held and go on later: a process under SIGSTOP, within one Trio run.

Every task that is started through a :class:`TaskGate`, and every task that such a task starts, belongs to it. While the
gate is closed none of them takes a step: a value or exception that arrives for a task is kept until the gate opens.
Time goes on meanwhile, so after it deadlines may have passed, and what others have sent is there, as for a process that
was stopped.

Rule: a gate is opened before its run ends, because a cancellation waits for it too.

It needs :class:`TaskGates` among the instruments of the run. Trio announces each new task before it takes its first
coroutine method, and so the coroutine can be wrapped there; all other calls are Trio's public ones.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar, copy_context
from typing import Any

import trio

_gate: ContextVar[TaskGate | None] = ContextVar("_gate", default=None)


class TaskGate:
    """The tasks of one process."""

    def __init__(self) -> None:
        self.is_closed = False
        self._held: list[_GatedCoroutine] = []

    def start_soon(self, nursery: trio.Nursery, function: Callable[..., Awaitable[object]], *arguments: object) -> None:
        """Start a task in a nursery; it and the tasks that it starts belong to the gate."""
        context = copy_context()
        context.run(_gate.set, self)
        context.run(nursery.start_soon, function, *arguments)

    def close(self) -> None:
        """Hold every task at its next step. Idempotent."""
        self.is_closed = True

    def open(self) -> None:
        """Let all go on, in the order in which they were held. Idempotent."""
        self.is_closed = False
        held, self._held = self._held, []
        for coroutine in held:
            trio.lowlevel.reschedule(coroutine.task)

    def hold(self, coroutine: _GatedCoroutine) -> None:
        """Remember a task to be rescheduled; for the task's coroutine."""
        self._held.append(coroutine)


class TaskGates(trio.abc.Instrument):
    """Puts every task that belongs to a gate behind it."""

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        """Wrap the coroutine of a new task."""
        gate = task.context.get(_gate)
        if gate is not None:
            task.coro = _GatedCoroutine(gate, task, task.coro)  # type: ignore[assignment]


class _GatedCoroutine:
    """A task's coroutine, as Trio drives it."""

    def __init__(self, gate: TaskGate, task: trio.lowlevel.Task, inner: Coroutine[Any, Any, Any]) -> None:
        self.task = task
        self._gate = gate
        self._inner = inner
        self._resume: tuple[Callable[[Any], object], Any] | None = None  # the step that was held
        self._hold: Coroutine[Any, Any, Any] | None = None

    def send(self, value: Any) -> object:
        """Take a step, now or once the gate is open."""
        return self._step(self._inner.send, value)

    def throw(self, failure: BaseException) -> object:
        """Take a step with an exception, now or once the gate is open."""
        return self._step(self._inner.throw, failure)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def _step(self, step: Callable[[Any], object], value: Any) -> object:
        if self._hold is None and not self._gate.is_closed:
            return step(value)
        if self._hold is None:
            self._resume = (step, value)
        else:
            self._hold.close()
        # While the gate is closed the task waits for nothing but it. A cancellation stays pending in Trio until then.
        if self._gate.is_closed:
            self._gate.hold(self)
            self._hold = trio.lowlevel.wait_task_rescheduled(_refuse_abort)  # noqa: ASYNC105 - driven by hand here
            return self._hold.send(None)
        assert self._resume is not None
        (step, value), self._resume, self._hold = self._resume, None, None
        return step(value)


def _refuse_abort(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED
