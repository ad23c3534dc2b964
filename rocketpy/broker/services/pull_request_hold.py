"""Long polling: keeps the pulls that found nothing until a message arrives or their time is up.

One table, ``(topic, queue id) -> held pulls``, and two ways into it: by the time at which pulls end, and by connection,
so that neither the clock nor the end of a connection looks at everything. The store notes each queue that got messages
once per burst; when the burst's own replies have left, every woken queue's pulls are served once, a bounded number at a
time: the service's task takes the rest in slices. A pull whose filter matches nothing goes on waiting from where it has
looked.

Compatibility: ``PullRequestHoldService`` (4.9.8) looks at expired pulls every 5 s, so its answers come up to 5 s late,
and it answers a non-matching arrival within 5 s. Here a pull ends when its time is up (checked every half second), with
the offset up to which nothing matched.
"""

from __future__ import annotations

import attrs
import trio

from rocketpy.broker.pull_request import PullRequest
from rocketpy.remoting.connection import Connection

SWEEP_SECONDS = 0.5
SLOTS_PER_SECOND = 10
LOOKED_AT_SECONDS = 60.0
"""A held pull is looked at so often at least, whatever time it has: what the two indexes keep of it is bounded."""

PULLS_PER_SLICE = 64


_Key = tuple[str, int]  # topic, queue id


@attrs.frozen
class PullRequestHoldStatistics:
    """What is held now, and how it ended so far."""

    held: int
    woken_count: int
    timed_out_count: int
    dropped_count: int


class PullRequestHoldService:
    """Holds pulls. ``suspend`` and ``message_arriving`` are called from the hot path and do next to nothing."""

    def __init__(self) -> None:
        self._held: dict[_Key, list[PullRequest]] = {}
        self._due: dict[int, dict[_Key, None]] = {}  # by tenths of a second, rounded up: where pulls may end then
        self._keys_of: dict[Connection, dict[_Key, None]] = {}  # where a connection had pulls, perhaps no more
        self._swept_at = 0.0
        self._woken: dict[_Key, None] = {}  # ordered, each once
        self._more = trio.Event()
        self._woken_count = 0
        self._timed_out_count = 0
        self._dropped_count = 0

    def suspend(self, pull: PullRequest) -> None:
        """Hold a pull until a message arrives in its queue or its deadline passes."""
        key = (pull.header.topic, pull.header.queue_id)
        self._held.setdefault(key, []).append(pull)
        self._note_due(key, pull)
        self._keys_of.setdefault(pull.connection, {})[key] = None

    def message_arriving(self, topic: str, queue_id: int, max_queue_offset: int) -> None:
        """Note that a queue got messages; its pulls are served after the burst's replies."""
        key = (topic, queue_id)
        if key in self._held:
            self._woken[key] = None

    def serve_woken(self) -> None:
        """Serve the pulls of woken queues, at most a slice of them; the task serves the rest."""
        if self._woken and not self._serve_slice():
            self._more.set()

    def drop_connection(self, connection: Connection) -> None:
        """Forget the pulls of a connection that has ended."""
        for key in self._keys_of.pop(connection, ()):
            pulls = self._held.get(key, [])
            left = [pull for pull in pulls if pull.connection is not connection]
            if len(left) != len(pulls):
                self._dropped_count += len(pulls) - len(left)
                self._keep(key, left)

    def statistics(self) -> PullRequestHoldStatistics:
        """Return the counters."""
        return PullRequestHoldStatistics(
            held=sum(map(len, self._held.values())),
            woken_count=self._woken_count,
            timed_out_count=self._timed_out_count,
            dropped_count=self._dropped_count,
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve what a burst left over and end the pulls whose time is up, until cancelled."""
        task_status.started()
        sweep_at = trio.current_time() + SWEEP_SECONDS
        while True:
            with trio.move_on_at(sweep_at):
                await self._more.wait()
            if self._more.is_set():
                self._more = trio.Event()
                while not self._serve_slice():
                    await trio.lowlevel.checkpoint()
            if trio.current_time() >= sweep_at:  # however much there is to serve
                await self._end_expired()
                self.serve_woken()  # by what an ended pull has left: a message about a moved offset
                sweep_at = trio.current_time() + SWEEP_SECONDS

    # ---- private --------------------------------------------------------------------------------------------------

    def _serve_slice(self) -> bool:
        """Serve about PULLS_PER_SLICE pulls; True when no woken queue is left."""
        budget = PULLS_PER_SLICE
        while self._woken:
            if budget <= 0:
                return False
            key = next(iter(self._woken))
            del self._woken[key]
            pulls = self._held.pop(key, [])
            budget -= len(pulls)
            self._woken_count += len(pulls)
            left = [pull for pull in pulls if not self._is_done(pull, expired=False)]
            self._keep(key, left + self._held.get(key, []))
        return True

    async def _end_expired(self) -> None:
        now = self._swept_at = trio.current_time()
        keys: dict[_Key, None] = {}
        for slot in [slot for slot in self._due if slot <= now * SLOTS_PER_SECOND]:
            keys |= self._due.pop(slot)
        for served, key in enumerate(keys):
            if served % PULLS_PER_SLICE == PULLS_PER_SLICE - 1:
                await trio.lowlevel.checkpoint()
            pulls = self._held.pop(key, None)
            if pulls is None:
                continue
            left = []
            for pull in pulls:
                if pull.deadline > now and not pull.connection.is_closed:
                    left.append(pull)
                    self._note_due(key, pull)
                else:
                    self._timed_out_count += 1
                    done = self._is_done(pull, expired=True)
                    assert done, pull
            self._keep(key, left + self._held.get(key, []))

    def _is_done(self, pull: PullRequest, *, expired: bool) -> bool:
        if pull.connection.is_closed:
            self._dropped_count += 1
            return True
        if not pull.resume(pull, expired):
            return False
        pull.connection.flush()
        return True

    def _note_due(self, key: _Key, pull: PullRequest) -> None:
        looked_at = min(pull.deadline, self._swept_at + LOOKED_AT_SECONDS)
        self._due.setdefault(int(looked_at * SLOTS_PER_SECOND) + 1, {})[key] = None

    def _keep(self, key: _Key, pulls: list[PullRequest]) -> None:
        if pulls:
            self._held[key] = pulls
        else:
            self._held.pop(key, None)
