"""Which queue a message goes to, when its sender does not say.

Queues of a topic take turns, beginning with a random one. After a failed attempt the queues of its broker are skipped
when there are others. With :class:`~rocketpy.client.producer.broker_health.BrokerHealth` the brokers that are
unavailable are skipped; if all are, one of the better half of them gets the message.

Compatibility: ``TopicPublishInfo.selectOneMessageQueue`` and ``MQFaultStrategy`` (4.9.8). Java counts the turns of each
thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import trio

from rocketpy.client.producer.broker_health import BrokerHealth
from rocketpy.protocol.message import MessageQueue

TURNS_MAX = 10_000
"""Bound on the topics whose turns are kept; beyond it all begin again, each with a random queue."""


class QueueChoice:
    """The turns of one producer; ``health`` is None unless slow brokers are avoided."""

    def __init__(self, *, randomness: Random, health: BrokerHealth | None = None) -> None:
        self._randomness = randomness
        self._health = health
        self.tracks_health = health is not None
        """Whether :meth:`note_answer` does anything."""
        self._turns: dict[str, int] = {}  # by topic: one counter for all would give two topics half of their queues

    def choose(self, topic: str, queues: Sequence[MessageQueue], last_broker: str | None) -> MessageQueue:
        """Return the next queue; ``last_broker`` has just failed."""
        if self._health is not None:
            return self._choose_available(topic, queues, self._health)
        queue = self._next(topic, queues)
        if last_broker is not None:
            for _ in range(len(queues)):
                if queue.broker_name != last_broker:
                    break
                queue = self._next(topic, queues)
        return queue

    def note_answer(self, broker_name: str, latency_s: float, *, isolation: bool) -> None:
        """Note how long a broker took; with ``isolation`` it failed."""
        if self._health is not None:
            self._health.update(broker_name, latency_s * 1000, now=trio.current_time(), isolation=isolation)

    def _next(self, topic: str, queues: Sequence[MessageQueue]) -> MessageQueue:
        turn = self._turns.get(topic)
        if turn is None:
            if len(self._turns) >= TURNS_MAX:
                self._turns.clear()
            turn = self._randomness.getrandbits(16)
        self._turns[topic] = turn = turn + 1
        return queues[turn % len(queues)]

    def _choose_available(self, topic: str, queues: Sequence[MessageQueue], health: BrokerHealth) -> MessageQueue:
        now = trio.current_time()
        first = self._next(topic, queues)
        start = queues.index(first)
        for distance in range(len(queues)):
            queue = queues[(start + distance) % len(queues)]
            if health.is_available(queue.broker_name, now):
                return queue
        least_bad = health.pick_one_at_least(now)
        queue_nums = sum(each.broker_name == least_bad for each in queues)
        if least_bad is not None and queue_nums:
            self._turns[topic] += 2  # three turns in all, as in Java: an even number would skip every other queue
            return MessageQueue(topic, least_bad, self._turns[topic] % queue_nums)
        if least_bad is not None:
            health.remove(least_bad)
        return self._next(topic, queues)
