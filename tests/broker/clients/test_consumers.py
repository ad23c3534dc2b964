"""Consumers that are online: changes, the members to notify, and members that have stopped their heartbeats."""

from __future__ import annotations

import pytest

from rocketpy.broker.clients.channel import ClientChannelInfo
from rocketpy.protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from rocketpy.protocol.codes import LanguageCode
from tests.broker.tables_of_a_broker import Tables


class Peer:
    """A fake connection: the tables use none of its methods."""


def client(channel: Peer, client_id: str = "c1") -> ClientChannelInfo:
    return ClientChannelInfo(channel, client_id, LanguageCode.JAVA, 409, 0.0)  # type: ignore[arg-type]


def consumer(group: str = "g", **topics: int) -> ConsumerData:
    """A heartbeat's group with topics and the versions of their subscriptions."""
    subscriptions = [SubscriptionData(topic, "*", version) for topic, version in topics.items()]
    return ConsumerData(group, subscription_data_set=subscriptions)


@pytest.fixture
def one() -> Peer:
    return Peer()


@pytest.fixture
def two() -> Peer:
    return Peer()


def test_a_new_member_is_a_change_for_all(tables: Tables, one: Peer, two: Peer) -> None:
    assert tables.consumers.register_consumer(client(one), consumer(t=1))
    assert tables.consumers.register_consumer(client(two, "c2"), consumer(t=1))
    assert not tables.consumers.register_consumer(client(two, "c2"), consumer(t=1))


def test_a_new_topic_and_a_topic_that_is_gone_are_changes(tables: Tables, one: Peer) -> None:
    tables.consumers.register_consumer(client(one), consumer(t=1))
    assert tables.consumers.register_consumer(client(one), consumer(t=1, u=1))
    assert tables.consumers.register_consumer(client(one), consumer(u=1))
    group = tables.consumers.get_consumer_group_info("g")
    assert group is not None
    assert list(group.subscription_table) == ["u"]


@pytest.mark.parametrize(("version", "counts"), [(1, 2), (2, 2), (3, 3)])
def test_a_higher_version_replaces_a_subscription_without_being_a_change(
    tables: Tables, one: Peer, version: int, counts: int
) -> None:
    tables.consumers.register_consumer(client(one), consumer(t=2))
    assert not tables.consumers.register_consumer(client(one), consumer(t=version))
    subscription = tables.consumers.find_subscription_data("g", "t")
    assert subscription is not None
    assert subscription.sub_version == counts


def test_the_same_connection_under_another_id_replaces_it_without_being_a_change(tables: Tables, one: Peer) -> None:
    tables.consumers.register_consumer(client(one, "c1"), consumer(t=1))
    assert not tables.consumers.register_consumer(client(one, "c2"), consumer(t=1))
    group = tables.consumers.get_consumer_group_info("g")
    assert group is not None
    assert group.client_ids == ["c2"]
    assert group.find_channel("c1") is None
    found = group.find_channel("c2")
    assert found is not None
    assert found.channel is one


def test_the_last_heartbeat_decides_type_and_model(tables: Tables, one: Peer, two: Peer) -> None:
    tables.consumers.register_consumer(client(one), consumer(t=1))
    other = ConsumerData("g", "CONSUME_ACTIVELY", "BROADCASTING", "CONSUME_FROM_TIMESTAMP")
    tables.consumers.register_consumer(client(two), other)
    group = tables.consumers.get_consumer_group_info("g")
    assert group is not None
    assert (group.consume_type, group.message_model, group.consume_from_where) == (
        "CONSUME_ACTIVELY",
        "BROADCASTING",
        "CONSUME_FROM_TIMESTAMP",
    )


def test_leaving_is_a_change_once(tables: Tables, one: Peer, two: Peer) -> None:
    tables.consumers.register_consumer(client(one), consumer(t=1))
    tables.consumers.register_consumer(client(two), consumer(t=1))
    assert tables.consumers.unregister_consumer("g", one)  # type: ignore[arg-type]
    assert not tables.consumers.unregister_consumer("g", one)  # type: ignore[arg-type]
    assert not tables.consumers.unregister_consumer("h", two)  # type: ignore[arg-type]
    assert tables.consumers.unregister_consumer("g", two)  # type: ignore[arg-type]
    assert tables.consumers.get_consumer_group_info("g") is None


def test_groups_by_topic(tables: Tables, one: Peer) -> None:
    tables.consumers.register_consumer(client(one), consumer("g", t=1))
    tables.consumers.register_consumer(client(one), consumer("h", t=1, u=1))
    assert tables.consumers.query_topic_consume_by_who("t") == ["g", "h"]
    assert tables.consumers.query_topic_consume_by_who("u") == ["h"]
    assert tables.consumers.find_subscription_data("g", "u") is None
    assert tables.consumers.find_subscription_data("nobody", "u") is None


def test_who_is_silent_for_more_than_120_seconds_is_found_once(tables: Tables, one: Peer, two: Peer) -> None:
    for group in ("g", "h"):
        tables.consumers.register_consumer(client(one), consumer(group))
    tables.time.now += 60
    tables.consumers.register_consumer(client(two), consumer("g"))
    tables.time.now += 60
    assert tables.consumers.scan_not_active_channel() == []
    tables.time.now += 1
    assert tables.consumers.scan_not_active_channel() == [one]


def test_a_client_whose_one_group_is_silent_counts_as_silent(tables: Tables, one: Peer) -> None:
    tables.consumers.register_consumer(client(one), consumer("old"))
    tables.time.now += 121
    tables.consumers.register_consumer(client(one), consumer("new"))
    assert tables.consumers.scan_not_active_channel() == [one]
