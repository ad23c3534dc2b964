"""Cancellation at each checkpoint of a call: at the first, at the second, and so on until the call completes.

::

    async for attempt in cancelled_everywhere(lambda: producer.send(message)):
        assert attempt.was_cancelled or attempt.result is not None
        ...                                     whatever must hold after a cancelled call, and after the last one

The call is made again for each checkpoint. Where its task blocks in a checkpoint that cannot be cancelled, the
cancellation arrives at the next one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, TypeVar

import attrs
import trio

T = TypeVar("T")

CHECKPOINTS_MAX = 500
"""A call that never completes within so many is taken for one that swallows its cancellation, or polls."""


@attrs.frozen
class Attempt(Generic[T]):
    """One call; ``checkpoint`` counts from 1."""

    checkpoint: int
    was_cancelled: bool
    result: T | None


class _CancelAt(trio.abc.Instrument):
    """Cancels a scope when a task has reached a checkpoint that counts for the n-th time."""

    def __init__(
        self, task: trio.lowlevel.Task, scope: trio.CancelScope, checkpoint: int, counts: Callable[[], bool]
    ) -> None:
        self._task = task
        self._scope = scope
        self._left = checkpoint
        self._counts = counts

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task and self._counts():
            self._left -= 1
            if self._left == 0:
                self._scope.cancel()


async def cancelled_at(
    checkpoint: int, call: Callable[[], Awaitable[T]], counts: Callable[[], bool] = lambda: True
) -> Attempt[T]:
    """Make a call, in this task, and cancel it at one of its checkpoints: of those for which ``counts`` is true."""
    result: T | None = None
    with trio.CancelScope() as scope:
        instrument = _CancelAt(trio.lowlevel.current_task(), scope, checkpoint, counts)
        trio.lowlevel.add_instrument(instrument)
        try:
            result = await call()
        finally:
            trio.lowlevel.remove_instrument(instrument)
    return Attempt(checkpoint, scope.cancelled_caught, result)


async def cancelled_everywhere(
    call: Callable[[], Awaitable[T]], counts: Callable[[], bool] = lambda: True
) -> AsyncGenerator[Attempt[T], None]:
    """Yield a cancelled call for each checkpoint that counts, and last the call that completed."""
    for checkpoint in range(1, CHECKPOINTS_MAX):
        attempt = await cancelled_at(checkpoint, call, counts)
        yield attempt
        if not attempt.was_cancelled:
            return
    raise AssertionError(f"the call was still cancelled at its checkpoint {CHECKPOINTS_MAX}")
