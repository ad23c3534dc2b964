"""Brings the index up to the log after a restart, while the store serves already.

Queues are complete when a store opens (recovery sees to that), and while it is open append hands everything over. What
is left is what the index lost with a crash, or never had: this service lets it be read from the log, a step at a time,
and ends when append has taken over.

Compatibility: ``ReputMessageService`` (4.9.8), which reads every message back from the log, forever, a millisecond
after it was stored.

Compose: ``catch_up`` is an IndexCatchUp that begins at ``IndexService.end_physical_offset``.
"""

from __future__ import annotations

from typing import Protocol

import trio

_PAUSE_SECONDS = 1.0


class CatchUp(Protocol):
    """A way through the log, in steps."""

    @property
    def behind_bytes(self) -> int:
        """How much of the log is left to read."""
        ...

    async def step(self) -> bool:
        """Go on for a millisecond or so; False when it is over. A step that cannot go on for now changes nothing."""
        ...


class ReputMessageService:
    """Drives one catching up to its end."""

    def __init__(self, *, catch_up: CatchUp) -> None:
        self._catch_up = catch_up

    @property
    def behind_bytes(self) -> int:
        """How much of the log is left to read."""
        return self._catch_up.behind_bytes

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Go on until the index has everything; StoreError ends it, a full disk makes it wait."""
        task_status.started()
        behind_bytes = self._catch_up.behind_bytes
        while await self._catch_up.step():
            # Others have their turn after each step. One that leaves as much as before found no space; or as much has
            # been appended meanwhile, and then a pause does no harm.
            left = self._catch_up.behind_bytes
            await trio.sleep(0 if left != behind_bytes else _PAUSE_SECONDS)
            behind_bytes = left
