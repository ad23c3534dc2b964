"""Blocking calls that must be done before their service goes on, in spite of a shortage of descriptors or space.

When a file was unlinked, for example, its directory must be synced before the next file goes. There is no way back, and
nothing else to do meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

from rocketpy.errors import ShortageError
from rocketpy.runner import RunBlocking

T = TypeVar("T")

SHORTAGE_PAUSE_SECONDS = 1.0
"""After a shortage the next try comes this much later."""


async def call_until_done(run_blocking: RunBlocking, function: Callable[..., T], *arguments: object) -> T:
    """Return what a blocking call returns when it meets no shortage any more; it must change nothing until then."""
    while True:
        try:
            return await run_blocking(function, *arguments)
        except ShortageError:
            await trio.sleep(SHORTAGE_PAUSE_SECONDS)
