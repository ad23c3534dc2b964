"""Which broker has which topic: the tables of a nameserver and every question about them.

Plain values and the time go in, values come out; nothing here awaits, logs or knows a socket. The five tables are
RocketMQ's (``RouteInfoManager`` 4.9.8) and live in memory only: brokers register again every 30 seconds.

Rules that hold between calls, checked by :meth:`RouteInfoManager.check_invariants`:

- a topic has at least one queue entry, a cluster at least one broker, a broker at least one address;
- every broker with queue entries or cluster membership is in the broker table;
- every address of a broker is live, so it can expire; filter servers belong to live addresses.

Times are seconds of a clock that never steps (Trio's): a wall clock set forward would make every broker expire at once.
Queue entries are replaced, never changed, so they may leave as they are; brokers leave as copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

import attrs

from rocketpy.protocol.bodies.route import MASTER_ID, BrokerData, ClusterInfo, QueueData, TopicList, TopicRouteData
from rocketpy.protocol.bodies.topic import DataVersion, TopicConfig
from rocketpy.protocol.perm_name import PERM_READ_WRITE, PERM_WRITE
from rocketpy.protocol.sysflag import TOPIC_UNIT_FLAG, TOPIC_UNIT_SUB_FLAG

T = TypeVar("T")
ConnectionT = TypeVar("ConnectionT")
"""Whatever stands for a connection; told apart by identity only."""

BROKER_EXPIRED_SECONDS = 120.0


@attrs.define(eq=False)
class BrokerLiveInfo(Generic[ConnectionT]):
    """When an address was last heard of, and over which connection."""

    last_update: float  # seconds, the clock of the caller
    data_version: DataVersion
    connection: ConnectionT
    ha_server_addr: str | None


@attrs.frozen
class RegisterBrokerResult:
    """What a registering broker is told; both addresses are None for a master or while the master is away."""

    ha_server_addr: str | None
    master_addr: str | None
    is_new: bool  # the address was not live before


@attrs.frozen
class RouteInfoStatistics:
    """Sizes of the tables."""

    topics: int
    brokers: int
    clusters: int
    live_addresses: int
    filter_server_addresses: int


class RouteInfoManager(Generic[ConnectionT]):
    """The tables of one nameserver."""

    def __init__(self) -> None:
        self._topic_queue_table: dict[str, dict[str, QueueData]] = {}  # topic -> broker name -> queues
        self._broker_addr_table: dict[str, BrokerData] = {}  # broker name -> cluster and addresses by id
        self._cluster_addr_table: dict[str, dict[str, None]] = {}  # cluster -> broker names, in order of arrival
        self._broker_live_table: dict[str, BrokerLiveInfo[ConnectionT]] = {}  # broker address -> life sign
        self._filter_server_table: dict[str, list[str]] = {}  # broker address -> filter servers

    # -- brokers come ---------------------------------------------------------------------------------------------

    def register_broker(
        self,
        *,
        cluster_name: str,
        broker_addr: str,
        broker_name: str,
        broker_id: int,
        ha_server_addr: str | None,
        topic_configs: Iterable[TopicConfig],
        data_version: DataVersion,
        filter_servers: Sequence[str] | None,
        connection: ConnectionT,
        now: float,
    ) -> RegisterBrokerResult:
        """Take a registration: one address of a broker, and for a master its topics.

        Topics are taken only when the data version differs from the last one of this address, or the address is new
        for its id: so a wiped permission survives until the broker changes a topic. Topics missing from the
        registration stay. ``filter_servers`` None (an old broker) leaves the filter servers as they are.
        """
        self._cluster_addr_table.setdefault(cluster_name, {})[broker_name] = None
        broker = self._broker_addr_table.get(broker_name)
        if broker is None:
            broker = BrokerData(cluster=cluster_name, broker_name=broker_name, broker_addrs={})
            self._broker_addr_table[broker_name] = broker
        # A slave that became master: an address has one id only.
        for other_id in [each for each, addr in broker.broker_addrs.items() if addr == broker_addr]:
            if other_id != broker_id:
                del broker.broker_addrs[other_id]
        is_first_of_id = broker_id not in broker.broker_addrs
        broker.broker_addrs[broker_id] = broker_addr

        is_changed = self.is_data_version_changed(broker_addr, data_version)
        if broker_id == MASTER_ID and (is_changed or is_first_of_id):
            for topic_config in topic_configs:
                self._put_queue_data(broker_name, topic_config)

        is_new = broker_addr not in self._broker_live_table
        self._broker_live_table[broker_addr] = BrokerLiveInfo(now, data_version, connection, ha_server_addr)
        if filter_servers:
            self._filter_server_table[broker_addr] = list(filter_servers)
        elif filter_servers is not None:
            self._filter_server_table.pop(broker_addr, None)
        master_addr = broker.broker_addrs.get(MASTER_ID) if broker_id != MASTER_ID else None
        master = self._broker_live_table.get(master_addr) if master_addr is not None else None
        if master is None:
            return RegisterBrokerResult(None, None, is_new)
        return RegisterBrokerResult(master.ha_server_addr, master_addr, is_new)

    def is_data_version_changed(self, broker_addr: str, data_version: DataVersion) -> bool:
        """Tell whether the topics of an address may differ from what is known: it is unknown or its version differs."""
        return self.data_version_of(broker_addr) != data_version

    def data_version_of(self, broker_addr: str) -> DataVersion | None:
        """Return the version of the last registration of a live address."""
        live = self._broker_live_table.get(broker_addr)
        return None if live is None else live.data_version

    def touch_broker(self, broker_addr: str, now: float) -> None:
        """Note a life sign of an address; nothing happens if it is unknown."""
        live = self._broker_live_table.get(broker_addr)
        if live is not None:
            live.last_update = now

    def _put_queue_data(self, broker_name: str, topic_config: TopicConfig) -> None:
        self._topic_queue_table.setdefault(topic_config.topic_name, {})[broker_name] = QueueData(
            broker_name=broker_name,
            read_queue_nums=topic_config.read_queue_nums,
            write_queue_nums=topic_config.write_queue_nums,
            perm=topic_config.perm,
            topic_sys_flag=topic_config.topic_sys_flag,
        )

    # -- brokers go -----------------------------------------------------------------------------------------------

    def unregister_broker(self, broker_addr: str) -> bool:
        """Forget an address that takes leave; return whether it was known.

        Compatibility: Java removes the broker id of the request whatever address it holds meanwhile, and so takes a
        successor that has registered already out of all routes. Here only the address counts.
        """
        return self._remove_address(broker_addr)

    def remove_connection(self, connection: ConnectionT, peer: str) -> list[str]:
        """Forget every address that last registered over a connection that has ended; return them.

        If there is none, the peer's own ``ip:port`` is taken for a broker address, as Java does.
        Compatibility: Java forgets one address per connection, the others when they expire.
        """
        found = [addr for addr, live in self._broker_live_table.items() if live.connection is connection]
        removed = [addr for addr in found or [peer] if self._remove_address(addr)]
        assert not found or removed == found
        return removed

    def remove_expired_brokers(self, now: float) -> list[tuple[str, ConnectionT]]:
        """Forget every address that was not heard of for longer than 120 seconds.

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
        """Forget one address wherever it is; return whether it was anywhere."""
        if self._broker_live_table.pop(broker_addr, None) is None:
            return False
        self._filter_server_table.pop(broker_addr, None)
        for broker in list(self._broker_addr_table.values()):
            for broker_id in [each for each, addr in broker.broker_addrs.items() if addr == broker_addr]:
                self._remove_broker_id(broker, broker_id)
        return True

    def _remove_broker_id(self, broker: BrokerData, broker_id: int) -> None:
        """Remove one id of a broker; with the last one go its cluster membership and all its queues."""
        del broker.broker_addrs[broker_id]
        if broker.broker_addrs:
            return
        name = broker.broker_name
        del self._broker_addr_table[name]
        # A broker that once registered with two cluster names is in both sets; Java leaves the second one behind.
        for cluster in [each for each, names in self._cluster_addr_table.items() if name in names]:
            _remove_inner(self._cluster_addr_table, cluster, name)
        for topic in [each for each, queues in self._topic_queue_table.items() if name in queues]:
            _remove_inner(self._topic_queue_table, topic, name)

    # -- questions ------------------------------------------------------------------------------------------------

    def pick_up_topic_route_data(self, topic: str) -> TopicRouteData | None:
        """Return where a topic's queues are, or None if no broker that is here has it.

        Brokers without write permission are in it: clients look at ``perm`` themselves.
        """
        queues = self._topic_queue_table.get(topic)
        if queues is None:
            return None
        brokers = [self._broker_addr_table[name] for name in queues]
        addresses = [addr for broker in brokers for addr in broker.broker_addrs.values()]
        filter_servers = self._filter_server_table
        return TopicRouteData(
            queue_datas=list(queues.values()),
            broker_datas=[_copied_broker(broker) for broker in brokers],
            filter_server_table={addr: list(filter_servers[addr]) for addr in addresses if addr in filter_servers},
        )

    def cluster_info(self) -> ClusterInfo:
        """Return every broker and every cluster."""
        return ClusterInfo(
            broker_addr_table={name: _copied_broker(broker) for name, broker in self._broker_addr_table.items()},
            cluster_addr_table={cluster: list(names) for cluster, names in self._cluster_addr_table.items()},
        )

    def all_topics(self) -> TopicList:
        """Return every topic."""
        return TopicList(topic_list=list(self._topic_queue_table))

    def topics_of_cluster(self, cluster: str) -> TopicList:
        """Return the topics that any broker of a cluster has; none if there is no such cluster."""
        names = self._cluster_addr_table.get(cluster, {})
        return self._topics_where(lambda queues: not names.keys().isdisjoint(queues))

    def system_topics(self) -> TopicList:
        """Return the names that brokers register as topics of their own, and one broker to ask for more."""
        topics = list(self._cluster_names())
        broker = next(iter(self._broker_addr_table.values()), None)
        broker_addr = None if broker is None else broker.broker_addrs[min(broker.broker_addrs)]
        return TopicList(topic_list=topics, broker_addr=broker_addr)

    def _cluster_names(self) -> Iterator[str]:
        for cluster, names in self._cluster_addr_table.items():
            yield cluster
            yield from names

    def unit_topics(self) -> TopicList:
        """Return the topics of a unit (judged, like the next two, by the first broker of a topic)."""
        return self._topics_where(lambda queues: bool(_first_flag(queues) & TOPIC_UNIT_FLAG))

    def unit_sub_topics(self) -> TopicList:
        """Return the topics that a unit subscribes to."""
        return self._topics_where(lambda queues: bool(_first_flag(queues) & TOPIC_UNIT_SUB_FLAG))

    def unit_sub_ununit_topics(self) -> TopicList:
        """Return the topics that a unit subscribes to and that are of no unit."""
        both = TOPIC_UNIT_FLAG | TOPIC_UNIT_SUB_FLAG
        return self._topics_where(lambda queues: _first_flag(queues) & both == TOPIC_UNIT_SUB_FLAG)

    def _topics_where(self, condition: Callable[[Mapping[str, QueueData]], bool]) -> TopicList:
        return TopicList(topic_list=[topic for topic, queues in self._topic_queue_table.items() if condition(queues)])

    def statistics(self) -> RouteInfoStatistics:
        """Return the sizes of the tables."""
        return RouteInfoStatistics(
            topics=len(self._topic_queue_table),
            brokers=len(self._broker_addr_table),
            clusters=len(self._cluster_addr_table),
            live_addresses=len(self._broker_live_table),
            filter_server_addresses=len(self._filter_server_table),
        )

    # -- commands -------------------------------------------------------------------------------------------------

    def wipe_write_perm(self, broker_name: str) -> int:
        """Take the write permission of every topic of a broker, in memory only; return how many topics it has."""
        return self._change_perm(broker_name, lambda perm: perm & ~PERM_WRITE)

    def add_write_perm(self, broker_name: str) -> int:
        """Set every topic of a broker to read and write (nothing else survives, as in Java); return how many."""
        return self._change_perm(broker_name, lambda perm: PERM_READ_WRITE)

    def _change_perm(self, broker_name: str, change: Callable[[int], int]) -> int:
        changed = 0
        for queues in self._topic_queue_table.values():
            queue = queues.get(broker_name)
            if queue is not None:
                queues[broker_name] = attrs.evolve(queue, perm=change(queue.perm))
                changed += 1
        return changed

    def delete_topic(self, topic: str, cluster_name: str | None = None) -> None:
        """Forget a topic, or only what the brokers of one cluster have of it; it returns if a broker still has it."""
        if not cluster_name:
            self._topic_queue_table.pop(topic, None)
            return
        queues = self._topic_queue_table.get(topic, {})
        for name in [each for each in self._cluster_addr_table.get(cluster_name, {}) if each in queues]:
            _remove_inner(self._topic_queue_table, topic, name)

    def check_invariants(self) -> None:
        """Assert the rules of the module docstring; for tests, cost grows with the tables."""
        assert all(self._topic_queue_table.values()), "a topic without queues"
        assert all(self._cluster_addr_table.values()), "a cluster without brokers"
        assert all(broker.broker_addrs for broker in self._broker_addr_table.values()), "a broker without addresses"
        known = self._broker_addr_table.keys()
        assert all(queues.keys() <= known for queues in self._topic_queue_table.values()), "queues of an unknown broker"
        assert all(names.keys() <= known for names in self._cluster_addr_table.values()), (
            "an unknown broker in a cluster"
        )
        addresses = {addr for broker in self._broker_addr_table.values() for addr in broker.broker_addrs.values()}
        assert addresses <= self._broker_live_table.keys(), "an address that cannot expire"
        assert self._filter_server_table.keys() <= self._broker_live_table.keys(), "filter servers of a dead address"


def _remove_inner(table: dict[str, dict[str, T]], key: str, inner_key: str) -> None:
    """Remove ``table[key][inner_key]``, and ``table[key]`` with its last entry."""
    del table[key][inner_key]
    if not table[key]:
        del table[key]


def _copied_broker(broker: BrokerData) -> BrokerData:
    return BrokerData(cluster=broker.cluster, broker_name=broker.broker_name, broker_addrs=dict(broker.broker_addrs))


def _first_flag(queues: Mapping[str, QueueData]) -> int:
    return next(iter(queues.values())).topic_sys_flag
