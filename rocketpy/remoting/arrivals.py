"""Reading before giving up: an answer that is here already counts, however late the timer looks.

A loop that was blocked for longer than a timeout finds its timer due and the answer in the socket at once. Which of the
two tasks Trio runs first is a matter of chance, and the peer has done its part. So whatever gives up a request first
lets the readers take what has arrived. If nothing has, that still says nothing about a peer that had no time to answer
what this program was late to ask or to take: its connection stays, with the requests of others on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

QUIET_ROUNDS: Final = 4
"""Rounds of the event loop without another frame after which nothing more is here: a socket is seen to be readable in
one, read in the next, and what was read is handled in the one after that."""
LATE_SECONDS: Final = 0.5
"""A timer that looks later than this was kept from it by its loop."""
_ROUNDS_MAX: Final = 256
"""A peer that never pauses delays no timeout for longer."""


async def let_readers_read(is_done: Callable[[], bool], frames_received: Callable[[], int]) -> None:
    """Let other tasks run until ``is_done``, or no further frame has come for some rounds."""
    seen, quiet = frames_received(), 0
    for _ in range(_ROUNDS_MAX):
        if is_done() or quiet >= QUIET_ROUNDS:
            return
        await trio.lowlevel.checkpoint()
        now = frames_received()
        quiet = quiet + 1 if now == seen else 0
        seen = now
