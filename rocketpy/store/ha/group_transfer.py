"""Waits of SYNC_MASTER: a message is acknowledged once a slave has reported the log up to its end.

A request belongs to a burst, and is decided with it::

    wait_replicated                    noted; nothing is known of it yet
    burst_ended    no slave, or far behind    SLAVE_NOT_AVAILABLE, with the other replies of the burst
                   otherwise                  it waits
    acknowledged   a slave has its bytes      PUT_OK: what one report acknowledges is one range of the list
    timer          ``slaveTimeout`` is over   FLUSH_SLAVE_TIMEOUT

Each of the four statuses promises that the message is stored here. So nothing is answered before its burst is written,
SLAVE_NOT_AVAILABLE neither: the end of the store's burst calls :meth:`GroupTransferService.burst_ended` after writing.
The timer ends the burst of a caller that waits without ending it. After FLUSH_SLAVE_TIMEOUT or SLAVE_NOT_AVAILABLE the
message stays, and slaves get it later. Acknowledgements count only while their connection lives.

Bound: each request is a reply that is owed to a connection, of which there are at most ``connectionDeferredRepliesMax``
for each, or one of the broker's own few.

Compatibility: ``CommitLog.submitReplicaRequest`` and ``HAService.GroupTransferService`` (4.9.8), with the statuses of
``HAService.isSlaveOK``. RocketMQ looks at the deadline once a second and serves requests strictly one after the other,
so its answer comes up to a second late; here each has its own deadline, kept to ``TICK_SECONDS``.

Compose: under SYNC_MASTER only; ``end_burst`` is the appender's, ``slaves`` and the calls of ``acknowledged`` come from
the HAService.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable

import attrs
import trio

from rocketpy.store.ha.slave_progress import SlaveProgress, replicated_offset
from rocketpy.store.results import PutMessageStatus, StoredCallback

TICK_SECONDS = 0.01
"""How late FLUSH_SLAVE_TIMEOUT may be. The timer runs only while something waits."""

_PUT_OK = PutMessageStatus.PUT_OK


@attrs.frozen
class GroupTransferStatistics:
    """Requests that wait now, and counters since the start."""

    waiting: int
    answered_count: int
    timeout_count: int
    unavailable_count: int


class GroupTransferService:
    """Calls waiting requests back when a slave has their bytes, or when their time is over.

    ``slaves`` returns the progress of the live connections. ``timeout_s`` and ``fallbehind_max`` (bytes) are asked each
    time, because they may change. ``end_burst`` writes what was put. ``flush_replies`` is called after callbacks,
    because each of them only queues its reply; while a burst is open it does nothing.
    """

    def __init__(
        self,
        *,
        slaves: Callable[[], Iterable[SlaveProgress]],
        timeout_s: Callable[[], float],
        fallbehind_max: Callable[[], int],
        end_burst: Callable[[], None],
        flush_replies: Callable[[], None],
    ) -> None:
        self._slaves = slaves
        self._timeout_s = timeout_s
        self._fallbehind_max = fallbehind_max
        self._end_burst = end_burst
        self._flush_replies = flush_replies
        # Of the current burst.
        self._new_ends: list[int] = []
        self._new_callbacks: list[StoredCallback] = []
        # The requests that wait, as three columns, so that a range of them is found by bisection and taken by slices:
        # the end of each in the log, when its wait began (Trio time; both ascend), and its callback.
        self._ends: list[int] = []
        self._began: list[float] = []
        self._callbacks: list[StoredCallback] = []
        self._idle = trio.lowlevel.ParkingLot()
        self._is_idle = False  # the timer waits; asked for each message, which ParkingLot answers with a call
        self._answered_count = 0
        self._timeout_count = 0
        self._unavailable_count = 0

    def wait_replicated(self, end_offset: int, callback: StoredCallback) -> None:
        """Call back with PUT_OK when a slave has the log up to an offset; otherwise with one of the two statuses.

        Never calls back directly. Offsets ascend; the last one is at most the end of the log with the current burst.
        """
        self._new_ends.append(end_offset)
        self._new_callbacks.append(callback)
        if self._is_idle:
            self._start_timer()

    def wait_again(self, end_offset: int, began: float, callback: StoredCallback) -> None:
        """Let a request wait on that was called back with PUT_OK, and whose slave has gone before it was answered.

        ``began`` is the time of Trio's clock at which its wait began: its deadline stays.
        """
        first, last = bisect_left(self._ends, end_offset), bisect_right(self._ends, end_offset)
        at = bisect_right(self._began, began, first, last)  # several may wait for the same end
        self._ends.insert(at, end_offset)
        self._began.insert(at, max(began, self._began[at - 1]) if at else began)
        self._callbacks.insert(at, callback)
        if self._is_idle:
            self._start_timer()

    def has(self, end_offset: int) -> bool:
        """Whether a live slave has acknowledged the record that ends at an offset."""
        return any(slave.has(end_offset) for slave in self._slaves())

    def burst_ended(self) -> None:
        """Decide on the requests of a burst, which is written: answer SLAVE_NOT_AVAILABLE, or let them wait."""
        if not self._new_ends:
            return
        ends, self._new_ends = self._new_ends, []
        callbacks, self._new_callbacks = self._new_callbacks, []
        slaves = list(self._slaves())
        count = bisect_left(ends, self._available_end(slaves))
        if count:
            self._ends += ends[:count]
            self._began += [trio.current_time()] * count
            self._callbacks += callbacks[:count]
            if ends[0] <= replicated_offset(slaves):
                self.acknowledged()  # written by an earlier burst, so a slave may have it
        unavailable = callbacks[count:]
        self._unavailable_count += len(unavailable)
        self._call_back(unavailable, PutMessageStatus.SLAVE_NOT_AVAILABLE)

    def acknowledged(self) -> None:
        """Answer the requests whose bytes a slave has by now; called after each report."""
        ends = self._ends
        if not ends:
            return
        answered: list[StoredCallback] = []
        for slave in self._slaves():
            # A slave has what lies between two offsets (SlaveProgress.has). Requests before the first one stay: nothing
            # shows that the slave has the same bytes there.
            last = bisect_right(ends, slave.acknowledged_offset)
            first = bisect_right(ends, slave.covered_from) if last else 0
            if first < last:
                answered += self._take(first, last)
        self._answered_count += len(answered)
        self._call_back(answered, _PUT_OK)

    def give_up(self) -> None:
        """Answer whatever waits with FLUSH_SLAVE_TIMEOUT now: the broker is about to stop."""
        self._end_burst()
        self.burst_ended()
        self._time_out(len(self._ends))

    def statistics(self) -> GroupTransferStatistics:
        """Return the counters."""
        return GroupTransferStatistics(
            len(self._ends) + len(self._new_ends), self._answered_count, self._timeout_count, self._unavailable_count
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """End requests whose time is over, until cancelled; what still waits then is never called back."""
        task_status.started()
        try:
            while True:
                while not self._ends and not self._new_ends:
                    self._is_idle = True
                    await self._idle.park()
                await trio.sleep(TICK_SECONDS)
                if self._new_ends:
                    self._end_burst()
                    self.burst_ended()
                self._time_out(bisect_right(self._began, trio.current_time() - self._timeout_s()))
        finally:
            for column in (self._new_ends, self._new_callbacks, self._ends, self._began, self._callbacks):
                column.clear()

    # ---- private --------------------------------------------------------------------------------------------------

    def _start_timer(self) -> None:
        self._is_idle = False
        self._idle.unpark()

    def _available_end(self, slaves: Iterable[SlaveProgress]) -> int:
        """Return the offset before which a message must end for its wait to make sense; 0 without a slave."""
        reached = [slave.reached_offset for slave in slaves if slave.is_slave]
        return max(reached) + self._fallbehind_max() if reached else 0

    def _time_out(self, count: int) -> None:
        self._timeout_count += count
        self._call_back(self._take(0, count), PutMessageStatus.FLUSH_SLAVE_TIMEOUT)

    def _take(self, first: int, last: int) -> list[StoredCallback]:
        """Remove some requests, and return their callbacks."""
        callbacks = self._callbacks[first:last]
        del self._ends[first:last], self._began[first:last], self._callbacks[first:last]
        return callbacks

    def _call_back(self, callbacks: list[StoredCallback], status: PutMessageStatus) -> None:
        if callbacks:
            for callback in callbacks:
                callback(status)
            self._flush_replies()  # once for all of them: a report costs one send for each connection
