"""Calls that must be done before their service goes on, in spite of a shortage of descriptors or space.

When a file was unlinked, for example, its directory must be synced before the next file goes; and what a start reads of
its own queues must be read whole. There is no way back, and nothing else to do meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import trio

from rocketpy.errors import ShortageError
from rocketpy.runner import RunBlocking

T = TypeVar("T")

SHORTAGE_PAUSE_SECONDS = 1.0
"""After a shortage the next try comes this much later."""


async def call_until_done(run_blocking: RunBlocking, function: Callable[..., T], *arguments: object) -> T:
    """Return what a blocking call returns when it meets no shortage any more; it may be made more than once."""
    return await until_done(partial(run_blocking, function, *arguments))


async def until_done(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return what an attempt returns that meets no shortage; each begins from where the one before has come."""
    while True:
        try:
            return await attempt()
        except ShortageError:
            await trio.sleep(SHORTAGE_PAUSE_SECONDS)
