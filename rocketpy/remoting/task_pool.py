"""A bounded number of tasks for slow commands, in a nursery that its owner opens and closes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

TASKS_MAX = 1000


class TaskPool:
    """Counts tasks; refuses one more above the bound, or when the nursery is not open."""

    def __init__(self, *, nursery: trio.Nursery | None = None, tasks_max: int = TASKS_MAX) -> None:
        self.nursery = nursery
        self._tasks_max = tasks_max
        self._running_count = 0

    @property
    def running_count(self) -> int:
        """How many tasks run now."""
        return self._running_count

    def start(self, function: Callable[..., Awaitable[None]], *arguments: object) -> bool:
        """Start ``function`` as a task; False when there are too many or the program is closing."""
        if self.nursery is None or self._running_count >= self._tasks_max:
            return False
        self._running_count += 1
        self.nursery.start_soon(self._run, function, *arguments)
        return True

    async def _run(self, function: Callable[..., Awaitable[None]], *arguments: object) -> None:
        try:
            await function(*arguments)
        finally:
            self._running_count -= 1
