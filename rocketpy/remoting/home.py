"""Context variables of the tasks that an owner starts: those of its opening, not those of whatever needs the task.

Trio lets a task inherit the context variables of the task that starts it. A connection, or the retry of a send, is
started by the first request that needs it: it would show that request's variables (a trace id, a user) to everything
that it does for others, and keep their values alive for as long as it runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context

import trio


class Home:
    """The context in which this was made."""

    def __init__(self) -> None:
        self._context = copy_context()

    def context(self) -> Context:
        """Return a copy, for one task or call: what is set in it stays there."""
        return self._context.copy()

    def start_soon(self, nursery: trio.Nursery, function: Callable[..., Awaitable[object]], *arguments: object) -> None:
        """Start a task in a nursery, in this context."""
        self.context().run(nursery.start_soon, function, *arguments)

    async def enter(self) -> None:
        """Move the current task here, for one that ``nursery.start`` has started; waits a moment, uncancelled."""
        trio.lowlevel.current_task().context = self.context()
        await trio.lowlevel.cancel_shielded_checkpoint()  # each step of a task runs in the context that it has then
