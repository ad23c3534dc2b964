"""Routes of a nameserver: which queues a topic has, and where the brokers are that have them.

Two tables, changed together: brokers with their addresses (``broker_table``), and queues by topic and broker name
(``topic_table``). Plain values and the current time go in, values come out; nothing here awaits, logs or knows a
socket. As in RocketMQ (``RouteInfoManager`` 4.9.8) routes live in memory only: brokers register again every 30 seconds.

Rule between calls: both tables have the same broker names. :meth:`RouteInfoManager.check_invariants` checks it.

Rule: no call takes longer than a few milliseconds, however large the tables are. Operations over many topics are
iterators that process one slice per step (``topic_table``).

Times are seconds of a monotonic clock (Trio's). Queue entries are replaced, never changed, so they are returned without
a copy; broker entries are copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic

import attrs

from rocketpy.nameserver.routes.broker_table import (
    BrokerLimits,
    BrokerRegistration,
    BrokerTable,
    ConnectionT,
    RegisterBrokerResult,
)
from rocketpy.nameserver.routes.topic_table import TOPICS_PER_SLICE, TopicLimits, TopicTable
from rocketpy.protocol.bodies.route import ClusterInfo, QueueData, TopicList, TopicRouteData
from rocketpy.protocol.bodies.topic import DataVersion, TopicConfig
from rocketpy.protocol.codes import PERM_READ_WRITE, PERM_WRITE
from rocketpy.protocol.sysflag import TOPIC_UNIT_FLAG, TOPIC_UNIT_SUB_FLAG


@attrs.frozen(kw_only=True)
class RouteLimits:
    """Bounds of the tables, from the nameserver's settings."""

    brokers: BrokerLimits = attrs.field(factory=BrokerLimits)
    topics: TopicLimits = attrs.field(factory=TopicLimits)


@attrs.frozen
class RouteInfoStatistics:
    """Sizes of the tables."""

    topics: int
    brokers: int
    clusters: int
    live_addresses: int
    filter_server_addresses: int


class RouteInfoManager(Generic[ConnectionT]):
    """The route tables of one nameserver."""

    def __init__(self, limits: RouteLimits | None = None) -> None:
        limits = limits or RouteLimits()
        self._brokers: BrokerTable[ConnectionT] = BrokerTable(limits.brokers)
        self._topics = TopicTable(limits.topics)

    # -- registration ---------------------------------------------------------------------------------------------

    def register_broker(
        self, registration: BrokerRegistration, *, connection: ConnectionT, now: float
    ) -> RegisterBrokerResult:
        """Register one address of a broker; :meth:`.BrokerTable.register` has the rules.

        When ``takes_topics`` is set, call :meth:`put_topics` next.

        Raises :class:`~rocketpy.errors.RequestError`, with nothing changed, when a table is full.
        """
        is_new_name = registration.broker_name not in self._brokers.broker_names
        result = self._brokers.register(registration, connection=connection, now=now)
        if is_new_name:
            self._topics.add_broker(registration.broker_name)
        return result

    def put_topics(self, broker_name: str, topic_configs: Iterable[TopicConfig]) -> int:
        """Set one slice of topics of a registered broker; return how many were left out because the table is full.

        Topics that are not named keep their entries.
        """
        return self._topics.put(broker_name, topic_configs)

    def is_registered(self, broker_name: str, broker_id: int, broker_addr: str, data_version: DataVersion) -> bool:
        """Whether a registration is current: the address has this id, and its last data version is this one."""
        is_here = self._brokers.address_of(broker_name, broker_id) == broker_addr
        return is_here and self._brokers.data_version_of(broker_addr) == data_version

    def holder_of(self, broker_addr: str) -> ConnectionT | None:
        """Return the connection over which a live address was last registered."""
        return self._brokers.holder_of(broker_addr)

    def address_of(self, broker_name: str, broker_id: int) -> str | None:
        """Return the address registered for a broker's id."""
        return self._brokers.address_of(broker_name, broker_id)

    def data_version_of(self, broker_addr: str) -> DataVersion | None:
        """Return the version of the last registration of a live address."""
        return self._brokers.data_version_of(broker_addr)

    def touch_broker(self, broker_addr: str, now: float) -> None:
        """Renew the registration of an address; no effect if it is unknown."""
        self._brokers.touch(broker_addr, now)

    # -- removal --------------------------------------------------------------------------------------------------

    def unregister_broker(self, broker_addr: str) -> bool:
        """Remove an address that unregisters; return whether it was known.

        Compatibility: Java removes the broker id of the request, whatever address has it by then, and so removes a
        successor that has registered already. Here only the address counts.
        """
        return self._remove_address(broker_addr)

    def remove_connection(self, connection: ConnectionT, peer: str) -> list[str]:
        """Remove every address that last registered over a closed connection; return them.

        If there is none, the peer's own ``ip:port`` is taken as a broker address, as in Java.
        Compatibility: Java removes one address per connection; the others remain until they expire.
        """
        found = self._brokers.addresses_over(connection)
        return [addr for addr in found or [peer] if self._remove_address(addr)]

    def remove_expired_brokers(self, now: float) -> list[tuple[str, ConnectionT]]:
        """Remove every address whose last registration or version query is more than 120 seconds old.

        Returns the addresses with their connections, which the caller closes.
        """
        expired = self._brokers.expired(now)
        for addr, _ in expired:
            self._remove_address(addr)
        return expired

    def _remove_address(self, broker_addr: str) -> bool:
        """Remove one address from all tables; return whether it was in any."""
        gone = self._brokers.remove(broker_addr)
        if gone is None:
            return False
        for broker_name in gone:
            self._topics.remove_broker(broker_name)
        return True

    def purge(self, topics_max: int = TOPICS_PER_SLICE) -> bool:
        """Free one slice of the topics of removed brokers; return whether there may be more."""
        return self._topics.purge(topics_max)

    # -- queries --------------------------------------------------------------------------------------------------

    def pick_up_topic_route_data(self, topic: str) -> TopicRouteData | None:
        """Return the route of a topic, or None if no registered broker has it.

        Brokers without write permission are included: clients check ``perm`` themselves.
        """
        queues = self._topics.queues_of(topic)
        if not queues:
            return None
        brokers = [self._brokers.broker(each.broker_name) for each in queues]
        addresses = [addr for broker in brokers for addr in broker.broker_addrs.values()]
        return TopicRouteData(
            queue_datas=queues,
            broker_datas=brokers,
            filter_server_table=self._brokers.filter_servers_of(addresses),
        )

    def cluster_info(self) -> ClusterInfo:
        """Return every broker and every cluster."""
        return self._brokers.cluster_info()

    @property
    def topics_version(self) -> int:
        """The number of changes of topics and their queues so far: while it is equal, so are the next four."""
        return self._topics.version

    def brokers_of_cluster(self, cluster: str) -> frozenset[str]:
        """Return the names of a cluster's brokers; none for an unknown cluster."""
        return frozenset(self._brokers.brokers_of_cluster(cluster))

    def all_topics(self) -> Iterator[list[str]]:
        """Yield all topics in slices, like the next four. Concurrent changes may or may not show."""
        return self._topics.topics_where(bool)

    def topics_of_cluster(self, cluster: str) -> Iterator[list[str]]:
        """Yield the topics of all brokers of a cluster; none for an unknown cluster."""
        names = self._brokers.brokers_of_cluster(cluster)
        if not names:
            return iter(())
        return self._topics.topics_where(lambda queues: any(queue.broker_name in names for queue in queues))

    def system_topics(self) -> TopicList:
        """Return the names of clusters and brokers, which are topics too, and one broker to query for more."""
        return self._brokers.system_topics()

    def unit_topics(self) -> Iterator[list[str]]:
        """Yield the topics of a unit. This and the next two use the flags of the topic's first broker."""
        return self._topics.topics_where(lambda queues: bool(_first_flag(queues) & TOPIC_UNIT_FLAG))

    def unit_sub_topics(self) -> Iterator[list[str]]:
        """Yield the topics that a unit subscribes to."""
        return self._topics.topics_where(lambda queues: bool(_first_flag(queues) & TOPIC_UNIT_SUB_FLAG))

    def unit_sub_ununit_topics(self) -> Iterator[list[str]]:
        """Yield the topics that a unit subscribes to and that belong to no unit."""
        both = TOPIC_UNIT_FLAG | TOPIC_UNIT_SUB_FLAG
        return self._topics.topics_where(lambda queues: _first_flag(queues) & both == TOPIC_UNIT_SUB_FLAG)

    def statistics(self) -> RouteInfoStatistics:
        """Return the sizes of the tables."""
        brokers = self._brokers.statistics()
        return RouteInfoStatistics(
            topics=sum(map(len, self.all_topics())),
            brokers=brokers.brokers,
            clusters=brokers.clusters,
            live_addresses=brokers.live_addresses,
            filter_server_addresses=brokers.filter_server_addresses,
        )

    # -- administration -------------------------------------------------------------------------------------------

    def wipe_write_perm(self, broker_name: str) -> Iterator[int]:
        """Remove write permission from every topic of a broker, in memory only; yield each slice's topic count."""
        return self._topics.change_perm(broker_name, lambda perm: perm & ~PERM_WRITE)

    def add_write_perm(self, broker_name: str) -> Iterator[int]:
        """Set every topic of a broker to read-write (other bits are dropped, as in Java); yield each slice's count."""
        return self._topics.change_perm(broker_name, lambda perm: PERM_READ_WRITE)

    def delete_topic(self, topic: str, cluster_name: str | None = None) -> None:
        """Delete a topic, or its entries in one cluster; it reappears when a broker that still has it registers."""
        self._topics.delete(topic, self._brokers.brokers_of_cluster(cluster_name) if cluster_name else None)

    def check_invariants(self) -> None:
        """Assert the rules of both tables, and that they have the same brokers; for tests."""
        assert self._brokers.broker_names == self._topics.broker_names, "a broker in one table only"
        self._brokers.check_invariants()
        self._topics.check_invariants()


def _first_flag(queues: Sequence[QueueData]) -> int:
    return queues[0].topic_sys_flag
