"""Calls a program's task for each queue that its pull consumer has, again and again.

The calls of one queue follow one another, those of several queues are concurrent. A queue that a rebalance has taken is
called for no longer, but a call that runs comes to its end; a queue that comes back waits for it.

Compatibility: ``MQPullConsumerScheduleService`` (4.9.8). There the calls share twenty threads, and a queue that comes
back may have two calls at once.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable

import trio

from rocketpy.client.consumer.group.assignment_changes import AssignmentChange
from rocketpy.client.program_call import ProgramCall
from rocketpy.client.states import Trouble
from rocketpy.errors import RocketpyError
from rocketpy.protocol.message import MessageQueue

PULL_DELAY_SECONDS = 0.2
FAILURE_DELAY_SECONDS = 1.0

PullTask = Callable[[MessageQueue], Awaitable[float | None]]
"""Pulls a queue once, and returns the seconds until its next call; None for :data:`PULL_DELAY_SECONDS`."""

_log = logging.getLogger("rocketpy.client")


class ScheduledPull:
    """The calls of one task, for the queues of one topic."""

    def __init__(self, topic: str, task: PullTask) -> None:
        self._topic = topic
        self._task = task
        self._wanted: frozenset[MessageQueue] = frozenset()
        self._running: set[MessageQueue] = set()
        self._changed = trio.Event()

    async def run(self, changes: AsyncIterable[AssignmentChange]) -> None:
        """Call the task for the queues that are assigned, until there are no more changes."""
        async with trio.open_nursery() as nursery:
            async for change in changes:
                if change.topic == self._topic:
                    self._want(change.assigned, nursery)
            self._want((), nursery)

    def _want(self, queues: Iterable[MessageQueue], nursery: trio.Nursery) -> None:
        self._wanted = frozenset(queues)
        changed, self._changed = self._changed, trio.Event()
        changed.set()
        for queue in sorted(self._wanted - self._running):
            self._running.add(queue)
            nursery.start_soon(self._repeat, queue)

    async def _repeat(self, queue: MessageQueue) -> None:
        trouble = Trouble(f"the pull task of {queue}")
        while queue in self._wanted:
            delay_s = await self._call(queue, trouble)
            with trio.move_on_after(delay_s):
                while queue in self._wanted:
                    await self._changed.wait()
        self._running.discard(queue)  # no await since it was seen that the queue is not wanted

    async def _call(self, queue: MessageQueue, trouble: Trouble) -> float:
        with ProgramCall(_log, "the pull task of %s", queue):
            try:
                delay_s = await self._task(queue)
            except RocketpyError as failure:
                trouble.begin(failure)
                return FAILURE_DELAY_SECONDS
            trouble.end()
            if delay_s is None:
                return PULL_DELAY_SECONDS
            if not delay_s >= 0:
                raise ValueError(f"expected the seconds until the next pull of {queue}, found {delay_s!r}")
            return delay_s
        return FAILURE_DELAY_SECONDS
