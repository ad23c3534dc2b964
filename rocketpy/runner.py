"""Runner of blocking calls, always passed in, so that waiting for the disk does not stop the event loop.

In production it is ``trio.to_thread.run_sync`` or a worker thread of one service; in simulation :func:`run_inline`,
because an autojumping clock would not wait for a thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from outcome import Outcome

T = TypeVar("T")

ON_LOOP_BYTES_MAX = 32_768
"""Length of an answer that is decoded on the event loop: 20 ms of work, whatever is in it."""


class RunBlocking(Protocol):
    """Calls a function off the event loop (in simulation: at once) and returns what it returns."""

    def __call__(self, function: Callable[..., T], /, *arguments: object) -> Awaitable[T]:
        """Wait for ``function(*arguments)``. A cancellation waits for it too."""
        ...


class BeginBlocking(Protocol):
    """Begins a call off the event loop and returns at once; ``then`` gets its outcome later, on the loop.

    For callers that go on at the end of a call without a task's wake-up. ``then`` must not raise.
    """

    def __call__(self, function: Callable[[], T], then: Callable[[Outcome[T]], None], /) -> None:
        """Begin ``function()``. Nothing cancels it."""
        ...


async def run_decoder(decode: Callable[[bytes], T], body: bytes, run_blocking: RunBlocking) -> T:
    """Return ``decode(body)`` of what a peer has sent: a long body is decoded off the event loop."""
    if len(body) <= ON_LOOP_BYTES_MAX:
        return decode(body)
    return await run_blocking(decode, body)


async def run_inline(function: Callable[..., T], /, *arguments: object) -> T:
    """Call it here and now, a :class:`RunBlocking` of simulations: nothing waits, and nothing else runs meanwhile."""
    return function(*arguments)
