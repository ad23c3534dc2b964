"""Bounded pool of tasks for slow commands and cold reads, in a nursery that the owner opens and closes.

Commands may wait for a peer that never answers, so they never fill the pool: a share is reserved for reads, which end
as soon as the disk has answered. A further limit keeps one connection from filling either share.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable

import trio

TASKS_MAX = 1000
COMMANDS_MAX = 600
"""Limit on commands; the rest of the pool is reserved for reads."""
COMMANDS_PER_OWNER_MAX = 64
READS_PER_OWNER_MAX = 500
"""A consumer of hundreds of queues reads all of them over one connection when it reconnects."""


class TaskKind(enum.Enum):
    """Class of a task, by what it waits for."""

    COMMAND = "a command"  # of an administrator, or a peer that a request is relayed to
    READ = "a read"  # of the disk


_OWNER_MAX = {TaskKind.COMMAND: COMMANDS_PER_OWNER_MAX, TaskKind.READ: READS_PER_OWNER_MAX}


class TaskPool:
    """Counts running tasks and refuses a new one above a limit, or when the nursery is not open."""

    def __init__(
        self, *, nursery: trio.Nursery | None = None, tasks_max: int = TASKS_MAX, commands_max: int = COMMANDS_MAX
    ) -> None:
        self.nursery = nursery
        self._max = {TaskKind.COMMAND: min(commands_max, tasks_max), TaskKind.READ: tasks_max}
        self._tasks_max = tasks_max
        self._running = dict.fromkeys(TaskKind, 0)
        self._running_of: dict[tuple[object, TaskKind], int] = {}  # by owner

    @property
    def running_count(self) -> int:
        """Number of running tasks."""
        return sum(self._running.values())

    def start(
        self, owner: object, kind: TaskKind, function: Callable[..., Awaitable[None]], *arguments: object
    ) -> bool:
        """Start ``function`` as a task; False at a limit or during shutdown."""
        of_owner = self._running_of.get((owner, kind), 0)
        if (
            self.nursery is None
            or self.running_count >= self._tasks_max
            or self._running[kind] >= self._max[kind]
            or of_owner >= _OWNER_MAX[kind]
        ):
            return False
        self._running[kind] += 1
        self._running_of[owner, kind] = of_owner + 1
        self.nursery.start_soon(self._run, owner, kind, function, arguments)
        return True

    async def _run(
        self, owner: object, kind: TaskKind, function: Callable[..., Awaitable[None]], arguments: tuple[object, ...]
    ) -> None:
        try:
            await function(*arguments)
        finally:
            self._running[kind] -= 1
            left = self._running_of[owner, kind] - 1
            if left:
                self._running_of[owner, kind] = left
            else:
                del self._running_of[owner, kind]
