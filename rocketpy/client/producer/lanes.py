"""Queues of sends that wait for the same: the route of their topic, or the connection to their broker.

Rule: attempts leave a lane in the order in which they were added. One that has been given up meanwhile is skipped. A
lane has a task as long as it is not empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

from rocketpy.client.producer.delivery import Delivery

StartSoon = Callable[..., None]
"""Starts a task with a function and its arguments."""


class Lane:
    """The attempts that wait under one name, in order."""

    def __init__(self, name: str) -> None:
        self.name = name
        # The number tells an attempt from a later one of the same send.
        self._attempts: deque[tuple[Delivery, int]] = deque()

    def add(self, delivery: Delivery) -> None:
        """Let the present attempt of a send wait."""
        self._attempts.append((delivery, delivery.attempts))

    def first(self) -> Delivery | None:
        """Return the first one that still waits, None when none does. It stays here."""
        attempts = self._attempts
        while attempts:
            delivery, attempt = attempts[0]
            if delivery.waits_in(attempt):
                return delivery
            attempts.popleft()
        return None

    def take_first(self) -> bool:
        """Remove what :meth:`first` has returned; False if it does not wait any more."""
        delivery, attempt = self._attempts.popleft()
        return delivery.waits_in(attempt)

    def take_all(self) -> list[Delivery]:
        """Empty the lane; return those that still waited."""
        waiting = [delivery for delivery, attempt in self._attempts if delivery.waits_in(attempt)]
        self._attempts.clear()
        return waiting


class Lanes:
    """Lanes by name; ``serve`` empties one, in a task of its own."""

    def __init__(self, start_soon: StartSoon, serve: Callable[[Lane], Awaitable[None]]) -> None:
        self._start_soon = start_soon
        self._serve = serve
        self._lanes: dict[str, Lane] = {}
        self.get = self._lanes.get
        """Return the lane of a name, None when nothing waits there. Without a call of its own: each send asks."""

    def open(self, name: str, delivery: Delivery) -> None:
        """Begin a lane with one attempt; only where there is none."""
        assert name not in self._lanes, name
        lane = self._lanes[name] = Lane(name)
        lane.add(delivery)
        self._start_soon(self._run, lane)

    async def _run(self, lane: Lane) -> None:
        try:
            await self._serve(lane)
        finally:
            del self._lanes[lane.name]
