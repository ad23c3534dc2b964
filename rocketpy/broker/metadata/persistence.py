"""Persistence of the broker's tables: most soon after each change, consumer offsets periodically, and at once for an
administrator's request.

A write that fails does not end the broker, whether for a shortage (a full disk, no free descriptor) or because the
directory is gone or read-only: the tables are in memory, reads continue, and the next round retries. Only a sync that
has failed ends it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import attrs
import trio

from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.errors import RequestError, ShortageError
from rocketpy.log_files import is_logged
from rocketpy.protocol.codes import ResponseCode
from rocketpy.ticks import next_tick

RETRY_SECONDS = 5.0

_log = logging.getLogger("rocketpy.broker")


@attrs.frozen
class TablePersistStatistics:
    """Counters of writes, and of writes that failed for a shortage."""

    persisted_count: int
    disk_full_count: int


class TablePersistService:
    """One loop per table: ``at_once`` tables wait for a change, ``periodic`` ones for an interval, a live setting."""

    def __init__(
        self, *, at_once: Sequence[StoredTable], periodic: Sequence[StoredTable], period_seconds: Callable[[], float]
    ) -> None:
        self._at_once = tuple(at_once)
        self._periodic = tuple(periodic)
        self._period_seconds = period_seconds
        self._persisted_count = 0
        self._disk_full_count = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write until cancelled; :meth:`persist_all` writes the changes since the last round."""
        async with trio.open_nursery() as nursery:
            for table in self._at_once:
                nursery.start_soon(self._persist_after_changes, table)
            for table in self._periodic:
                nursery.start_soon(self._persist_now_and_then, table)
            task_status.started()

    async def persist_all(self) -> bool:
        """Write every changed table, as the last step of shutdown. False when the disk is full."""
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
            await trio.sleep_until(next_tick(self._period_seconds()))
            await self._persist(table)

    async def _persist(self, table: StoredTable) -> bool:
        if not table.has_changes:
            return True
        try:
            await table.persist()
        except ShortageError as failure:
            self._disk_full_count += 1
            if is_logged(self._disk_full_count):
                _log.error("%s", failure)
            return False
        self._persisted_count += 1
        return True


async def persist_change(*tables: StoredTable) -> None:
    """Write what an administrator's request has changed; durable on return.

    RequestError for a shortage: the change is in memory, and the service writes it later.
    """
    try:
        for table in tables:
            await table.persist()
    except ShortageError as failure:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, f"the change counts, but is not in the file yet: {failure}"
        ) from failure
