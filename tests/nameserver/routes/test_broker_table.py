"""The table of brokers with plain values: registration, removal, liveness and bounds."""

from __future__ import annotations

from typing import Any

import pytest

from rocketpy.errors import RequestError
from rocketpy.nameserver.routes.broker_table import (
    BROKER_EXPIRED_SECONDS,
    CLUSTERS_OF_BROKER_MAX,
    FILTER_SERVERS_MAX,
    BrokerLimits,
    BrokerTable,
    BrokerTableStatistics,
    RegisterBrokerResult,
)
from rocketpy.nameserver.routes.topic_table import NAME_LENGTH_MAX
from tests.nameserver.routes.brokers import MASTER, OTHER, SLAVE, registration, version

Table = BrokerTable[object]


def register(
    table: Table, *, connection: object = "connection", now: float = 0.0, **fields: Any
) -> RegisterBrokerResult:
    result = table.register(registration(**fields), connection=connection, now=now)
    table.check_invariants()
    return result


def remove(table: Table, addr: str) -> list[str] | None:
    gone = table.remove(addr)
    table.check_invariants()
    return gone


@pytest.fixture
def table() -> Table:
    return BrokerTable(BrokerLimits())


# -- registration -----------------------------------------------------------------------------------------------------


def test_a_registered_address_is_shown_everywhere(table: Table) -> None:
    assert register(table) == RegisterBrokerResult(None, None, is_new=True, takes_topics=True)
    assert not register(table).is_new
    broker = table.broker("a")
    assert (broker.cluster, broker.broker_name, broker.broker_addrs) == ("c", "a", {0: MASTER})
    assert list(table.broker_names) == list(table.brokers_of_cluster("c")) == ["a"]
    assert table.address_of("a", 0) == MASTER
    assert table.holder_of(MASTER) == "connection"
    assert table.addresses_over("connection") == [MASTER]
    assert table.data_version_of(MASTER) == version(1)
    assert table.cluster_info().broker_addr_table == {"a": broker}
    assert table.cluster_info().cluster_addr_table == {"c": ["a"]}
    assert table.statistics() == BrokerTableStatistics(
        brokers=1, clusters=1, live_addresses=1, filter_server_addresses=0
    )


def test_queries_for_unknown_brokers_find_nothing(table: Table) -> None:
    register(table)
    assert table.address_of("a", 1) is None
    assert table.address_of("b", 0) is None
    assert table.holder_of(OTHER) is None
    assert table.data_version_of(OTHER) is None
    assert table.addresses_over("other") == []
    assert list(table.brokers_of_cluster("d")) == []


def test_topics_are_taken_of_a_master_with_another_data_version(table: Table) -> None:
    assert register(table, counter=1).takes_topics
    assert not register(table, counter=1).takes_topics
    assert register(table, counter=2).takes_topics
    assert register(table, counter=1).takes_topics
    assert not register(table, addr=SLAVE, broker_id=1).takes_topics


def test_a_slave_promoted_to_master_has_one_id_only(table: Table) -> None:
    register(table)
    register(table, addr=SLAVE, broker_id=1)
    register(table, addr=SLAVE, broker_id=0)
    assert table.broker("a").broker_addrs == {0: SLAVE}
    assert remove(table, MASTER) == []  # still live, but without an id
    assert remove(table, SLAVE) == ["a"]


def test_a_broker_keeps_its_first_cluster_and_is_a_member_of_all(table: Table) -> None:
    register(table, cluster="c")
    register(table, cluster="d")
    assert table.broker("a").cluster == "c"
    assert table.cluster_info().cluster_addr_table == {"c": ["a"], "d": ["a"]}
    assert remove(table, MASTER) == ["a"]
    assert table.cluster_info().cluster_addr_table == {}


def test_filter_servers_are_set_removed_or_left(table: Table) -> None:
    register(table, filter_servers=["f1"])
    assert table.filter_servers_of([MASTER, OTHER]) == {MASTER: ["f1"]}
    assert table.statistics().filter_server_addresses == 1
    register(table, filter_servers=None)
    assert table.filter_servers_of([MASTER]) == {MASTER: ["f1"]}
    register(table, filter_servers=[])
    assert table.filter_servers_of([MASTER]) == {}
    register(table, filter_servers=["f2"])
    assert remove(table, MASTER) == ["a"]
    assert table.statistics().filter_server_addresses == 0


# -- removal ----------------------------------------------------------------------------------------------------------


def test_a_broker_is_removed_with_its_last_address(table: Table) -> None:
    register(table)
    register(table, addr=SLAVE, broker_id=1)
    assert remove(table, MASTER) == []
    assert table.broker("a").broker_addrs == {1: SLAVE}
    assert remove(table, SLAVE) == ["a"]
    assert remove(table, SLAVE) is None
    assert list(table.broker_names) == []


def test_an_address_shared_by_several_brokers_removes_each(table: Table) -> None:
    for name in ("a", "b"):
        register(table, name=name)
    register(table, name="c")
    register(table, name="c", addr=SLAVE, broker_id=1)
    assert remove(table, MASTER) == ["a", "b"]
    assert list(table.broker_names) == ["c"]


def test_a_removed_address_leaves_its_successor(table: Table) -> None:
    register(table)
    register(table, addr=OTHER)
    assert remove(table, MASTER) == []
    assert table.broker("a").broker_addrs == {0: OTHER}


def test_an_address_belongs_to_the_connection_that_registered_it_last(table: Table) -> None:
    register(table, connection="old")
    register(table, addr=OTHER, name="b", connection="old")
    register(table, connection="new")
    assert table.addresses_over("old") == [OTHER]
    assert table.addresses_over("new") == [MASTER]
    assert table.holder_of(MASTER) == "new"
    remove(table, OTHER)
    assert table.addresses_over("old") == []


def test_an_address_expires_after_more_than_120_seconds_without_a_life_sign(table: Table) -> None:
    register(table, connection=1, now=0.0)
    register(table, addr=OTHER, name="b", connection=2, now=30.0)
    assert table.expired(BROKER_EXPIRED_SECONDS) == []
    assert table.expired(120.1) == [(MASTER, 1)]
    table.touch(MASTER, 100.0)
    table.touch("unknown", 100.0)
    assert table.expired(150.1) == [(OTHER, 2)]
    register(table, addr=OTHER, name="b", connection=2, now=150.1)
    assert table.expired(220.0) == []
    assert table.expired(220.1) == [(MASTER, 1)]


# -- queries ----------------------------------------------------------------------------------------------------------


def test_answers_are_copies_and_views_are_live(table: Table) -> None:
    register(table)
    broker, info = table.broker("a"), table.cluster_info()
    names, members = table.broker_names, table.brokers_of_cluster("c")
    register(table, addr=SLAVE, broker_id=1)
    register(table, addr=OTHER, name="b")
    assert broker.broker_addrs == info.broker_addr_table["a"].broker_addrs == {0: MASTER}
    assert info.cluster_addr_table == {"c": ["a"]}
    assert list(names) == list(members) == ["a", "b"]


def test_system_topics_are_the_names_of_clusters_and_brokers(table: Table) -> None:
    assert (table.system_topics().topic_list, table.system_topics().broker_addr) == ([], None)
    register(table, addr=SLAVE, broker_id=1)
    assert table.system_topics().broker_addr == SLAVE
    register(table)
    register(table, addr=OTHER, name="b", cluster="d")
    assert table.system_topics().topic_list == ["c", "a", "d", "b"]
    assert table.system_topics().broker_addr == MASTER


# -- limits -----------------------------------------------------------------------------------------------------------


def refused(table: Table, match: str, **registration: object) -> None:
    before = table.cluster_info(), table.statistics()
    with pytest.raises(RequestError, match=match):
        register(table, **registration)  # type: ignore[arg-type]
    assert (table.cluster_info(), table.statistics()) == before
    table.check_invariants()


def test_addresses_and_ids_are_bounded() -> None:
    table: Table = BrokerTable(BrokerLimits(brokers_max=3))
    for number in range(3):
        register(table, addr=f"10.0.0.{number}:1", name=f"b{number}", connection=number)
    refused(table, r"at most 3 addresses of brokers \(brokersMax\)", addr="10.0.0.9:1", name="b9", connection=9)
    refused(table, "brokersMax", addr="10.0.0.0:1", name="b9", connection=0)
    register(table, addr="10.0.0.0:1", name="b0", connection=10)
    remove(table, "10.0.0.2:1")
    register(table, addr="10.0.0.9:1", name="b9", connection=9)


def test_brokers_of_one_connection_and_of_one_address_are_bounded() -> None:
    table: Table = BrokerTable(BrokerLimits(brokers_per_connection_max=2))
    for number in range(2):
        register(table, addr=f"10.0.0.{number}:1", name=f"b{number}")
        register(table, addr=OTHER, name=f"c{number}", connection="other")
    refused(table, r"at most 2 brokers .* \(brokersPerConnectionMax\)", addr="10.0.0.2:1", name="b2")
    refused(table, "brokersPerConnectionMax", addr=OTHER, name="c2", connection="other")
    register(table, addr="10.0.0.0:1", name="b0")
    register(table, addr="10.0.0.2:1", name="b2", connection="third")


def test_clusters_of_a_broker_names_and_filter_servers_are_bounded(table: Table) -> None:
    for number in range(CLUSTERS_OF_BROKER_MAX):
        register(table, cluster=f"c{number}")
    refused(table, "at most 16 clusters of broker a", cluster="one more")
    register(table, cluster="c3")
    for field in ("cluster", "addr", "name"):
        refused(table, f"at most {NAME_LENGTH_MAX} characters, found 513", **{field: "x" * (NAME_LENGTH_MAX + 1)})
    register(table, cluster="c3", filter_servers=["f"] * (FILTER_SERVERS_MAX + 1), counter=2)
    assert len(table.filter_servers_of([MASTER])[MASTER]) == FILTER_SERVERS_MAX
