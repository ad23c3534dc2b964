"""Cache of routes, and the values derived from them: queues to send to, queues to pull from, addresses.

A table of plain values: :mod:`rocketpy.client.instance` queries the nameservers. Rule: the latest route of any topic
that names a broker decides its addresses.

A route stays when no nameserver knows its topic any more, for as long as it is used: a nameserver that has just started
knows none. It is set aside then, so that a use is seen without a cost for routes that are known.

Compatibility: ``MQClientInstance.topicRouteData2TopicPublishInfo`` and its neighbours (4.9.8).
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.bodies.route import MASTER_ID, TopicRouteData
from rocketpy.protocol.codes import PERM_READ, PERM_WRITE
from rocketpy.protocol.message import MessageQueue

QUEUES_OF_TOPIC_MAX = 65_536
"""Bound on the queues in a route: a number of queues is 4 bytes of an answer, and a MessageQueue each here, which takes
40 ms of the event loop. One broker may have as many of a topic."""
ADDRESSES_OF_TOPIC_MAX = 4_096
"""Bound on the addresses in a route: each gets a connection and heartbeats."""
UNKNOWN_ROUTES_MAX = 1_000
"""Bound on the routes of topics that no nameserver knows any more."""
_QUEUE_NUMS_DIGITS_MAX = 9


class RouteTable:
    """Routes by topic, addresses by broker name."""

    def __init__(self) -> None:
        self._routes: dict[str, TopicRouteData] = {}
        self._publish_queues: dict[str, tuple[MessageQueue, ...]] = {}
        self._addresses: dict[str, Mapping[int, str]] = {}
        # Topics that no nameserver knows and that have not been used since this time, the oldest first. They have no
        # queues to send to in _publish_queues.
        self._unknown: dict[str, float] = {}

    @property
    def topics(self) -> list[str]:
        """The topics whose route is known."""
        return list(self._routes)

    def put(self, topic: str, route: TopicRouteData, queues: tuple[MessageQueue, ...] | None = None) -> bool:
        """Cache a route; True when it contains an address that was not known.

        ``queues`` are those to send to, if the caller has them.
        """
        self._unknown.pop(topic, None)
        self._routes[topic] = route
        self._publish_queues[topic] = publish_queues(topic, route) if queues is None else queues
        before = set(self.broker_addresses())
        for broker in route.broker_datas:
            self._addresses[broker.broker_name] = dict(broker.broker_addrs)
        return not before.issuperset(self.broker_addresses())

    def note_unknown(self, topic: str, now: float) -> None:
        """Note that no nameserver knows a topic: its route is set aside until it is used."""
        if topic in self._routes and topic not in self._unknown:
            if len(self._unknown) >= UNKNOWN_ROUTES_MAX:
                self._forget(next(iter(self._unknown)))
            self._unknown[topic] = now
            del self._publish_queues[topic]

    def note_used(self, topic: str) -> None:
        """Note that a route is used."""
        if self._unknown.pop(topic, None) is not None:
            self._publish_queues[topic] = publish_queues(topic, self._routes[topic])

    def forget_unused(self, oldest: float) -> None:
        """Drop the routes that have been set aside and unused since this time or longer."""
        for topic in [topic for topic, since in self._unknown.items() if since <= oldest]:
            self._forget(topic)

    def forget_unrouted_brokers(self) -> None:
        """Drop the brokers that no route names any more."""
        named = {broker.broker_name for route in self._routes.values() for broker in route.broker_datas}
        for name in self._addresses.keys() - named:
            del self._addresses[name]

    def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues to send to; none when the topic is unknown or cannot be written."""
        found = self._publish_queues.get(topic)
        if found is None and topic in self._unknown:
            self.note_used(topic)
            found = self._publish_queues[topic]
        return found or ()

    def subscribe_queues(self, topic: str) -> list[MessageQueue] | None:
        """Return the queues to pull from, in order; None when the topic is unknown."""
        self.note_used(topic)
        route = self._routes.get(topic)
        return None if route is None else subscribe_queues(topic, route)

    def addresses_of_topic(self, topic: str) -> list[str]:
        """Return an address for each broker of a topic: the master's, or a slave's where there is none."""
        self.note_used(topic)
        route = self._routes.get(topic)
        brokers = [] if route is None else route.broker_datas
        found = [self.subscribe_address(broker.broker_name, MASTER_ID) for broker in brokers]
        return list(dict.fromkeys(address for address in found if address is not None))

    def publish_address(self, broker_name: str) -> str | None:
        """Return the master's address."""
        return self._addresses.get(broker_name, {}).get(MASTER_ID)

    def subscribe_address(self, broker_name: str, broker_id: int) -> str | None:
        """Return the address of that broker id; if it is missing, of the next slave, then of any."""
        addresses = self._addresses.get(broker_name, {})
        found = addresses.get(broker_id)
        if found is None and broker_id != MASTER_ID:
            found = addresses.get(broker_id + 1)
        return found if found is not None else next(iter(addresses.values()), None)

    def broker_addresses(self, *, masters_only: bool = False) -> list[str]:
        """Return the addresses of every broker, each once."""
        return list(
            dict.fromkeys(
                address
                for addresses in self._addresses.values()
                for broker_id, address in addresses.items()
                if broker_id == MASTER_ID or not masters_only
            )
        )

    def _forget(self, topic: str) -> None:
        del self._unknown[topic]
        del self._routes[topic]


def check_route(topic: str, route: TopicRouteData) -> None:
    """RemoteProtocolError for a route with more queues or addresses than a client keeps."""
    counts = {
        "read queues": sum(max(0, each.read_queue_nums) for each in route.queue_datas),
        "write queues": sum(max(0, each.write_queue_nums) for each in route.queue_datas),
        "queues in its order list": sum(nums for _, nums in _order_list(route.order_topic_conf or "")),
    }
    for name, count in counts.items():
        if count > QUEUES_OF_TOPIC_MAX:
            raise RemoteProtocolError(f"route of {topic}: expected at most {QUEUES_OF_TOPIC_MAX} {name}, found {count}")
    addresses = sum(len(broker.broker_addrs) for broker in route.broker_datas)
    if addresses > ADDRESSES_OF_TOPIC_MAX:
        raise RemoteProtocolError(
            f"route of {topic}: expected at most {ADDRESSES_OF_TOPIC_MAX} addresses, found {addresses}"
        )


def publish_queues(topic: str, route: TopicRouteData) -> tuple[MessageQueue, ...]:
    """Return the queues to send to: writable ones of brokers with a master, or those that an order list names."""
    if route.order_topic_conf:
        return tuple(
            MessageQueue(topic, broker_name, queue_id)
            for broker_name, queue_nums in _order_list(route.order_topic_conf)
            for queue_id in range(queue_nums)
        )
    masters = {broker.broker_name for broker in route.broker_datas if MASTER_ID in broker.broker_addrs}
    return tuple(
        MessageQueue(topic, queues.broker_name, queue_id)
        for queues in sorted(route.queue_datas, key=lambda each: each.broker_name)
        if queues.perm & PERM_WRITE and queues.broker_name in masters
        for queue_id in range(queues.write_queue_nums)
    )


def subscribe_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """Return the queues to pull from, in order, also of a broker without a master."""
    return sorted(
        MessageQueue(topic, queues.broker_name, queue_id)
        for queues in route.queue_datas
        if queues.perm & PERM_READ
        for queue_id in range(queues.read_queue_nums)
    )


def route_like(template: TopicRouteData, queue_nums_max: int) -> TopicRouteData:
    """Return the route that a new topic will have, derived from that of its template topic."""
    return attrs.evolve(
        template,
        queue_datas=[
            attrs.evolve(queues, read_queue_nums=nums, write_queue_nums=nums)
            for queues in template.queue_datas
            for nums in [min(queue_nums_max, queues.read_queue_nums)]
        ],
    )


def _order_list(text: str) -> list[tuple[str, int]]:
    """Parse ``broker:number;broker:number``; malformed parts are skipped."""
    entries = []
    for entry in text.split(";"):
        broker_name, colon, number = entry.strip().rpartition(":")
        if colon and broker_name and number.isdecimal() and len(number) <= _QUEUE_NUMS_DIGITS_MAX:
            entries.append((broker_name, int(number)))
    return entries
