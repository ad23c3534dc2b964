"""The blocking-call runner, always passed in: how a program waits for the disk without stopping its event loop.

In production ``trio.to_thread.run_sync`` or a worker thread of one service; in simulation :func:`run_inline`, because a
clock that jumps would otherwise pass over a thread that is still at work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class RunBlocking(Protocol):
    """Calls a function off the event loop (in simulation: at once) and returns what it returns."""

    def __call__(self, function: Callable[..., T], /, *arguments: object) -> Awaitable[T]:
        """Wait for ``function(*arguments)``. A cancellation waits for it too."""
        ...


async def run_inline(function: Callable[..., T], /, *arguments: object) -> T:
    """Call it here and now, a :class:`RunBlocking` of simulations: nothing waits, and nothing else runs meanwhile."""
    return function(*arguments)
