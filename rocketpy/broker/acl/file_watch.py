"""Looks every few seconds whether a file with accounts has changed, and has the accounts read again.

Looking and reading happen in a worker thread. Compatibility: ``AclFileWatchService`` (4.9.8) looks every 5 s, and
compares modification times only, so that it may miss a file that changes twice within a second.
"""

from __future__ import annotations

import attrs
import trio

from rocketpy.broker.acl.plain_permission import PlainPermissionManager

PERIOD_SECONDS = 4.0
"""With the time to read it, a change counts within 5 seconds."""


@attrs.frozen
class AclFileWatchStatistics:
    """What has been done since the start."""

    looks: int
    reloads: int


class AclFileWatchService:
    """One loop over the files."""

    def __init__(self, *, manager: PlainPermissionManager) -> None:
        self._manager = manager
        self._looks = 0
        self._reloads = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(PERIOD_SECONDS)
            self._looks += 1
            self._reloads += await self._manager.reload()

    def statistics(self) -> AclFileWatchStatistics:
        """Return the counters."""
        return AclFileWatchStatistics(self._looks, self._reloads)
