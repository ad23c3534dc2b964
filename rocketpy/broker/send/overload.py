"""Fast failure: sends are refused at once, not queued, while the disk does not keep up.

One thread serves every request as it is read, so a request can wait in three queues only. Each has its response here::

    what waits                                        measured                        answered
    requests that arrived while a write to the log    the write (ends of bursts)      osPageCacheBusyTimeOutMills and
    took longer than it may                                                           more: [PCBUSY_CLEAN_QUEUE]
    requests that had been read before such a write   since their bytes were read     waitTimeMillsInSendQueue and
                                                                                      more: [TIMEOUT_CLEAN_QUEUE]
    stored sends that wait for the disk               the sync in progress            later sends: [REJECTREQUEST]
    (SYNC_FLUSH) or a slave (SYNC_MASTER)             how many they are               later sends: [OVERLOAD]

During a sync no send is refused before the first waiting producer has been answered that it takes too long: clients
retry a send that timed out, but not one that was refused. A stored message is never refused: RocketMQ's status for it
is FLUSH_DISK_TIMEOUT, which the store reports itself.
After a write that took too long the gate stays closed for ``REOPEN_SECONDS``, about the time to read, and refuse, what
has arrived meanwhile. An open gate costs nothing per message.

Pulls, heartbeats and ends of transactions are not refused for having waited: answering them takes no longer. The last
count among what waits, and are refused above its number, see ``broker/transaction/end.py``.

Compatibility: ``BrokerFastFailure`` and ``DefaultMessageStore.isOSPageCacheBusy`` (4.9.8). RocketMQ
measures how long a put holds its lock, and accepts sends under SYNC_FLUSH however long the disk does not answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import attrs
import trio

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.send.admission import Refusal, SendGate
from rocketpy.remoting.connection import Connection
from rocketpy.store.message_store import MessageStore

REOPEN_SECONDS = 0.01
"""Time that sends are refused after a slow write: RocketMQ's check period."""

DISK_CHECK_SECONDS = 0.1
"""Interval at which the sync in progress and the number of sends that wait are checked."""

_log = logging.getLogger("rocketpy.broker")


@attrs.frozen
class FastFailureStatistics:
    """Counters since the start."""

    slow_write_count: int
    silent_disk_count: int
    refused_count: int


class FastFailureService:
    """Service that closes and reopens the gate for sends.

    ``sync_timeout_ms`` is how long one sync of the log may take, None when no send waits for the disk; ``monotonic`` is
    a clock in seconds that never steps.
    """

    def __init__(
        self,
        *,
        store: MessageStore,
        gate: SendGate,
        config: BrokerConfig,
        busy_timeout_ms: int,
        sync_timeout_ms: int | None,
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._store = store
        self._gate = gate
        self._config = config
        self._busy_timeout_ms = busy_timeout_ms
        # The setting is negative to make every send time out.
        self._sync_timeout_ms = None if sync_timeout_ms is None else max(1, sync_timeout_ms)
        self._monotonic = monotonic
        self._write_limit_seconds = max(1, min(busy_timeout_ms, config.wait_time_mills_in_send_queue)) / 1000
        self._write_refusal: Refusal | None = None
        self._reopen_at = 0.0  # Trio time
        self._disk_refusal: Refusal | None = None
        self._slow_write = trio.lowlevel.ParkingLot()
        self._slow_write_count = 0
        self._silent_disk_count = 0

    def statistics(self) -> FastFailureStatistics:
        """Return the counters."""
        return FastFailureStatistics(self._slow_write_count, self._silent_disk_count, self._gate.refused_count)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch writes and syncs, and reopen the gate in time, until cancelled."""
        self._store.watch_bursts(self._burst_took, self._monotonic)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._reopen)
            if self._store.waits_for_storing:
                nursery.start_soon(self._watch_disk)
            task_status.started()

    # ---- slow writes ----------------------------------------------------------------------------------------------

    def _burst_took(self, seconds: float) -> None:
        """Check how long the end of a burst took, whether a request, a service, a flush or a read ended it."""
        if seconds >= self._write_limit_seconds:
            self._note_slow_write(seconds * 1000)

    def _note_slow_write(self, took_ms: float) -> None:
        self._slow_write_count += 1
        now = trio.current_time()
        self._reopen_at = now + REOPEN_SECONDS
        limit_ms = self._busy_timeout_ms
        if took_ms >= limit_ms:
            _log.warning("a write to the log took %.0f ms, sends received meanwhile are refused", took_ms)
            remark = (
                f"[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: {took_ms:.0f}ms, "
                f"size of queue: {self._store.flush_wait().waiting_count}. "
                f"A write to the log took {took_ms:.0f} ms, osPageCacheBusyTimeOutMills is {limit_ms}"
            )
            self._write_refusal = lambda connection: remark
        else:
            _log.warning("a write to the log took %.0f ms, sends that waited for it are refused", took_ms)
            self._write_refusal = self._refusal_of_what_waited
        self._slow_write.unpark_all()
        self._update_gate()

    def _refusal_of_what_waited(self, connection: Connection) -> str | None:
        """Refuse a request whose bytes were read too long ago; the wait in a socket buffer cannot be measured."""
        waited_ms = (trio.current_time() - connection.last_active) * 1000
        limit_ms = self._config.wait_time_mills_in_send_queue
        if waited_ms < limit_ms:
            return None
        return (
            f"[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: {waited_ms:.0f}ms, "
            f"size of queue: {self._store.flush_wait().waiting_count}. "
            f"It waited for a write to the log, waitTimeMillsInSendQueue is {limit_ms}"
        )

    async def _reopen(self) -> None:
        while True:
            if self._write_refusal is None:
                await self._slow_write.park()
            await trio.sleep_until(self._reopen_at)
            if trio.current_time() >= self._reopen_at:  # false after another slow write meanwhile
                self._write_refusal = None
                self._update_gate()

    # ---- the disk -------------------------------------------------------------------------------------------------

    async def _watch_disk(self) -> None:
        while True:
            await trio.sleep(DISK_CHECK_SECONDS)
            refusal = self._refusal_of_disk()
            if refusal is not None or self._disk_refusal is not None:
                if self._disk_refusal is None:
                    self._silent_disk_count += 1
                    _log.warning("the disk, or a slave, does not keep up, sends are refused")
                elif refusal is None:
                    _log.warning("the disk, or the slave, keeps up again, sends are accepted")
                self._disk_refusal = refusal
                self._update_gate()

    def _refusal_of_disk(self) -> Refusal | None:
        """Return the refusal that the state of disk and slaves requires now, or None."""
        silent_ms, limit_ms = self._store.flush_wait().sync_seconds * 1000, self._sync_timeout_ms
        waiting_count = self._store.waiting_for_storing_count
        if limit_ms is not None and silent_ms >= limit_ms:
            remark = (
                "[REJECTREQUEST]system busy, start flow control for a while: the disk has not answered for "
                f"{silent_ms:.0f} ms, syncFlushTimeout is {limit_ms}"
            )
        elif waiting_count > self._config.sends_waiting_for_disk_max:
            remark = (
                f"[OVERLOAD]system busy, start flow control for a while: {waiting_count} sends wait for the disk or a "
                f"slave, sendsWaitingForDiskMax is {self._config.sends_waiting_for_disk_max}"
            )
        else:
            return None
        return lambda connection: remark

    def _update_gate(self) -> None:
        refusal = self._disk_refusal or self._write_refusal
        if refusal is None:
            self._gate.open()
        else:
            self._gate.close(refusal)
