"""Long polling: keeps the pulls that found nothing until a message arrives or their time is up.

One table, ``(topic, queue id) -> held pulls``. The store notes each queue that got messages once per burst; when the
burst's own replies have left, every woken queue's pulls are served once, a bounded number at a time: the service's task
takes the rest in slices. A pull whose filter matches nothing goes on waiting from where it has looked.

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
PULLS_PER_SLICE = 64


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
        self._held: dict[tuple[str, int], list[PullRequest]] = {}
        self._woken: dict[tuple[str, int], None] = {}  # ordered, each once
        self._more = trio.Event()
        self._woken_count = 0
        self._timed_out_count = 0
        self._dropped_count = 0

    def suspend(self, pull: PullRequest) -> None:
        """Hold a pull until a message arrives in its queue or its deadline passes."""
        self._held.setdefault((pull.header.topic, pull.header.queue_id), []).append(pull)

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
        if connection.deferred_count == 0:
            return
        for key, pulls in list(self._held.items()):
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
        while True:
            with trio.move_on_after(SWEEP_SECONDS):
                await self._more.wait()
            if self._more.is_set():
                self._more = trio.Event()
                while not self._serve_slice():
                    await trio.lowlevel.checkpoint()
            else:
                await self._end_expired()

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
        now = trio.current_time()
        for served, key in enumerate(list(self._held)):
            if served % PULLS_PER_SLICE == PULLS_PER_SLICE - 1:
                await trio.lowlevel.checkpoint()
            pulls = self._held.get(key)
            if pulls is None or all(pull.deadline > now and not pull.connection.is_closed for pull in pulls):
                continue
            del self._held[key]
            left = []
            for pull in pulls:
                if pull.deadline > now and not pull.connection.is_closed:
                    left.append(pull)
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

    def _keep(self, key: tuple[str, int], pulls: list[PullRequest]) -> None:
        if pulls:
            self._held[key] = pulls
        else:
            self._held.pop(key, None)
