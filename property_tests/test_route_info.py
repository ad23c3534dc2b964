"""Any order of registrations, departures and commands leaves the routes that a flat model predicts."""

from __future__ import annotations

from itertools import chain

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketpy.nameserver.routes.broker_table import BROKER_EXPIRED_SECONDS, BrokerRegistration
from rocketpy.nameserver.routes.route_info import RouteInfoManager
from rocketpy.protocol.bodies.route import MASTER_ID
from rocketpy.protocol.bodies.topic import DataVersion, TopicConfig

CLUSTERS = ("c1", "c2")
NAMES = ("a", "b", "c")
IDS = (0, 1)
ADDRESSES = ("10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1")
TOPICS = ("t1", "t2", "t3")
PEER = "192.168.0.1:5"

clusters = st.sampled_from(CLUSTERS)
names = st.sampled_from(NAMES)
ids = st.sampled_from(IDS)
addresses = st.sampled_from(ADDRESSES)
topics = st.sampled_from(TOPICS)
connections = st.integers(0, 3)


@attrs.define
class Model:
    """Who is where, as sets and dicts of tuples: nothing is nested, so nothing can be left over empty."""

    home: dict[str, str] = attrs.Factory(dict)  # broker name -> the cluster it came with first
    member: set[tuple[str, str]] = attrs.Factory(set)  # (cluster, broker name)
    address: dict[tuple[str, int], str] = attrs.Factory(dict)  # (broker name, id) -> address
    perm: dict[tuple[str, str], int] = attrs.Factory(dict)  # (topic, broker name) -> permission
    live: dict[str, tuple[int, object, float]] = attrs.Factory(dict)  # address -> version, connection, last heard
    came: dict[tuple[str, object], None] = attrs.Factory(dict)  # (address, connection), in order of arrival
    filters: dict[str, list[str]] = attrs.Factory(dict)  # address -> filter servers

    def leave(self, name: str, broker_id: int) -> None:
        del self.address[name, broker_id]
        if not any(each == name for each, _ in self.address):
            del self.home[name]
            self.member = {(cluster, each) for cluster, each in self.member if each != name}
            self.perm = {(topic, each): perm for (topic, each), perm in self.perm.items() if each != name}

    def hang_up(self, address: str) -> None:
        if address in self.live:
            del self.came[address, self.live[address][1]]

    def forget(self, address: str) -> None:
        self.hang_up(address)
        self.live.pop(address, None)
        self.filters.pop(address, None)
        for name, broker_id in [key for key, value in self.address.items() if value == address]:
            self.leave(name, broker_id)


class RouteInfoMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.manager: RouteInfoManager[object] = RouteInfoManager()
        self.connections = [object() for _ in range(4)]
        self.now = 0.0

    @rule(
        cluster=clusters,
        address=addresses,
        name=names,
        broker_id=ids,
        perms=st.dictionaries(topics, st.sampled_from((2, 4, 6, 7))),
        version=st.integers(0, 2),
        filters=st.none() | st.lists(st.sampled_from(("f1", "f2"))),
        connection=connections,
    )
    def register(
        self,
        cluster: str,
        address: str,
        name: str,
        broker_id: int,
        perms: dict[str, int],
        version: int,
        filters: list[str] | None,
        connection: int,
    ) -> None:
        model = self.model
        is_new = address not in model.live
        is_changed = is_new or model.live[address][0] != version
        is_first = (name, broker_id) not in model.address
        model.home.setdefault(name, cluster)
        model.member.add((cluster, name))
        model.address = {
            key: value
            for key, value in model.address.items()
            if not (key[0] == name and key[1] != broker_id and value == address)
        }
        model.address[name, broker_id] = address
        over = self.connections[connection]
        if is_new or model.live[address][1] is not over:
            model.hang_up(address)
            model.came[address, over] = None
        model.live[address] = (version, over, self.now)
        if filters is not None:
            model.filters.pop(address, None)
        if filters:
            model.filters[address] = filters
        if broker_id == MASTER_ID and (is_changed or is_first):
            model.perm.update({(topic, name): perm for topic, perm in perms.items()})

        result = self.manager.register_broker(
            BrokerRegistration(
                cluster_name=cluster,
                broker_addr=address,
                broker_name=name,
                broker_id=broker_id,
                ha_server_addr="ha " + address,
                data_version=DataVersion(timestamp=version, counter=version),
                filter_servers=filters,
            ),
            connection=self.connections[connection],
            now=self.now,
        )
        assert result.is_new == is_new
        assert result.takes_topics == (broker_id == MASTER_ID and (is_changed or is_first))
        if result.takes_topics:
            configs = [TopicConfig(topic_name=topic, perm=perm) for topic, perm in perms.items()]
            assert self.manager.put_topics(name, configs) == 0
        master = model.address.get((name, MASTER_ID))
        if broker_id == MASTER_ID or master not in model.live:
            assert (result.master_addr, result.ha_server_addr) == (None, None)
        else:
            assert (result.master_addr, result.ha_server_addr) == (master, f"ha {master}")

    @rule(address=addresses)
    def unregister(self, address: str) -> None:
        is_known = address in self.model.live
        self.model.forget(address)
        assert self.manager.unregister_broker(address) == is_known

    @rule(connection=connections)
    def disconnect(self, connection: int) -> None:
        ended = self.connections[connection]
        gone = [address for address, over in self.model.came if over is ended]
        for address in gone:
            self.model.forget(address)
        assert self.manager.remove_connection(ended, PEER) == gone

    @rule(address=addresses)
    def disconnect_by_peer_name(self, address: str) -> None:
        is_known = address in self.model.live
        self.model.forget(address)
        assert self.manager.remove_connection(object(), address) == ([address] if is_known else [])

    @rule(seconds=st.sampled_from((1.0, BROKER_EXPIRED_SECONDS, BROKER_EXPIRED_SECONDS + 1)))
    def scan_after(self, seconds: float) -> None:
        self.now += seconds
        gone = [
            (address, over)
            for address, (_, over, heard) in self.model.live.items()
            if self.now - heard > BROKER_EXPIRED_SECONDS
        ]
        for address, _ in gone:
            self.model.forget(address)
        assert self.manager.remove_expired_brokers(self.now) == gone

    @rule(address=addresses)
    def touch(self, address: str) -> None:
        if address in self.model.live:
            self.model.live[address] = (*self.model.live[address][:2], self.now)
        self.manager.touch_broker(address, self.now)

    @rule(name=names, is_wipe=st.booleans())
    def change_write_perm(self, name: str, is_wipe: bool) -> None:
        mine = [key for key in self.model.perm if key[1] == name]
        for key in mine:
            self.model.perm[key] = self.model.perm[key] & ~2 if is_wipe else 6
        change = self.manager.wipe_write_perm if is_wipe else self.manager.add_write_perm
        assert sum(change(name)) == len(mine)

    @rule(entries=st.integers(1, 3))
    def purge(self, entries: int) -> None:
        """What is freed, and when, is not visible."""
        self.manager.purge(entries)

    @rule(topic=topics, cluster=st.none() | clusters)
    def delete_topic(self, topic: str, cluster: str | None) -> None:
        for name in NAMES:
            if cluster is None or (cluster, name) in self.model.member:
                self.model.perm.pop((topic, name), None)
        self.manager.delete_topic(topic, cluster)

    @invariant()
    def rules_between_calls_hold(self) -> None:
        self.manager.check_invariants()

    @invariant()
    def routes_are_those_of_the_model(self) -> None:
        model = self.model
        for topic in TOPICS:
            route = self.manager.pick_up_topic_route_data(topic)
            perms = {name: perm for (each, name), perm in model.perm.items() if each == topic}
            if not perms:
                assert route is None
                continue
            assert route is not None
            assert {queue.broker_name: queue.perm for queue in route.queue_datas} == perms
            assert {broker.broker_name: broker.broker_addrs for broker in route.broker_datas} == {
                name: self._addresses_of(name) for name in perms
            }
            shown = {address for name in perms for address in self._addresses_of(name).values()}
            assert route.filter_server_table == {
                address: filters for address, filters in model.filters.items() if address in shown
            }

    @invariant()
    def clusters_are_those_of_the_model(self) -> None:
        model = self.model
        found = self.manager.cluster_info()
        assert {(c, n) for c, names in found.cluster_addr_table.items() for n in names} == self.model.member
        assert {name: broker.cluster for name, broker in found.broker_addr_table.items()} == self.model.home
        for name, broker in found.broker_addr_table.items():
            assert broker.broker_addrs == self._addresses_of(name)
        for cluster in CLUSTERS:
            members = {name for each, name in self.model.member if each == cluster}
            expected = {topic for topic, name in self.model.perm if name in members}
            assert set(chain(*self.manager.topics_of_cluster(cluster))) == expected
        assert set(chain(*self.manager.all_topics())) == {topic for topic, _ in model.perm}

    @invariant()
    def versions_are_those_of_the_model(self) -> None:
        for address in ADDRESSES:
            version = self.manager.data_version_of(address)
            live = self.model.live.get(address)
            assert (None if version is None else version.counter) == (None if live is None else live[0])

    def _addresses_of(self, name: str) -> dict[int, str]:
        return {broker_id: address for (each, broker_id), address in self.model.address.items() if each == name}


def test_a_slave_that_becomes_master_with_the_version_it_had_brings_its_topics() -> None:
    """An example of the rules above, which random rules meet rarely."""
    machine = RouteInfoMachine()
    for broker_id in (1, MASTER_ID):
        machine.register(CLUSTERS[0], ADDRESSES[0], NAMES[0], broker_id, {TOPICS[0]: 6}, 1, None, 0)
        machine.rules_between_calls_hold()
        machine.routes_are_those_of_the_model()


TestRouteInfo = RouteInfoMachine.TestCase
