"""Table of brokers: their ids and addresses, the clusters they belong to, and the connections that keep them live.

It knows no topics; those belong to ``topic_table``, and :class:`~.route_info.RouteInfoManager` keeps the two in step.
The tables inside are those of ``RouteInfoManager`` (4.9.8), and two that Java does not have: clusters by broker and
addresses by connection. With them the end of a connection costs time for its own brokers only.

::

    cluster <-> broker name -> id -> address -> live: connection, version, time of the last registration
                   ^                               |
                   +--------- entries -------------+   address -> filter servers

Rules that hold between calls, checked by :meth:`BrokerTable.check_invariants`:

- a cluster has at least one broker, a broker at least one address;
- every address of a broker is live, so it can expire; filter servers belong to live addresses;
- no table grows beyond :class:`BrokerLimits`.

Times are seconds of a monotonic clock (Trio's): a wall clock set forward would make every broker expire at once.
Entries are changed in place, so callers get copies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import attrs

from rocketpy.errors import RequestError
from rocketpy.nameserver.routes.topic_table import NAME_LENGTH_MAX
from rocketpy.protocol.bodies.route import MASTER_ID, BrokerData, ClusterInfo, TopicList
from rocketpy.protocol.bodies.topic import DataVersion
from rocketpy.protocol.codes import ResponseCode

ConnectionT = TypeVar("ConnectionT")
"""Type of a connection; compared by identity only."""

BROKER_EXPIRED_SECONDS = 120.0

CLUSTERS_OF_BROKER_MAX = 16
FILTER_SERVERS_MAX = 64


@attrs.frozen(kw_only=True)
class BrokerLimits:
    """Bounds of the table, from the nameserver's settings."""

    brokers_max: int = 1_000  # addresses of brokers, and their entries by name and id
    brokers_per_connection_max: int = 64  # addresses; also names and ids of one address


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
class BrokerTableStatistics:
    """Sizes of the tables."""

    brokers: int
    clusters: int
    live_addresses: int
    filter_server_addresses: int


@attrs.define(eq=False)
class BrokerLiveInfo(Generic[ConnectionT]):
    """The last registration of an address: its time and its connection."""

    last_update: float  # seconds, the clock of the caller
    data_version: DataVersion
    connection: ConnectionT
    ha_server_addr: str | None
    entries: dict[tuple[str, int], None]  # the broker names and ids that have this address


class BrokerTable(Generic[ConnectionT]):
    """The brokers of one nameserver."""

    def __init__(self, limits: BrokerLimits) -> None:
        self._limits = limits
        self._broker_addr_table: dict[str, BrokerData] = {}  # broker name -> cluster and addresses by id
        self._entry_count = 0  # of ids in it
        self._cluster_addr_table: dict[str, dict[str, None]] = {}  # cluster -> broker names, in order of arrival
        self._clusters_table: dict[str, dict[str, None]] = {}  # broker name -> clusters
        self._broker_live_table: dict[str, BrokerLiveInfo[ConnectionT]] = {}  # broker address -> life sign
        self._connection_table: dict[ConnectionT, dict[str, None]] = {}  # connection -> the addresses that came over it
        self._filter_server_table: dict[str, list[str]] = {}  # broker address -> filter servers

    # -- registration ---------------------------------------------------------------------------------------------

    def register(
        self, registration: BrokerRegistration, *, connection: ConnectionT, now: float
    ) -> RegisterBrokerResult:
        """Register one address of a broker.

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
        is_first_of_id = broker_id not in broker.broker_addrs
        is_changed = self.data_version_of(broker_addr) != registration.data_version
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
            not has_entry and self._entry_count >= limits.brokers_max
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
            self._entry_count -= 1
        previous = broker.broker_addrs.get(broker_id)
        if previous is None:
            self._entry_count += 1
        elif previous != broker_addr:
            del self._broker_live_table[previous].entries[name, broker_id]
        broker.broker_addrs[broker_id] = broker_addr
        entries[name, broker_id] = None

    def _set_filter_servers(self, broker_addr: str, filter_servers: Sequence[str] | None) -> None:
        if filter_servers:
            self._filter_server_table[broker_addr] = list(filter_servers[:FILTER_SERVERS_MAX])
        elif filter_servers is not None:
            self._filter_server_table.pop(broker_addr, None)

    def touch(self, broker_addr: str, now: float) -> None:
        """Renew the registration of an address; no effect if it is unknown."""
        live = self._broker_live_table.get(broker_addr)
        if live is not None:
            live.last_update = now

    # -- removal --------------------------------------------------------------------------------------------------

    def remove(self, broker_addr: str) -> list[str] | None:
        """Remove one address from all tables.

        Returns the names of the brokers whose last address it was, or None if the address is unknown.
        """
        live = self._broker_live_table.pop(broker_addr, None)
        if live is None:
            return None
        self._leave_connection(live.connection, broker_addr)
        self._filter_server_table.pop(broker_addr, None)
        gone = []
        for name, broker_id in live.entries:
            if self._remove_id(self._broker_addr_table[name], broker_id):
                gone.append(name)
        return gone

    def _remove_id(self, broker: BrokerData, broker_id: int) -> bool:
        """Remove one id of a broker, with the last one the broker; return whether it was the last."""
        del broker.broker_addrs[broker_id]
        self._entry_count -= 1
        if broker.broker_addrs:
            return False
        name = broker.broker_name
        del self._broker_addr_table[name]
        # A broker that has registered with two cluster names is in both sets; Java never removes the second one.
        for cluster in self._clusters_table.pop(name):
            members = self._cluster_addr_table[cluster]
            del members[name]
            if not members:
                del self._cluster_addr_table[cluster]
        return True

    # -- queries --------------------------------------------------------------------------------------------------

    @property
    def broker_names(self) -> Collection[str]:
        """Names of the registered brokers, a live view."""
        return self._broker_addr_table.keys()

    def broker(self, broker_name: str) -> BrokerData:
        """Return the cluster and the addresses of a registered broker."""
        return _copied_broker(self._broker_addr_table[broker_name])

    def brokers_of_cluster(self, cluster_name: str) -> Collection[str]:
        """Return the names of a cluster's brokers, a live view; no names for an unknown cluster."""
        return self._cluster_addr_table.get(cluster_name, {}).keys()

    def address_of(self, broker_name: str, broker_id: int) -> str | None:
        """Return the address registered for a broker's id."""
        broker = self._broker_addr_table.get(broker_name)
        return None if broker is None else broker.broker_addrs.get(broker_id)

    def holder_of(self, broker_addr: str) -> ConnectionT | None:
        """Return the connection over which a live address was last registered."""
        live = self._broker_live_table.get(broker_addr)
        return None if live is None else live.connection

    def data_version_of(self, broker_addr: str) -> DataVersion | None:
        """Return the version of the last registration of a live address."""
        live = self._broker_live_table.get(broker_addr)
        return None if live is None else live.data_version

    def addresses_over(self, connection: ConnectionT) -> list[str]:
        """Return every address that was last registered over a connection, in order of arrival."""
        return list(self._connection_table.get(connection, ()))

    def expired(self, now: float) -> list[tuple[str, ConnectionT]]:
        """Return every address whose last registration or version query is more than 120 seconds old."""
        return [
            (addr, live.connection)
            for addr, live in self._broker_live_table.items()
            if live.last_update + BROKER_EXPIRED_SECONDS < now
        ]

    def filter_servers_of(self, addresses: Iterable[str]) -> dict[str, Sequence[str]]:
        """Return the filter servers of those addresses that have any."""
        table = self._filter_server_table
        return {addr: list(table[addr]) for addr in addresses if addr in table}

    def cluster_info(self) -> ClusterInfo:
        """Return every broker and every cluster."""
        return ClusterInfo(
            broker_addr_table={name: _copied_broker(broker) for name, broker in self._broker_addr_table.items()},
            cluster_addr_table={cluster: list(names) for cluster, names in self._cluster_addr_table.items()},
        )

    def system_topics(self) -> TopicList:
        """Return the names of clusters and brokers, which are topics too, and one broker to query for more."""
        broker = next(iter(self._broker_addr_table.values()), None)
        broker_addr = None if broker is None else broker.broker_addrs[min(broker.broker_addrs)]
        return TopicList(topic_list=list(self._cluster_names()), broker_addr=broker_addr)

    def _cluster_names(self) -> Iterator[str]:
        for cluster, names in self._cluster_addr_table.items():
            yield cluster
            yield from names

    def statistics(self) -> BrokerTableStatistics:
        """Return the sizes of the tables."""
        return BrokerTableStatistics(
            brokers=len(self._broker_addr_table),
            clusters=len(self._cluster_addr_table),
            live_addresses=len(self._broker_live_table),
            filter_server_addresses=len(self._filter_server_table),
        )

    def check_invariants(self) -> None:
        """Assert the rules of the module docstring; for tests, cost grows with the tables."""
        assert all(self._cluster_addr_table.values()), "a cluster without brokers"
        assert all(broker.broker_addrs for broker in self._broker_addr_table.values()), "a broker without addresses"
        assert self._broker_addr_table.keys() == self._clusters_table.keys(), "a broker in some tables only"
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
        assert self._entry_count == len(entries)
        over = {(id(each.connection), addr) for addr, each in live.items()}
        assert over == {(id(each), addr) for each, own in self._connection_table.items() for addr in own}
        assert self._filter_server_table.keys() <= live.keys(), "filter servers of a dead address"
        assert max(len(live), len(entries)) <= self._limits.brokers_max


def _refusal(remark: str) -> RequestError:
    return RequestError(ResponseCode.SYSTEM_ERROR, f"registration: {remark}")


def _copied_broker(broker: BrokerData) -> BrokerData:
    return BrokerData(cluster=broker.cluster, broker_name=broker.broker_name, broker_addrs=dict(broker.broker_addrs))
