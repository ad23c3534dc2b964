"""Route tables of a nameserver: brokers, clusters and topics, with all queries and changes.

Plain values and the current time go in, values come out; nothing here awaits, logs or knows a socket. The tables are
RocketMQ's (``RouteInfoManager`` 4.9.8) and live in memory only: brokers register again every 30 seconds.

Rules that hold between calls, checked by :meth:`RouteInfoManager.check_invariants`:

- a cluster has at least one broker, a broker at least one address;
- every broker with topics or cluster membership is in the broker table;
- every address of a broker is live, so it can expire; filter servers belong to live addresses;
- no table grows beyond :class:`RouteLimits`.

Rule: no call takes longer than a few milliseconds, however large the tables are. Operations over many topics are
iterators that process one slice per step (``topic_table``); a closed connection costs time for its own brokers only.

Times are seconds of a monotonic clock (Trio's): a wall clock set forward would make every broker expire at once. Queue
entries are replaced, never changed, so they are returned without a copy; broker entries are copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import attrs

from rocketpy.errors import RequestError
from rocketpy.nameserver.topic_table import NAME_LENGTH_MAX, TOPICS_PER_SLICE, TopicLimits, TopicTable
from rocketpy.protocol.bodies.route import MASTER_ID, BrokerData, ClusterInfo, QueueData, TopicList, TopicRouteData
from rocketpy.protocol.bodies.topic import DataVersion, TopicConfig
from rocketpy.protocol.codes import PERM_READ_WRITE, PERM_WRITE, ResponseCode
from rocketpy.protocol.sysflag import TOPIC_UNIT_FLAG, TOPIC_UNIT_SUB_FLAG

ConnectionT = TypeVar("ConnectionT")
"""Type of a connection; compared by identity only."""

BROKER_EXPIRED_SECONDS = 120.0

CLUSTERS_OF_BROKER_MAX = 16
FILTER_SERVERS_MAX = 64


@attrs.frozen(kw_only=True)
class RouteLimits:
    """Bounds of the tables, from the nameserver's settings."""

    brokers_max: int = 1_000  # addresses of brokers, and their entries by name and id
    brokers_per_connection_max: int = 64  # addresses; also names and ids of one address
    topics: TopicLimits = attrs.field(factory=TopicLimits)


@attrs.define(eq=False)
class BrokerLiveInfo(Generic[ConnectionT]):
    """When an address was last heard of, and over which connection."""

    last_update: float  # seconds, the clock of the caller
    data_version: DataVersion
    connection: ConnectionT
    ha_server_addr: str | None
    entries: dict[tuple[str, int], None]  # the broker names and ids that have this address


@attrs.frozen(kw_only=True)
class BrokerRegistration:
    """One address of a broker as it registers, without its topics."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: int
    ha_server_addr: str | None
    data_version: DataVersion
    filter_servers: Sequence[str] | None  # None (an old broker) keeps the known ones


@attrs.frozen
class RegisterBrokerResult:
    """Result of a registration; both addresses are None for a master, or when the master is not registered."""

    ha_server_addr: str | None
    master_addr: str | None
    is_new: bool  # the address was not live before
    takes_topics: bool  # the caller has to put the registration's topics


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
        self._limits = limits or RouteLimits()
        self._topics = TopicTable(self._limits.topics)
        self._broker_addr_table: dict[str, BrokerData] = {}  # broker name -> cluster and addresses by id
        self._broker_entry_count = 0  # of ids in it
        self._cluster_addr_table: dict[str, dict[str, None]] = {}  # cluster -> broker names, in order of arrival
        self._clusters_table: dict[str, dict[str, None]] = {}  # broker name -> clusters
        self._broker_live_table: dict[str, BrokerLiveInfo[ConnectionT]] = {}  # broker address -> life sign
        self._connection_table: dict[ConnectionT, dict[str, None]] = {}  # connection -> the addresses that came over it
        self._filter_server_table: dict[str, list[str]] = {}  # broker address -> filter servers

    # -- registration ---------------------------------------------------------------------------------------------

    def register_broker(
        self, registration: BrokerRegistration, *, connection: ConnectionT, now: float
    ) -> RegisterBrokerResult:
        """Register one address of a broker. When ``takes_topics`` is set, call :meth:`put_topics` next.

        A master's topics are taken only when the data version differs from the last one of this address, or the
        address is new for its id. Therefore a wiped permission survives until the broker changes a topic, and a slave
        promoted to master with an unchanged version still brings its topics.

        Raises :class:`~rocketpy.errors.RequestError`, with nothing changed, when a table is full.
        """
        self._check_room(registration, connection)
        cluster_name, broker_name = registration.cluster_name, registration.broker_name
        broker_addr, broker_id = registration.broker_addr, registration.broker_id
        self._cluster_addr_table.setdefault(cluster_name, {})[broker_name] = None
        self._clusters_table.setdefault(broker_name, {})[cluster_name] = None
        broker = self._broker_addr_table.get(broker_name)
        if broker is None:
            broker = BrokerData(cluster=cluster_name, broker_name=broker_name, broker_addrs={})
            self._broker_addr_table[broker_name] = broker
            self._topics.add_broker(broker_name)
        is_first_of_id = broker_id not in broker.broker_addrs
        is_changed = self.is_data_version_changed(broker_addr, registration.data_version)
        is_new = broker_addr not in self._broker_live_table
        self._note_life(registration, connection, now)
        self._set_address(broker, broker_id, broker_addr)
        self._set_filter_servers(broker_addr, registration.filter_servers)
        takes_topics = broker_id == MASTER_ID and (is_changed or is_first_of_id)
        master_addr = broker.broker_addrs.get(MASTER_ID) if broker_id != MASTER_ID else None
        master = self._broker_live_table.get(master_addr) if master_addr is not None else None
        if master is None:
            return RegisterBrokerResult(None, None, is_new, takes_topics)
        return RegisterBrokerResult(master.ha_server_addr, master_addr, is_new, takes_topics)

    def put_topics(self, broker_name: str, topic_configs: Iterable[TopicConfig]) -> int:
        """Set one slice of topics of a registered broker; return how many were left out because the table is full.

        Topics that are not named keep their entries.
        """
        return self._topics.put(broker_name, topic_configs)

    def is_registered(self, broker_name: str, broker_id: int, broker_addr: str, data_version: DataVersion) -> bool:
        """Whether a registration is current: the address has this id, and its last data version is this one."""
        broker = self._broker_addr_table.get(broker_name)
        is_here = broker is not None and broker.broker_addrs.get(broker_id) == broker_addr
        return is_here and self.data_version_of(broker_addr) == data_version

    def holder_of(self, broker_addr: str) -> ConnectionT | None:
        """Return the connection over which a live address was last registered."""
        live = self._broker_live_table.get(broker_addr)
        return None if live is None else live.connection

    def address_of(self, broker_name: str, broker_id: int) -> str | None:
        """Return the address registered for a broker's id."""
        broker = self._broker_addr_table.get(broker_name)
        return None if broker is None else broker.broker_addrs.get(broker_id)

    def _check_room(self, registration: BrokerRegistration, connection: ConnectionT) -> None:
        """Refuse a registration that would exceed a bound."""
        limits = self._limits
        cluster_name, broker_name = registration.cluster_name, registration.broker_name
        broker_addr, broker_id = registration.broker_addr, registration.broker_id
        for field, name in (("clusterName", cluster_name), ("brokerAddr", broker_addr), ("brokerName", broker_name)):
            if len(name) > NAME_LENGTH_MAX:
                raise _refusal(f"{field}: expected at most {NAME_LENGTH_MAX} characters, found {len(name)}")
        live = self._broker_live_table.get(broker_addr)
        entries = () if live is None else live.entries
        has_entry = self.address_of(broker_name, broker_id) is not None
        if (live is None and len(self._broker_live_table) >= limits.brokers_max) or (
            not has_entry and self._broker_entry_count >= limits.brokers_max
        ):
            raise _refusal(f"expected at most {limits.brokers_max} addresses of brokers (brokersMax)")
        own = self._connection_table.get(connection, {})
        if (broker_addr not in own and len(own) >= limits.brokers_per_connection_max) or (
            (broker_name, broker_id) not in entries and len(entries) >= limits.brokers_per_connection_max
        ):
            raise _refusal(
                f"expected at most {limits.brokers_per_connection_max} brokers over one connection or at one address "
                "(brokersPerConnectionMax)"
            )
        clusters = self._clusters_table.get(broker_name, {})
        if cluster_name not in clusters and len(clusters) >= CLUSTERS_OF_BROKER_MAX:
            raise _refusal(f"expected at most {CLUSTERS_OF_BROKER_MAX} clusters of broker {broker_name}")

    def _note_life(self, registration: BrokerRegistration, connection: ConnectionT, now: float) -> None:
        broker_addr = registration.broker_addr
        known = self._broker_live_table.get(broker_addr)
        if known is not None and known.connection is not connection:
            self._leave_connection(known.connection, broker_addr)
        self._broker_live_table[broker_addr] = BrokerLiveInfo(
            last_update=now,
            data_version=registration.data_version,
            connection=connection,
            ha_server_addr=registration.ha_server_addr,
            entries={} if known is None else known.entries,
        )
        self._connection_table.setdefault(connection, {})[broker_addr] = None

    def _leave_connection(self, connection: ConnectionT, broker_addr: str) -> None:
        own = self._connection_table[connection]
        del own[broker_addr]
        if not own:
            del self._connection_table[connection]

    def _set_address(self, broker: BrokerData, broker_id: int, broker_addr: str) -> None:
        """Assign an address to a broker's id and remove its other ids: a slave may have been promoted to master."""
        name = broker.broker_name
        entries = self._broker_live_table[broker_addr].entries
        for _, other_id in [each for each in entries if each[0] == name and each[1] != broker_id]:
            del entries[name, other_id]
            del broker.broker_addrs[other_id]
            self._broker_entry_count -= 1
        previous = broker.broker_addrs.get(broker_id)
        if previous is None:
            self._broker_entry_count += 1
        elif previous != broker_addr:
            del self._broker_live_table[previous].entries[name, broker_id]
        broker.broker_addrs[broker_id] = broker_addr
        entries[name, broker_id] = None

    def _set_filter_servers(self, broker_addr: str, filter_servers: Sequence[str] | None) -> None:
        if filter_servers:
            self._filter_server_table[broker_addr] = list(filter_servers[:FILTER_SERVERS_MAX])
        elif filter_servers is not None:
            self._filter_server_table.pop(broker_addr, None)

    def is_data_version_changed(self, broker_addr: str, data_version: DataVersion) -> bool:
        """Whether an address is unknown or has another data version, so that its topics may differ."""
        return self.data_version_of(broker_addr) != data_version

    def data_version_of(self, broker_addr: str) -> DataVersion | None:
        """Return the version of the last registration of a live address."""
        live = self._broker_live_table.get(broker_addr)
        return None if live is None else live.data_version

    def touch_broker(self, broker_addr: str, now: float) -> None:
        """Renew the registration of an address; no effect if it is unknown."""
        live = self._broker_live_table.get(broker_addr)
        if live is not None:
            live.last_update = now

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
        found = list(self._connection_table.get(connection, ()))
        return [addr for addr in found or [peer] if self._remove_address(addr)]

    def remove_expired_brokers(self, now: float) -> list[tuple[str, ConnectionT]]:
        """Remove every address whose last registration or version query is more than 120 seconds old.

        Returns the addresses with their connections, which the caller closes.
        """
        expired = [
            (addr, live.connection)
            for addr, live in self._broker_live_table.items()
            if live.last_update + BROKER_EXPIRED_SECONDS < now
        ]
        for addr, _ in expired:
            self._remove_address(addr)
        return expired

    def _remove_address(self, broker_addr: str) -> bool:
        """Remove one address from all tables; return whether it was in any."""
        live = self._broker_live_table.pop(broker_addr, None)
        if live is None:
            return False
        self._leave_connection(live.connection, broker_addr)
        self._filter_server_table.pop(broker_addr, None)
        for name, broker_id in live.entries:
            self._remove_broker_id(self._broker_addr_table[name], broker_id)
        return True

    def _remove_broker_id(self, broker: BrokerData, broker_id: int) -> None:
        """Remove one id of a broker; the last id removes its cluster memberships and topics too."""
        del broker.broker_addrs[broker_id]
        self._broker_entry_count -= 1
        if broker.broker_addrs:
            return
        name = broker.broker_name
        del self._broker_addr_table[name]
        # A broker that has registered with two cluster names is in both sets; Java never removes the second one.
        for cluster in self._clusters_table.pop(name):
            members = self._cluster_addr_table[cluster]
            del members[name]
            if not members:
                del self._cluster_addr_table[cluster]
        self._topics.remove_broker(name)

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
        brokers = [self._broker_addr_table[each.broker_name] for each in queues]
        addresses = [addr for broker in brokers for addr in broker.broker_addrs.values()]
        filter_servers = self._filter_server_table
        return TopicRouteData(
            queue_datas=queues,
            broker_datas=[_copied_broker(broker) for broker in brokers],
            filter_server_table={addr: list(filter_servers[addr]) for addr in addresses if addr in filter_servers},
        )

    def cluster_info(self) -> ClusterInfo:
        """Return every broker and every cluster."""
        return ClusterInfo(
            broker_addr_table={name: _copied_broker(broker) for name, broker in self._broker_addr_table.items()},
            cluster_addr_table={cluster: list(names) for cluster, names in self._cluster_addr_table.items()},
        )

    def all_topics(self) -> Iterator[list[str]]:
        """Yield all topics in slices, like the next four. Concurrent changes may or may not show."""
        return self._topics.topics_where(bool)

    def topics_of_cluster(self, cluster: str) -> Iterator[list[str]]:
        """Yield the topics of all brokers of a cluster; none for an unknown cluster."""
        names = self._cluster_addr_table.get(cluster)
        if names is None:
            return iter(())
        return self._topics.topics_where(lambda queues: any(queue.broker_name in names for queue in queues))

    def system_topics(self) -> TopicList:
        """Return the names of clusters and brokers, which are topics too, and one broker to query for more."""
        topics = list(self._cluster_names())
        broker = next(iter(self._broker_addr_table.values()), None)
        broker_addr = None if broker is None else broker.broker_addrs[min(broker.broker_addrs)]
        return TopicList(topic_list=topics, broker_addr=broker_addr)

    def _cluster_names(self) -> Iterator[str]:
        for cluster, names in self._cluster_addr_table.items():
            yield cluster
            yield from names

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
        return RouteInfoStatistics(
            topics=sum(map(len, self.all_topics())),
            brokers=len(self._broker_addr_table),
            clusters=len(self._cluster_addr_table),
            live_addresses=len(self._broker_live_table),
            filter_server_addresses=len(self._filter_server_table),
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
        self._topics.delete(topic, self._cluster_addr_table.get(cluster_name, {}) if cluster_name else None)

    def check_invariants(self) -> None:
        """Assert the rules of the module docstring; for tests, cost grows with the tables."""
        assert all(self._cluster_addr_table.values()), "a cluster without brokers"
        assert all(broker.broker_addrs for broker in self._broker_addr_table.values()), "a broker without addresses"
        known = self._broker_addr_table.keys()
        assert known == self._topics.broker_names == self._clusters_table.keys(), "a broker in some tables only"
        members = {(cluster, name) for cluster, names in self._cluster_addr_table.items() for name in names}
        assert members == {(each, name) for name, all_of in self._clusters_table.items() for each in all_of}
        entries = {
            (name, broker_id, addr)
            for name, broker in self._broker_addr_table.items()
            for broker_id, addr in broker.broker_addrs.items()
        }
        live = self._broker_live_table
        assert entries == {(*entry, addr) for addr, each in live.items() for entry in each.entries}, (
            "an address that cannot expire"
        )
        assert self._broker_entry_count == len(entries)
        over = {(id(each.connection), addr) for addr, each in live.items()}
        assert over == {(id(each), addr) for each, own in self._connection_table.items() for addr in own}
        assert self._filter_server_table.keys() <= live.keys(), "filter servers of a dead address"
        assert max(len(live), len(entries)) <= self._limits.brokers_max
        self._topics.check_invariants()


def _refusal(remark: str) -> RequestError:
    return RequestError(ResponseCode.SYSTEM_ERROR, f"registration: {remark}")


def _copied_broker(broker: BrokerData) -> BrokerData:
    return BrokerData(cluster=broker.cluster, broker_name=broker.broker_name, broker_addrs=dict(broker.broker_addrs))


def _first_flag(queues: Sequence[QueueData]) -> int:
    return queues[0].topic_sys_flag
