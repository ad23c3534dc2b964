"""Looks the route of a group's retry topic up as soon as a broker has taken a message back to it.

Brokers make the retry topic of a new group, each for itself, and register it a moment later. A member that looks in
between learns of some brokers' queues, or of none, and of the others with the next refresh of all routes: up to 30
seconds, and a rebalance, in which messages that are due again wait.

Rule: a look-up only for a broker whose queue of the topic is not known, and with a pause that doubles; after
:data:`ATTEMPTS` it is left to the regular refresh.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from rocketpy.client.route_finder import RouteFinder

PAUSE_SECONDS = 1.0
ATTEMPTS = 5


class RetryRoute:
    """The route of the retry topic of one group. ``rebalance`` is called when a broker's queue has become known."""

    def __init__(self, *, routes: RouteFinder, retry_topic: str, rebalance: Callable[[], None]) -> None:
        self._routes = routes
        self._retry_topic = retry_topic
        self._rebalance = rebalance
        self._missing: set[str] = set()  # brokers that have taken a message back, and whose queue is not known
        self._wanted = trio.Event()

    def note_sent_back(self, broker_name: str) -> None:
        """Note that a broker has taken a message of the group back."""
        if not self._is_known(broker_name) and broker_name not in self._missing:
            self._missing.add(broker_name)
            self._wanted.set()

    async def run(self) -> None:
        """Look up what is missing, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            pause_s = PAUSE_SECONDS
            for _ in range(ATTEMPTS):
                await trio.sleep(pause_s)  # before the first one, too: the broker registers the topic now
                pause_s *= 2
                await self._routes.look_up_subscribed(self._retry_topic, anew=True)
                known = {each for each in self._missing if self._is_known(each)}
                if known:
                    self._rebalance()
                self._missing -= known
                if not self._missing:
                    break
            self._missing.clear()

    def _is_known(self, broker_name: str) -> bool:
        queues = self._routes.table.subscribe_queues(self._retry_topic) or ()
        return any(queue.broker_name == broker_name for queue in queues)
