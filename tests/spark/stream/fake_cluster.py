"""A cluster whose queues, outages and time a test sets."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rocketpy.errors import RemotingConnectError
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.cluster import QueueBounds, Replicas
from rocketpy.spark.stream.watch import QueueWatch

A0, A1, B0 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1), MessageQueue("T", "b", 0)


def replicas(broker_name: str) -> Replicas:
    """Return a broker whose address is its name."""
    return Replicas(broker_name, {0: broker_name}, "ns")


@attrs.define(eq=False)
class FakeCluster:
    """Brokers named by their addresses ``a``, ``b``; ``down`` ones do not answer, ``ns`` among them."""

    bounds: dict[MessageQueue, QueueBounds] = attrs.field(factory=dict)
    hidden: set[MessageQueue] = attrs.field(factory=set)  # not in the routes
    down: set[str] = attrs.field(factory=set)
    now: float = 100.0
    slept: list[float] = attrs.field(factory=list)
    answer_s: float = 0.0

    def subscribed_queues(self) -> Mapping[MessageQueue, Replicas]:
        self._ask("ns")
        return {queue: replicas(queue.broker_name) for queue in self.bounds if queue not in self.hidden}

    def queue_bounds(self, queues: Mapping[MessageQueue, Replicas]) -> Mapping[MessageQueue, QueueBounds]:
        self.now += self.answer_s
        [address] = {each.master for each in queues.values()}
        self._ask(address)
        return {queue: self.bounds[queue] for queue in queues}

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def watch(self) -> QueueWatch:
        return QueueWatch(self, discovery_interval_s=10.0, clock=lambda: self.now, sleep=self.sleep)

    def _ask(self, address: str) -> None:
        if address in self.down:
            raise RemotingConnectError(f"connect to {address} failed")
