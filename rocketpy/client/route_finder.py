"""Finds queues and addresses: from the cached routes if possible, else with one look-up for concurrent callers.

Rule: a cached route stays when a nameserver no longer knows the topic (one that has just started knows none), until a
new route replaces it or nothing has used it for ten minutes.

Compatibility: ``MQClientInstance.updateTopicRouteInfoFromNameServer``, ``findBrokerAddressInSubscribe`` and
``findBrokerAddressInPublish`` (4.9.8).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

import attrs
import trio

from rocketpy.client.name_servers import NameServers
from rocketpy.client.routes import RouteTable, publish_queues, route_like, subscribe_queues
from rocketpy.client.states import ClientStates, StateSubject
from rocketpy.errors import (
    BrokerError,
    NoBrokerError,
    NoRouteError,
    RemoteProtocolError,
    RemotingError,
    RocketpyError,
)
from rocketpy.protocol.bodies.route import MASTER_ID, TopicRouteData
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.topic_name import AUTO_CREATE_TOPIC_KEY_TOPIC, RETRY_PREFIX

UNUSED_SECONDS = 600.0
"""How long a route stays that nothing uses, of a topic that no nameserver knows any more."""
SHOWN_BROKERS = 5
"""How many brokers an error names."""


@attrs.frozen
class TopicTemplate:
    """What a topic that does not exist yet is going to be like: a topic to copy, and the number of queues at most."""

    create_topic_key: str = AUTO_CREATE_TOPIC_KEY_TOPIC
    default_topic_queue_nums: int = 4


class RouteFinder:
    """Queues of topics and addresses of brokers. ``found_brokers`` is called when a new address has become known."""

    def __init__(self, name_servers: NameServers, *, found_brokers: Callable[[], None], states: ClientStates) -> None:
        self.table = RouteTable()
        """The cached routes."""
        self._name_servers = name_servers
        self._found_brokers = found_brokers
        self._states = states
        # One task looks a topic up while the others wait for its result: the request awaits.
        self._looking_up: dict[str, trio.Lock] = {}
        self._followed: Counter[str] = Counter()  # roles by topic

    @contextmanager
    def following(self, topics: Iterable[str]) -> Iterator[None]:
        """Refresh the routes of topics while the block runs, whether they are known and used or not."""
        followed = dict.fromkeys(topics)
        self._followed.update(followed.keys())
        try:
            yield
        finally:
            self._followed.subtract(followed.keys())
            self._followed += Counter()  # drops what is followed no more

    async def publish_queues(self, topic: str, template: TopicTemplate | None = None) -> tuple[MessageQueue, ...]:
        """Return the queues a producer may send to, those of the template topic when the topic is new.

        Cached if possible. NoRouteError when there are none.
        """
        queues = self.table.publish_queues(topic)
        if not queues:
            lock = self._looking_up.setdefault(topic, trio.Lock())
            try:
                async with lock:
                    queues = self.table.publish_queues(topic) or await self._look_up_for_sending(
                        topic, template or TopicTemplate()
                    )
            finally:
                if not lock.locked():  # the last one that waited
                    self._looking_up.pop(topic, None)
        return queues

    async def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """Fetch the queues a consumer may pull from, in order; NoRouteError when no broker has the topic."""
        route = await self._name_servers.find_route(topic)
        if route is None:
            raise await self._no_route(topic, "no broker has it")
        self._put(topic, route)
        return subscribe_queues(topic, route)

    async def look_up_subscribed(self, topic: str, *, anew: bool = False) -> list[MessageQueue] | None:
        """Return the queues of a topic that is consumed, looked up if need be or ``anew``; None while there are none.

        That is a state of the client, and no error: the topic may be created later. A retry topic comes with its
        group, so that it has none in the beginning is not even worth a line.
        """
        queues = self.table.subscribe_queues(topic)
        if queues is None or anew:
            reason: object = "no nameserver has a route"
            try:
                await self.look_up_again(topic)
            except RocketpyError as failure:
                reason = failure
            self._states.log(StateSubject.NAME_SERVER)
            queues = self.table.subscribe_queues(topic)
            if queues is None:
                if not topic.startswith(RETRY_PREFIX):
                    self._states.fails(StateSubject.ROUTE, topic, reason)
                return None
        self._states.works(StateSubject.ROUTE, topic)
        return queues

    async def publish_address(self, queue: MessageQueue) -> str:
        """Return the address of a queue's master; NoBrokerError when a fresh look-up finds none either."""
        self.table.note_used(queue.topic)
        address = self.table.publish_address(queue.broker_name)
        if address is None:
            await self.look_up_again(queue.topic)
            address = self.table.publish_address(queue.broker_name)
        if address is None:
            raise no_broker(queue.broker_name)
        return address

    async def offset_address(self, queue: MessageQueue) -> str:
        """Return the address that has a queue's progress: the master's, that of a slave while there is no master.

        NoBrokerError when a fresh look-up finds neither.
        """
        if self.table.publish_address(queue.broker_name) is None:
            with suppress(RemotingError, BrokerError, RemoteProtocolError):  # a slave that is known already will do
                await self.look_up_again(queue.topic)
        return await self.subscribe_address(queue)

    async def subscribe_address(self, queue: MessageQueue, broker_id: int = MASTER_ID) -> str:
        """Return the address to pull a queue from: that broker id if registered, else another of the same name."""
        self.table.note_used(queue.topic)
        address = self.table.subscribe_address(queue.broker_name, broker_id)
        if address is None:
            await self.look_up_again(queue.topic)
            address = self.table.subscribe_address(queue.broker_name, broker_id)
        if address is None:
            raise no_broker(queue.broker_name)
        return address

    async def refresh(self) -> None:
        """Look every known or followed topic up again; cached routes stay when no nameserver can be reached."""
        for topic in dict.fromkeys((*self._followed, *self.table.topics)):
            try:
                await self.look_up_again(topic)
            except RemotingError:
                return
            except (BrokerError, RemoteProtocolError):
                continue
            finally:
                self._states.log(StateSubject.NAME_SERVER)
        self.table.forget_unused(trio.current_time() - UNUSED_SECONDS)
        self.table.forget_unrouted_brokers()

    async def look_up_again(self, topic: str) -> None:
        """Fetch the route of a topic and cache it, if a nameserver knows it."""
        route = await self._name_servers.find_route(topic)
        if route is None:
            self.table.note_unknown(topic, trio.current_time())
        else:
            self._put(topic, route)

    async def _look_up_for_sending(self, topic: str, template: TopicTemplate) -> tuple[MessageQueue, ...]:
        route = await self._name_servers.find_route(topic)
        if route is None:
            like = await self._name_servers.find_route(template.create_topic_key)
            if like is None:
                raise await self._no_route(
                    topic, f"no broker has it, nor {template.create_topic_key}: none creates topics on its own"
                )
            route = route_like(like, template.default_topic_queue_nums)
        queues = publish_queues(topic, route)
        if not queues:
            raise no_route(topic, _why_not_writable(route))
        self._put(topic, route, queues)
        return queues

    async def _no_route(self, topic: str, reason: str) -> NoRouteError:
        """Return the error for a topic that no nameserver knows: for the reason, or because there is no broker at all.

        Nameservers that do not answer are an error of their own, and do not come here.
        """
        try:
            brokers = (await self._name_servers.cluster_info()).broker_addr_table
        except (RemotingError, BrokerError, RemoteProtocolError):
            return no_route(topic, reason)
        if not brokers:
            return no_route(topic, f"no broker is registered at {', '.join(self._name_servers.addresses)}")
        return no_route(topic, f"{reason} (registered: {_shown(brokers)})")

    def _put(self, topic: str, route: TopicRouteData, queues: tuple[MessageQueue, ...] | None = None) -> None:
        if self.table.put(topic, route, queues):
            self._found_brokers()


def no_route(topic: str, reason: str) -> NoRouteError:
    """Return the error for a topic without a route that can be used, and why there is none."""
    return NoRouteError(f"No route info of this topic: {topic}: {reason}")


def no_broker(broker_name: str) -> NoBrokerError:
    """Return the error for a broker that no nameserver knows."""
    return NoBrokerError(f"The broker[{broker_name}] not exist")


def _why_not_writable(route: TopicRouteData) -> str:
    masters = {broker.broker_name for broker in route.broker_datas if MASTER_ID in broker.broker_addrs}
    if not masters:
        return f"no master is registered of its brokers ({_shown(each.broker_name for each in route.broker_datas)})"
    perms = ", ".join(f"{each.broker_name} perm {each.perm}" for each in route.queue_datas[:SHOWN_BROKERS])
    return f"no broker with a master lets it be written ({perms})"


def _shown(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - SHOWN_BROKERS} more" if len(listed) > SHOWN_BROKERS else ""
    return ", ".join(listed[:SHOWN_BROKERS]) + more
