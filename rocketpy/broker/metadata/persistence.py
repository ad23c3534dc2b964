"""Writes the broker's tables to their files: some soon after each change, the offsets of groups now and then.

A shortage (a full disk, no descriptor left) does not end the broker: the tables are in memory, reads go on, and the
next round tries again. Any other
failure of the disk does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import attrs
import trio

from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.errors import ShortageError

RETRY_SECONDS = 5.0

_log = logging.getLogger("rocketpy.broker")


@attrs.frozen
class TablePersistStatistics:
    """How often tables were written, and how often there was no room."""

    persisted_count: int
    disk_full_count: int


class TablePersistService:
    """One loop per table: ``at_once`` ones wait for a change, ``periodic`` ones for their time, which may change."""

    def __init__(
        self, *, at_once: Sequence[StoredTable], periodic: Sequence[StoredTable], period_seconds: Callable[[], float]
    ) -> None:
        self._at_once = tuple(at_once)
        self._periodic = tuple(periodic)
        self._period_seconds = period_seconds
        self._persisted_count = 0
        self._disk_full_count = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write until cancelled; what has changed since the last round is for :meth:`persist_all`."""
        async with trio.open_nursery() as nursery:
            for table in self._at_once:
                nursery.start_soon(self._persist_after_changes, table)
            for table in self._periodic:
                nursery.start_soon(self._persist_now_and_then, table)
            task_status.started()

    async def persist_all(self) -> bool:
        """Write every table that has changed: the last step before the broker ends. False when the disk is full."""
        written = [await self._persist(table) for table in (*self._at_once, *self._periodic)]
        return all(written)

    def statistics(self) -> TablePersistStatistics:
        """Return the counters."""
        return TablePersistStatistics(self._persisted_count, self._disk_full_count)

    async def _persist_after_changes(self, table: StoredTable) -> None:
        while True:
            seen = table.change_count
            if not table.has_changes:
                await table.wait_changed(seen)
            if not await self._persist(table):
                await trio.sleep(RETRY_SECONDS)

    async def _persist_now_and_then(self, table: StoredTable) -> None:
        while True:
            await trio.sleep(self._period_seconds())
            await self._persist(table)

    async def _persist(self, table: StoredTable) -> bool:
        if not table.has_changes:
            return True
        try:
            await table.persist()
        except ShortageError as failure:
            self._disk_full_count += 1
            if self._disk_full_count & (self._disk_full_count - 1) == 0:  # once, twice, four times, ...
                _log.error("%s", failure)
            return False
        self._persisted_count += 1
        return True
