"""View of the cluster over the life of a query: which queues there are, and what each holds.

A query outlives restarts of brokers and nameservers, so a failure is no failure of the query: queues of a broker that
does not answer stand still, and everything else goes on. Each outage is one warning, and its end one line. Only where
an incomplete view would be wrong (the first offsets of a query, the end of Trigger.AvailableNow) is it an error.

A broker that stops takes its topics off the nameserver, which looks the same as a deleted topic. So a queue that the
routes no longer name is asked for at the address where it was last, as long as the query has an offset of it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

import attrs

from rocketpy.errors import BrokerError, ClientError, RemoteProtocolError, RemotingError
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.cluster import QueueBounds, Replicas

LOOK_INTERVAL_S = 0.05
"""Least time between two looks of an idle query, which Spark polls every 10 ms."""
LOOK_SHARE = 10
"""An idle query with many queues pauses so many times as long as it asks ..."""
PAUSE_MAX_S = 1.0
"""... but no longer than this."""

PEER_FAILURES = (RemotingError, RemoteProtocolError, BrokerError, ClientError)
"""What a call to the cluster fails with when a peer, or the way to it, is the cause."""

_ROUTES = "routes"

_log = logging.getLogger("rocketpy.spark.stream")


class WatchedCluster(Protocol):
    """What is asked of a cluster. Both calls raise :data:`PEER_FAILURES`."""

    def subscribed_queues(self) -> Mapping[MessageQueue, Replicas]:
        """Return the readable queues of the subscription, each with the brokers that have it."""

    def queue_bounds(self, queues: Mapping[MessageQueue, Replicas]) -> Mapping[MessageQueue, QueueBounds]:
        """Return what one broker has of queues."""


@attrs.frozen
class Look:
    """``bounds`` of every queue whose broker has answered. ``unknown``: queues that were never in a route."""

    bounds: Mapping[MessageQueue, QueueBounds]
    unknown: frozenset[MessageQueue]


@attrs.define(eq=False)
class QueueWatch:
    """Looks at the queues of a subscription, again and again."""

    _cluster: WatchedCluster = attrs.field(alias="cluster")
    _discovery_interval_s: float = attrs.field(alias="discovery_interval_s", kw_only=True)
    _clock: Callable[[], float] = attrs.field(alias="clock", kw_only=True)  # monotonic, in seconds
    _sleep: Callable[[float], None] = attrs.field(alias="sleep", kw_only=True)
    _replicas: dict[MessageQueue, Replicas] = attrs.field(factory=dict, init=False)  # the last ones known
    _next_discovery: float = attrs.field(default=0.0, init=False)
    _outages: set[str] = attrs.field(factory=set, init=False)  # names of brokers, and the word for all nameservers
    _last_look: Look | None = attrs.field(default=None, init=False)
    _next_look: float = attrs.field(default=0.0, init=False)

    def look(self, known: Collection[MessageQueue]) -> Look:
        """Return what can be seen of the subscription's queues and of those already ``known`` to the query.

        An idle query, whose last two looks saw the same, waits before the next one.
        """
        if (now := self._clock()) < self._next_look:
            self._sleep(self._next_look - now)
        begun = self._clock()
        if begun >= self._next_discovery:
            self._discover_or_keep(known)
        look = Look(self._bounds(is_complete=False), self._unknown(known))
        now = self._clock()
        is_idle = look == self._last_look
        pause = min(PAUSE_MAX_S, max(LOOK_INTERVAL_S, (now - begun) * LOOK_SHARE))
        self._next_look = now + pause if is_idle else now
        self._last_look = look
        return look

    def look_at_everything(self, known: Collection[MessageQueue]) -> Look:
        """Return a complete view, asked for now; the error of the first peer that does not answer otherwise.

        A queue that was seen before is a part of it: its broker may be away, and with it the route.
        """
        self._discover(self._replicas)
        return Look(self._bounds(is_complete=True), self._unknown(known))

    @property
    def replicas(self) -> Mapping[MessageQueue, Replicas]:
        """The brokers of all queues that the routes name, or the query has an offset of, as last known."""
        return self._replicas

    def find(self, queue: MessageQueue) -> Replicas | None:
        """Return the brokers that have a queue, as far as known; None if no route has named it."""
        if queue not in self._replicas:
            self._discover(self._replicas)
        return self._replicas.get(queue)

    def _discover(self, known: Collection[MessageQueue]) -> None:
        kept = {queue: replicas for queue, replicas in self._replicas.items() if queue in known}
        self._replicas = {**kept, **self._cluster.subscribed_queues()}
        self._outages &= {_ROUTES, *(_broker(queue.broker_name) for queue in self._replicas)}
        self._next_discovery = self._clock() + self._discovery_interval_s

    def _discover_or_keep(self, known: Collection[MessageQueue]) -> None:
        try:
            self._discover(known)
        except PEER_FAILURES as error:
            self._outage(_ROUTES, f"no routes, topics and queues are those known before: {error}")
        else:
            self._answered(_ROUTES)

    def _unknown(self, known: Iterable[MessageQueue]) -> frozenset[MessageQueue]:
        return frozenset(queue for queue in known if queue not in self._replicas)

    def _bounds(self, *, is_complete: bool) -> dict[MessageQueue, QueueBounds]:
        by_broker: dict[str, dict[MessageQueue, Replicas]] = defaultdict(dict)
        for queue, replicas in self._replicas.items():
            by_broker[queue.broker_name][queue] = replicas
        found: dict[MessageQueue, QueueBounds] = {}
        for broker_name, queues in sorted(by_broker.items()):
            try:
                found.update(self._cluster.queue_bounds(queues))
            except PEER_FAILURES as error:
                if is_complete:
                    raise
                self._outage(_broker(broker_name), f"{len(queues)} queues of broker {broker_name} stand still: {error}")
            else:
                self._answered(_broker(broker_name))
        return found

    def _outage(self, peer: str, why: str) -> None:
        if peer not in self._outages:
            self._outages.add(peer)
            _log.warning("stream: %s", why)

    def _answered(self, peer: str) -> None:
        if peer in self._outages:
            self._outages.remove(peer)
            _log.warning("stream: %s: answers again", peer)


def _broker(name: str) -> str:
    return f"broker {name}"
