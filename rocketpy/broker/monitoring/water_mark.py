"""Periodic log lines for operators: watermarks each second, store figures each minute.

There are no thread pool queues, so their watermarks are 0, except for sends: those waiting for a flush under
SYNC_FLUSH. Lines are not formatted when their log is disabled. The minute's lines, of broker and store, are enabled
together with the watermarks, so that none appears on a terminal by default.

Compatibility: ``BrokerController.printWaterMark``, the line "dispatch behind commit log", and
``StoreStatsService.printTps`` (4.9.8). "SlowTimeMills" of sends is the event loop lag of the last second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from rocketpy.broker.monitoring.lateness import LatenessService
from rocketpy.containment import Contained
from rocketpy.store.message_store import MessageStore
from rocketpy.ticks import next_tick

BEGIN_SECONDS = 10.0
WATER_MARK_SECONDS = 1.0
MINUTE_SECONDS = 60.0

_log = logging.getLogger("rocketpy.broker")
_store_log = logging.getLogger("rocketpy.store")
_water_mark_log = logging.getLogger("rocketpy.broker.watermark")


class WaterMarkService:
    """One loop. ``waiting_sends`` returns the number of sends that wait for a flush."""

    def __init__(self, *, store: MessageStore, lateness: LatenessService, waiting_sends: Callable[[], int]) -> None:
        self._store = store
        self._lateness = lateness
        self._waiting_sends = waiting_sends

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write until cancelled; the first lines after ten seconds."""
        task_status.started()
        due = trio.current_time() + BEGIN_SECONDS
        minute_due = due
        while True:
            await trio.sleep_until(due)
            due = next_tick(WATER_MARK_SECONDS)
            if not _water_mark_log.isEnabledFor(logging.INFO):
                continue
            with Contained(_log, "writing the water marks"):
                self.write_water_marks()
                if trio.current_time() >= minute_due:
                    minute_due = trio.current_time() + MINUTE_SECONDS
                    self.write_figures()

    def write_water_marks(self) -> None:
        """Write the four lines of each second."""
        late_ms = int(self._lateness.late_ms())
        _water_mark_log.info("[WATERMARK] Send Queue Size: %d SlowTimeMills: %d", self._waiting_sends(), late_ms)
        for name in ("Pull", "Query", "Transaction"):
            _water_mark_log.info("[WATERMARK] %s Queue Size: 0 SlowTimeMills: 0", name)

    def write_figures(self) -> None:
        """Write the lines of each minute."""
        _log.info("dispatch behind commit log %d bytes", self._store.dispatch_behind)
        if _store_log.isEnabledFor(logging.INFO):
            for line in self._store.figures.minute_lines():
                _store_log.info("%s", line)
