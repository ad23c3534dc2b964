"""Long polling: holds pulls that found nothing until a message arrives or their deadline passes.

One table, ``(topic, queue id) -> held pulls``, indexed by deadline and by connection, so that expiry and disconnect are
O(affected). The store reports each queue that received messages once per burst. After the burst's own responses, every
woken queue's pulls are served once, for a bounded time; the service's task serves the rest in slices, even within one
queue. A pull whose filter matches nothing stays held and continues from the last offset that it has examined.

Rules:
- A pull that fails unexpectedly (a hook, a bug) ends alone; the others of its queue are served.
- The bytes that held pulls keep are counted, per connection and in total. The pull processor enforces the limits.

Compatibility: ``PullRequestHoldService`` (4.9.8) checks for expired pulls every 5 s, so its responses are up to 5 s
late, and it answers a non-matching arrival within 5 s; on a slave no arrival wakes a pull before that check. Here a
pull ends at its deadline (checked every half second), with the offset up to which nothing matched.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable

import attrs
import trio

from rocketpy.broker.pull.request import HeldOfConnection, PullRequest
from rocketpy.containment import contain
from rocketpy.remoting.connection import Connection
from rocketpy.ticks import next_tick

SWEEP_SECONDS = 0.5
SLOTS_PER_SECOND = 10
PULLS_PER_SLICE = 64
SLICE_SECONDS = 0.005
"""A slice ends after PULLS_PER_SLICE, or after the pull that exceeds this time."""

_Key = tuple[str, int]  # topic, queue id

_log = logging.getLogger("rocketpy.broker")


@attrs.frozen
class PullRequestHoldStatistics:
    """Pulls held now, and counters of how held pulls ended."""

    held: int
    held_bytes: int
    woken_count: int
    timed_out_count: int
    dropped_count: int


class PullRequestHoldService:
    """Service that holds pulls. ``suspend`` and ``message_arriving`` are called per request and are O(1).

    ``busy_seconds`` is a clock of this thread's processor time, by which slices are bounded. With ``serves_itself`` the
    task serves woken queues: on a slave messages arrive from the master, outside of any burst of requests.
    """

    def __init__(self, *, busy_seconds: Callable[[], float] = time.thread_time, serves_itself: bool = False) -> None:
        self._busy_seconds = busy_seconds
        self._serves_itself = serves_itself
        self._held: dict[_Key, dict[PullRequest, None]] = {}
        self._of_connection: dict[Connection, HeldOfConnection] = {}
        self.held_bytes = 0
        """The bytes that all held pulls keep."""
        self._due: dict[int, dict[PullRequest, None]] = {}  # by tenths of a second, rounded up
        self._woken: dict[_Key, None] = {}  # an ordered set
        self._serving: deque[PullRequest] = deque()  # rest of the queue that is being served
        self._more = trio.Event()
        self._woken_count = 0
        self._timed_out_count = 0
        self._dropped_count = 0

    def suspend(self, pull: PullRequest, bytes_max: int, connection_bytes_max: int) -> bool:
        """Hold a pull until a message arrives in its queue, or its deadline.

        False, and the pull is not held, when all held pulls or those of its connection would keep more bytes.
        """
        connection, size_bytes = pull.connection, pull.held_bytes
        of_connection = self._of_connection.get(connection)
        if of_connection is None:
            of_connection = self._of_connection[connection] = HeldOfConnection()
        if self.held_bytes + size_bytes > bytes_max or of_connection.size_bytes + size_bytes > connection_bytes_max:
            if not of_connection.pulls:
                del self._of_connection[connection]
            return False
        of_connection.size_bytes += size_bytes
        self.held_bytes += size_bytes
        of_connection.pulls[pull] = None
        pull.held_among = of_connection
        key = (pull.header.topic, pull.header.queue_id)
        pulls = self._held.get(key)
        if pulls is None:
            pulls = self._held[key] = {}
        pulls[pull] = None
        slot = pull.due_slot = int(pull.deadline * SLOTS_PER_SECOND) + 1
        due = self._due.get(slot)
        if due is None:
            due = self._due[slot] = {}
        due[pull] = None
        return True

    def held_bytes_of(self, connection: Connection) -> int:
        """Return the bytes that the held pulls of a connection keep."""
        of_connection = self._of_connection.get(connection)
        return 0 if of_connection is None else of_connection.size_bytes

    def message_arriving(self, topic: str, queue_id: int, max_queue_offset: int) -> None:
        """Mark a queue as woken; its pulls are served after the burst's responses."""
        key = (topic, queue_id)
        if key in self._held:
            self._woken[key] = None
            if self._serves_itself:
                self._more.set()

    def wake_all(self) -> None:
        """Mark every queue as woken, so that the task tries all pulls again: other accounts count."""
        if self._held:
            self._woken.update(dict.fromkeys(self._held))
            self._more.set()

    def serve_woken(self, *, flushes: bool = False) -> None:
        """Serve the pulls of woken queues, at most a slice of them; the task serves the rest.

        The end of a burst of requests sends the answers afterwards. Outside of one nothing does: there they are sent
        here, with ``flushes``.
        """
        if (self._woken or self._serving) and not self._serve_slice(flushes=flushes):
            self._more.set()

    def drop_connection(self, connection: Connection) -> None:
        """Drop the pulls of a connection that has ended."""
        of_connection = self._of_connection.get(connection)
        if of_connection is not None:
            self._dropped_count += len(of_connection.pulls)
            for pull in list(of_connection.pulls):
                self._remove(pull)
            self._of_connection.pop(connection, None)

    def statistics(self) -> PullRequestHoldStatistics:
        """Return the counters."""
        return PullRequestHoldStatistics(
            held=sum(map(len, self._held.values())),
            held_bytes=self.held_bytes,
            woken_count=self._woken_count,
            timed_out_count=self._timed_out_count,
            dropped_count=self._dropped_count,
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve what a burst left over and end expired pulls, until cancelled."""
        task_status.started()
        sweep_at = next_tick(SWEEP_SECONDS)
        while True:
            with trio.move_on_at(sweep_at):
                await self._more.wait()
            if self._more.is_set():
                self._more = trio.Event()
                while not self._serve_slice(flushes=True):
                    await trio.lowlevel.checkpoint()
            if trio.current_time() >= sweep_at:  # even while there is more to serve
                await self._end_expired()
                # An ended pull may have stored an OFFSET_MOVED_EVENT.
                if self._woken and not self._serve_slice(flushes=True):
                    self._more.set()
                sweep_at = next_tick(SWEEP_SECONDS)

    # ---- private --------------------------------------------------------------------------------------------------

    def _serve_slice(self, *, flushes: bool) -> bool:
        """Serve one slice of pulls; return True when no woken queue is left.

        A message that arrives in the queue being served wakes all its pulls once more.
        """
        serving, ends_at = self._serving, 0.0
        for _ in range(PULLS_PER_SLICE):
            while not serving:
                if not self._woken:
                    return True
                key = next(iter(self._woken))
                del self._woken[key]
                serving.extend(self._held.get(key, ()))
            pull = serving.popleft()
            if pull.held_among is not None:
                self._woken_count += 1
                self._try(pull, expired=False, flushes=flushes)
                if not (serving or self._woken):
                    return True  # the usual case, one pull: without reading the clock
                now = self._busy_seconds()
                ends_at = ends_at or now + SLICE_SECONDS
                if now > ends_at:
                    return False
        return not (serving or self._woken)

    async def _end_expired(self) -> None:
        """Answer expired pulls, in slices."""
        now = trio.current_time() * SLOTS_PER_SECOND
        ends_at = self._busy_seconds() + SLICE_SECONDS
        for slot in [slot for slot in self._due if slot <= now]:
            for pull in self._due.pop(slot):
                if pull.held_among is None:
                    continue  # answered on an arrival between two slices
                self._timed_out_count += 1
                self._try(pull, expired=True, flushes=True)
                if self._busy_seconds() > ends_at:
                    await trio.lowlevel.checkpoint()
                    ends_at = self._busy_seconds() + SLICE_SECONDS

    def _try(self, pull: PullRequest, *, expired: bool, flushes: bool) -> None:
        """Try a pull again; remove it when it was answered, has failed, or its connection has ended."""
        connection = pull.connection
        if connection.is_closed:
            self._dropped_count += 1
            self._remove(pull)
            return
        try:
            if not pull.resume(pull, expired):
                assert not expired, pull
                return
            self._remove(pull)
            if flushes:
                connection.flush()
        except Exception as failure:
            contain(failure, _log, "the pull of %s that was held", connection.peer)
            if pull.held_among is not None:
                self._remove(pull)
                pull.fail(pull)
                connection.flush()

    def _remove(self, pull: PullRequest) -> None:
        """Remove a pull from the table and both indexes; no effect when it is no longer held."""
        of_connection = pull.held_among
        if of_connection is None:
            return
        pull.held_among = None
        pulls_of_connection, size_bytes = of_connection.pulls, pull.held_bytes
        del pulls_of_connection[pull]
        of_connection.size_bytes -= size_bytes
        self.held_bytes -= size_bytes
        if not pulls_of_connection and pull.connection.is_closed:
            del self._of_connection[pull.connection]  # an open one keeps its entry: its next pull comes soon
        key = (pull.header.topic, pull.header.queue_id)
        pulls = self._held[key]
        del pulls[pull]
        if not pulls:
            del self._held[key]
        due = self._due.get(pull.due_slot)
        if due is not None:
            due.pop(pull, None)
            if not due:
                del self._due[pull.due_slot]
