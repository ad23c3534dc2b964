"""Polling of the ACL files for changes, which reloads the accounts.

Polling and reading run in a worker thread. Compatibility: ``AclFileWatchService`` (4.9.8) polls every 5 s and compares
only modification times, so it may miss a file that changes twice within a second.
"""

from __future__ import annotations

import logging

import attrs
import trio

from rocketpy.broker.acl.plain_permission import PlainPermissionManager
from rocketpy.containment import Contained

PERIOD_SECONDS = 4.0
"""Including the time to read it, a change takes effect within 5 seconds."""

_log = logging.getLogger("rocketpy.broker")


@attrs.frozen
class AclFileWatchStatistics:
    """Counters since the start."""

    looks: int
    reloads: int


class AclFileWatchService:
    """One loop over the files."""

    def __init__(self, *, manager: PlainPermissionManager) -> None:
        self._manager = manager
        self._looks = 0
        self._reloads = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Poll until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(PERIOD_SECONDS)
            self._looks += 1
            with Contained(_log, "a look at the account files; the accounts of before stay, it"):
                self._reloads += await self._manager.reload()

    def statistics(self) -> AclFileWatchStatistics:
        """Return the counters."""
        return AclFileWatchStatistics(self._looks, self._reloads)
