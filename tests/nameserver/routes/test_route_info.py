"""Routes with plain values: which brokers and topics are shown after registrations, removals and commands."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest

from rocketpy.nameserver.routes.broker_table import (
    BrokerLimits,
    RegisterBrokerResult,
)
from rocketpy.nameserver.routes.route_info import RouteInfoManager, RouteLimits
from rocketpy.protocol.bodies.topic import DataVersion, TopicConfig
from tests.nameserver.routes.brokers import MASTER, OTHER, registration, version
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


@pytest.fixture
def manager() -> Manager:
    return RouteInfoManager()


def test_the_end_of_a_connection_removes_every_address_that_came_over_it(manager: Manager) -> None:
    register(manager, topic("t"), name="a", addr=MASTER, connection="shared")
    register(manager, topic("u"), name="b", addr=OTHER, connection="shared")
    assert manager.remove_connection("shared", CLIENT) == [MASTER, OTHER]
    assert manager.statistics().live_addresses == 0


def test_a_connection_without_registration_is_tried_by_its_peer(manager: Manager) -> None:
    register(manager, connection="other")
    assert manager.remove_connection("unknown", CLIENT) == []
    assert manager.remove_connection("unknown", MASTER) == [MASTER]


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


# -- limits -----------------------------------------------------------------------------------------------------------


def test_the_end_of_a_connection_costs_what_came_over_it() -> None:
    """It used to look through all addresses and all brokers for each address of the connection."""

    def seconds(others: int) -> float:
        """Return the least of three connections with a thousand brokers each, beside others."""
        manager: Manager = RouteInfoManager(
            RouteLimits(brokers=BrokerLimits(brokers_max=30_000, brokers_per_connection_max=30_000))
        )
        for number in range(3000 + others):
            manager.register_broker(
                registration(addr=f"10.0.0.1:{number}", name=f"b{number}", cluster=f"c{number % 10}"),
                connection=f"ended {number // 1000}" if number < 3000 else "other",
                now=0.0,
            )
        return min(
            processor_seconds(lambda: manager.remove_connection(f"ended {each}", CLIENT), attempts=1)  # noqa: B023
            for each in range(3)
        )

    assert seconds(20_000) < 10 * seconds(0) + 0.01
