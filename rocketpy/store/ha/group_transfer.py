"""Waits of SYNC_MASTER: a message is acknowledged once a slave has reported the log up to its end.

A request that waits longer than ``slaveTimeout`` is answered FLUSH_SLAVE_TIMEOUT; its message stays stored, and slaves
get it later. Acknowledgements count only while their connection lives.

Compatibility: ``CommitLog.submitReplicaRequest`` and ``HAService.GroupTransferService`` (4.9.8), with the statuses of
``HAService.isSlaveOK``. RocketMQ looks at the deadline once a second and serves requests strictly one after the other;
here each has its own deadline, kept to some milliseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import attrs
import trio

from rocketpy.store.ha.slave_progress import SlaveProgress, replicated_offset
from rocketpy.store.results import PutMessageStatus

ReplicatedCallback = Callable[[PutMessageStatus], None]

_TIMER_MIN_SECONDS = 0.01


@attrs.frozen
class GroupTransferStatistics:
    """Requests that wait now, and counters since the start."""

    waiting: int
    answered_count: int
    timeout_count: int
    unavailable_count: int


@attrs.define
class _Request:
    end_offset: int
    deadline: float
    callback: ReplicatedCallback


class GroupTransferService:
    """Calls waiting requests back when a slave has their bytes, or when their time is over.

    ``slaves`` returns the progress of the live connections. ``flush_replies`` is called after callbacks, because each
    of them only queues its reply. ``timeout_s`` and ``fallbehind_max`` (bytes) are asked for each request.
    """

    def __init__(
        self,
        *,
        slaves: Callable[[], Iterable[SlaveProgress]],
        timeout_s: Callable[[], float],
        fallbehind_max: Callable[[], int],
        flush_replies: Callable[[], None],
    ) -> None:
        self._slaves = slaves
        self._timeout_s = timeout_s
        self._fallbehind_max = fallbehind_max
        self._flush_replies = flush_replies
        # In order of offsets. Bounded by the deferred replies that connections may have.
        self._requests: deque[_Request] = deque()
        self._answered_count = 0
        self._timeout_count = 0
        self._unavailable_count = 0

    def is_slave_ok(self, end_offset: int) -> bool:
        """Whether waiting makes sense: there is a slave, and the best one lacks less than ``haSlaveFallbehindMax``."""
        slaves = [slave for slave in self._slaves() if slave.is_slave]
        reached = max(replicated_offset(slaves), max((slave.request_offset for slave in slaves), default=0))
        return bool(slaves) and end_offset - reached < self._fallbehind_max()

    def wait_replicated(self, end_offset: int, callback: ReplicatedCallback) -> PutMessageStatus | None:
        """Call back with PUT_OK when a slave has the log up to an offset, or with FLUSH_SLAVE_TIMEOUT.

        SLAVE_NOT_AVAILABLE is returned at once, without a callback, as is PUT_OK for what a slave has already.
        """
        if not self.is_slave_ok(end_offset):
            self._unavailable_count += 1
            return PutMessageStatus.SLAVE_NOT_AVAILABLE
        if any(slave.has(end_offset) for slave in self._slaves()):
            self._answered_count += 1
            return PutMessageStatus.PUT_OK
        self._requests.append(_Request(end_offset, trio.current_time() + self._timeout_s(), callback))
        return None

    def acknowledged(self) -> None:
        """Answer the requests whose bytes a slave has by now; called after each report."""
        slaves = [slave for slave in self._slaves() if slave.acknowledged_offset >= 0]
        reached = replicated_offset(slaves)
        waiting: list[_Request] = []
        answered = 0
        while self._requests and self._requests[0].end_offset <= reached:
            request = self._requests.popleft()
            if any(slave.has(request.end_offset) for slave in slaves):
                request.callback(PutMessageStatus.PUT_OK)
                answered += 1
            else:
                waiting.append(request)  # before what this connection was sent: only its deadline is left
        self._requests.extendleft(reversed(waiting))
        if answered:
            self._answered_count += answered
            self._flush_replies()

    def statistics(self) -> GroupTransferStatistics:
        """Return the counters."""
        return GroupTransferStatistics(
            len(self._requests), self._answered_count, self._timeout_count, self._unavailable_count
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """End requests whose time is over, until cancelled; what still waits then is never called back."""
        task_status.started()
        try:
            while True:
                await trio.sleep(self._pause_s())
                self._expire()
        finally:
            self._requests.clear()

    def _pause_s(self) -> float:
        """Return the time to the first deadline; no later request is due before this time is over."""
        now = trio.current_time()
        first = min((request.deadline for request in self._requests), default=now + self._timeout_s())
        return max(first - now, _TIMER_MIN_SECONDS)

    def _expire(self) -> None:
        now = trio.current_time()
        expired = [request for request in self._requests if request.deadline <= now]
        if expired:
            self._requests = deque(request for request in self._requests if request.deadline > now)
            for request in expired:
                request.callback(PutMessageStatus.FLUSH_SLAVE_TIMEOUT)
            self._timeout_count += len(expired)
            self._flush_replies()
