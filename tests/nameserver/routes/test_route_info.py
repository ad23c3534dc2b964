"""Routes with plain values: which brokers and topics are shown after registrations, removals and commands."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest

from rocketpy.errors import RequestError
from rocketpy.nameserver.routes.broker_table import (
    BrokerLimits,
    BrokerRegistration,
    RegisterBrokerResult,
)
from rocketpy.nameserver.routes.route_info import RouteInfoManager, RouteLimits
from rocketpy.nameserver.routes.topic_table import TopicLimits
from rocketpy.protocol.bodies.topic import DataVersion, TopicConfig
from tests.nameserver.routes.brokers import MASTER, OTHER, SLAVE, registration, version
from tests.worst_requests import processor_seconds

CLIENT = "10.0.0.9:5555"

Manager = RouteInfoManager[object]


def topic(name: str, perm: int = 6, flag: int = 0, queues: int = 4) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm, topic_sys_flag=flag)


def register(
    manager: Manager,
    *topics: TopicConfig,
    name: str = "a",
    connection: object = "connection",
    now: float = 0.0,
    **fields: Any,
) -> RegisterBrokerResult:
    result = manager.register_broker(registration(name=name, **fields), connection=connection, now=now)
    if result.takes_topics:
        manager.put_topics(name, topics)
    manager.check_invariants()
    return result


def topics_of(slices: Iterator[list[str]]) -> list[str]:
    return list(chain(*slices))


def perm_of(manager: Manager, topic_name: str, name: str = "a") -> int:
    route = manager.pick_up_topic_route_data(topic_name)
    assert route is not None
    return {queue.broker_name: queue.perm for queue in route.queue_datas}[name]


@pytest.fixture
def manager() -> Manager:
    return RouteInfoManager()


def test_a_master_brings_its_topics(manager: Manager) -> None:
    assert register(manager, topic("t", queues=3)) == RegisterBrokerResult(None, None, is_new=True, takes_topics=True)
    route = manager.pick_up_topic_route_data("t")
    assert route is not None
    (queue,) = route.queue_datas
    assert (queue.broker_name, queue.read_queue_nums, queue.write_queue_nums, queue.perm) == ("a", 3, 3, 6)
    (broker,) = route.broker_datas
    assert (broker.cluster, broker.broker_name, broker.broker_addrs) == ("c", "a", {0: MASTER})
    assert route.filter_server_table == {}
    assert route.order_topic_conf is None
    assert not register(manager).is_new


def test_a_topic_without_brokers_has_no_route(manager: Manager) -> None:
    register(manager, topic("t"))
    assert manager.pick_up_topic_route_data("u") is None
    assert manager.pick_up_topic_route_data("") is None


def test_a_topic_stays_routed_while_a_slave_is_left(manager: Manager) -> None:
    register(manager, topic("t"), connection=1)
    register(manager, addr=SLAVE, broker_id=1, connection=2)
    assert manager.remove_connection(1, CLIENT) == [MASTER]
    route = manager.pick_up_topic_route_data("t")
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {1: SLAVE}
    assert manager.remove_connection(2, CLIENT) == [SLAVE]
    assert manager.pick_up_topic_route_data("t") is None
    assert manager.cluster_info().cluster_addr_table == {}
    manager.check_invariants()


def test_a_broker_that_unregisters_is_gone_and_its_successor_stays(manager: Manager) -> None:
    """Java takes the successor out of all routes until it registers again."""
    register(manager, topic("t"))
    register(manager, topic("t"), addr=OTHER)
    assert manager.unregister_broker(MASTER)
    assert manager.cluster_info().broker_addr_table["a"].broker_addrs == {0: OTHER}
    assert manager.unregister_broker(OTHER)
    assert not manager.unregister_broker(OTHER)
    assert topics_of(manager.all_topics()) == []


def test_a_connection_without_registration_is_tried_by_its_peer(manager: Manager) -> None:
    register(manager, connection="other")
    assert manager.remove_connection("unknown", CLIENT) == []
    assert manager.remove_connection("unknown", MASTER) == [MASTER]


def test_brokers_expire_after_more_than_120_seconds(manager: Manager) -> None:
    register(manager, topic("t"), connection=1, now=0.0)
    register(manager, topic("t"), addr=OTHER, name="b", connection=2, now=30.0)
    assert manager.remove_expired_brokers(120.0) == []
    assert manager.remove_expired_brokers(120.1) == [(MASTER, 1)]
    assert perm_of(manager, "t", "b") == 6
    manager.touch_broker(OTHER, 100.0)
    manager.touch_broker("unknown", 100.0)
    assert manager.remove_expired_brokers(220.0) == []
    assert manager.remove_expired_brokers(220.1) == [(OTHER, 2)]
    assert topics_of(manager.all_topics()) == []


def test_a_registration_is_current_while_its_address_has_the_id_and_the_version(manager: Manager) -> None:
    register(manager, counter=1)
    assert manager.data_version_of(MASTER) == version(1)
    assert manager.is_registered("a", 0, MASTER, version(1))
    assert not manager.is_registered("a", 0, MASTER, version(2))
    assert not manager.is_registered("a", 0, MASTER, DataVersion(timestamp=2, counter=1))
    assert not manager.is_registered("a", 1, MASTER, version(1))
    assert not manager.is_registered("b", 0, MASTER, version(1))
    register(manager, addr=OTHER, counter=1)
    assert not manager.is_registered("a", 0, MASTER, version(1))
    assert (manager.address_of("a", 0), manager.holder_of(OTHER)) == (OTHER, "connection")


def test_a_refused_registration_changes_nothing() -> None:
    manager: Manager = RouteInfoManager(RouteLimits(brokers=BrokerLimits(brokers_max=1)))
    register(manager, topic("t"))
    with pytest.raises(RequestError, match="brokersMax"):
        register(manager, topic("u"), addr=OTHER, name="b")
    manager.check_invariants()
    assert topics_of(manager.all_topics()) == ["t"]
    assert list(manager.cluster_info().broker_addr_table) == ["a"]


# -- limits -----------------------------------------------------------------------------------------------------------


def test_limits_of_topics_reach_the_table() -> None:
    manager: Manager = RouteInfoManager(RouteLimits(topics=TopicLimits(topics_max=2)))
    register(manager)
    assert manager.put_topics("a", [topic("t"), topic("u"), topic("v")]) == 1
    assert topics_of(manager.all_topics()) == ["t", "u"]


def test_the_end_of_a_connection_costs_what_came_over_it() -> None:
    """It used to look through all addresses and all brokers for each address of the connection."""

    def seconds(others: int) -> float:
        """Return the least of three connections with a thousand brokers each, beside others."""
        manager: Manager = RouteInfoManager(
            RouteLimits(brokers=BrokerLimits(brokers_max=30_000, brokers_per_connection_max=30_000))
        )
        for number in range(3000 + others):
            manager.register_broker(
                BrokerRegistration(
                    cluster_name=f"c{number % 10}",
                    broker_addr=f"10.0.0.1:{number}",
                    broker_name=f"b{number}",
                    broker_id=0,
                    ha_server_addr=None,
                    data_version=version(1),
                    filter_servers=None,
                ),
                connection=f"ended {number // 1000}" if number < 3000 else "other",
                now=0.0,
            )
        return min(
            processor_seconds(lambda: manager.remove_connection(f"ended {each}", CLIENT), attempts=1)  # noqa: B023
            for each in range(3)
        )

    assert seconds(20_000) < 10 * seconds(0) + 0.01
