"""Log lines about replication that no request causes: when it begins and ends, and how far slaves lag.

Slaves are looked at once a second, so a connection that is lost and back within that time leaves no line here; what
ended it is logged where it happened (``rocketpy.store.ha``), and so is why a slave replicates nothing.

Compatibility: ``BrokerController.printMasterAndSlaveDiff`` (4.9.8): a master logs the lag of its slaves after 10 s and
then every 60 s, in bytes. RocketMQ does so without any slave, too; here a master that has had none is silent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import trio

from rocketpy.containment import Contained
from rocketpy.log_files import event_fields
from rocketpy.store.ha.client import HAClientStatistics, HAState
from rocketpy.store.ha.slave_progress import SlaveProgress
from rocketpy.ticks import next_tick

LOOK_SECONDS = 1.0
FIRST_LAG_SECONDS = 10.0
LAG_SECONDS = 60.0

_log = logging.getLogger("rocketpy.broker")


class MasterLog:
    """Logs the slaves of this broker. ``end_offset`` returns the end of its log."""

    def __init__(self, *, slaves: Callable[[], Mapping[str, SlaveProgress]], end_offset: Callable[[], int]) -> None:
        self._slaves = slaves
        self._end_offset = end_offset
        self._known: dict[str, SlaveProgress] = {}
        self._has_had_slaves = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look and log until cancelled."""
        task_status.started()
        lag_at = trio.current_time() + FIRST_LAG_SECONDS
        while True:
            await trio.sleep_until(next_tick(LOOK_SECONDS))
            with Contained(_log, "a look at the slaves"):
                self._look()
                if trio.current_time() >= lag_at:
                    lag_at += LAG_SECONDS
                    self._log_lag()

    def _look(self) -> None:
        slaves = dict(self._slaves())
        for peer, progress in self._known.items():
            if slaves.get(peer) is not progress:
                _log.warning("a slave has gone", extra=self._fields(peer, progress))
        for peer, progress in slaves.items():
            if self._known.get(peer) is not progress:
                _log.info("a slave replicates this log", extra=self._fields(peer, progress))
        self._known = slaves
        self._has_had_slaves = self._has_had_slaves or bool(slaves)

    def _log_lag(self) -> None:
        if self._has_had_slaves:
            reached = max((each.reached_offset for each in self._known.values()), default=0)
            behind = self._end_offset() - reached
            _log.info("Slave fall behind master: %d bytes", behind, extra=event_fields(slaves=len(self._known)))

    def _fields(self, peer: str, progress: SlaveProgress) -> dict[str, object]:
        return event_fields(
            slave=peer,
            offset=progress.reached_offset,
            end=self._end_offset(),
        )


class SlaveLog:
    """Logs that this broker replicates; that it does not, and why, is logged by the client itself."""

    def __init__(self, *, statistics: Callable[[], HAClientStatistics], end_offset: Callable[[], int]) -> None:
        self._statistics = statistics
        self._end_offset = end_offset
        self._followed: tuple[str, int] | None = None  # address and number of the connection

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look and log until cancelled."""
        task_status.started()
        while True:
            await trio.sleep_until(next_tick(LOOK_SECONDS))
            with Contained(_log, "a look at the replication from the master"):
                self._look()

    def _look(self) -> None:
        now = self._statistics()
        if now.state is not HAState.FOLLOWING:
            return
        followed = (now.master_address, now.connect_count)
        if followed != self._followed:
            self._followed = followed
            fields = event_fields(master=now.master_address, end=self._end_offset())
            _log.info("this slave replicates its master's log", extra=fields)
