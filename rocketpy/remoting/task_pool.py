"""A bounded number of tasks for slow commands and cold reads, in a nursery that its owner opens and closes.

Commands may wait for a peer that never answers, so they never have the whole pool: a share of it is kept for reads,
which end as soon as the disk has answered. And no connection has all of either.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable

import trio

TASKS_MAX = 1000
COMMANDS_MAX = 600
"""Of them commands: what is left is kept for reads."""
COMMANDS_PER_OWNER_MAX = 64
READS_PER_OWNER_MAX = 500
"""A consumer of hundreds of queues reads all of them over one connection when it comes back."""


class TaskKind(enum.Enum):
    """What a task waits for."""

    COMMAND = "a command"  # of an administrator, or a peer that a request is relayed to
    READ = "a read"  # of the disk


_OWNER_MAX = {TaskKind.COMMAND: COMMANDS_PER_OWNER_MAX, TaskKind.READ: READS_PER_OWNER_MAX}


class TaskPool:
    """Counts tasks; refuses one more above a bound, or when the nursery is not open."""

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
        """How many tasks run now."""
        return sum(self._running.values())

    def start(
        self, owner: object, kind: TaskKind, function: Callable[..., Awaitable[None]], *arguments: object
    ) -> bool:
        """Start ``function`` as a task; False when there are too many or the program is closing."""
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
