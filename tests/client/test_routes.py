"""What follows from a route: queues and addresses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpy.client import routes
from rocketpy.client.routes import (
    ADDRESSES_OF_TOPIC_MAX,
    QUEUES_OF_TOPIC_MAX,
    RouteTable,
    check_route,
    publish_queues,
    route_like,
    subscribe_queues,
)
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketpy.protocol.message import MessageQueue


def route(*queues: QueueData, order: str | None = None, **addresses: dict[int, str]) -> TopicRouteData:
    """A route of these queues; addresses by broker name."""
    brokers = [BrokerData("c", name, addrs) for name, addrs in addresses.items()]
    return TopicRouteData(order_topic_conf=order, queue_datas=list(queues), broker_datas=brokers)


def places(queues: tuple[MessageQueue, ...] | list[MessageQueue]) -> list[tuple[str, int]]:
    """Broker name and number of each queue."""
    return [(queue.broker_name, queue.queue_id) for queue in queues]


def test_sending_needs_write_permission_and_a_master() -> None:
    found = publish_queues(
        "T",
        route(
            QueueData("b", read_queue_nums=9, write_queue_nums=2, perm=6),
            QueueData("a", read_queue_nums=9, write_queue_nums=1, perm=2),
            QueueData("read_only", read_queue_nums=9, write_queue_nums=9, perm=4),
            QueueData("slave_only", read_queue_nums=9, write_queue_nums=9, perm=6),
            QueueData("unknown", read_queue_nums=9, write_queue_nums=9, perm=6),
            a={0: "a:1"},
            b={0: "b:1", 1: "b:2"},
            read_only={0: "r:1"},
            slave_only={1: "s:1"},
        ),
    )
    assert places(found) == [("a", 0), ("b", 0), ("b", 1)]


def test_pulling_needs_read_permission_only() -> None:
    found = subscribe_queues(
        "T",
        route(
            QueueData("b", read_queue_nums=2, write_queue_nums=9, perm=4),
            QueueData("a", read_queue_nums=1, write_queue_nums=9, perm=6),
            QueueData("write_only", read_queue_nums=9, write_queue_nums=9, perm=2),
            b={1: "b:2"},
        ),
    )
    assert places(found) == [("a", 0), ("b", 0), ("b", 1)]


def test_an_order_list_decides_alone() -> None:
    found = publish_queues("T", route(QueueData("a", 9, 9, 0), order="b:2; a:1;;nonsense;c:x", a={0: "a:1"}))
    assert places(found) == [("b", 0), ("b", 1), ("a", 0)]


def test_a_new_topic_is_like_the_template_with_at_most_so_many_queues() -> None:
    template = route(QueueData("a", 8, 8, 7), QueueData("b", 2, 8, 7), a={0: "a:1"}, b={0: "b:1"})
    found = publish_queues("T", route_like(template, 4))
    assert places(found) == [("a", 0), ("a", 1), ("a", 2), ("a", 3), ("b", 0), ("b", 1)]


def test_a_table_says_whether_a_route_brings_new_addresses() -> None:
    table = RouteTable()
    assert table.put("T", route(QueueData("a", 1, 1, 6), a={0: "a:1"}))
    assert not table.put("T", route(QueueData("a", 2, 2, 6), a={0: "a:1"}))
    assert places(table.publish_queues("T")) == [("a", 0), ("a", 1)]
    assert table.publish_queues("other") == ()
    assert table.put("other", route(a={0: "a:2"}))  # a moved broker: the last route decides
    assert table.publish_address("a") == "a:2"
    assert table.topics == ["T", "other"]


def test_addresses_of_a_queues_broker() -> None:
    table = RouteTable()
    table.put("T", route(a={0: "a:1", 2: "a:3"}, b={1: "b:2"}))
    assert table.publish_address("a") == "a:1"
    assert table.publish_address("b") is None
    assert table.subscribe_address("a", 0) == "a:1"
    assert table.subscribe_address("a", 1) == "a:3", "the slave after the one that is missing"
    assert table.subscribe_address("a", 7) == "a:1", "any"
    assert table.subscribe_address("b", 0) == "b:2", "a dead master's slave"
    assert table.subscribe_address("c", 0) is None
    assert table.broker_addresses() == ["a:1", "a:3", "b:2"]
    assert table.broker_addresses(masters_only=True) == ["a:1"]


def test_brokers_that_no_route_names_are_forgotten() -> None:
    table = RouteTable()
    table.put("T", route(a={0: "a:1"}, b={0: "b:1"}))
    table.put("T", route(b={0: "b:1"}))
    assert table.publish_address("a") == "a:1"
    table.forget_unrouted_brokers()
    assert table.publish_address("a") is None
    assert table.publish_address("b") == "b:1"


def test_queues_to_pull_from_and_brokers_of_a_topic_come_from_its_cached_route() -> None:
    table = RouteTable()
    assert table.subscribe_queues("T") is None
    assert table.addresses_of_topic("T") == []
    table.put("T", route(QueueData("a", 2, 0, 4), QueueData("b", 1, 1, 6), a={0: "a:1", 1: "a:2"}, b={1: "b:2"}))
    found = table.subscribe_queues("T")
    assert found is not None
    assert places(found) == [("a", 0), ("a", 1), ("b", 0)]
    assert table.addresses_of_topic("T") == ["a:1", "b:2"]


def test_a_route_is_checked_before_anything_is_made_of_its_numbers() -> None:
    broker = BrokerData("c", "a", {0: "10.0.0.1:1"})
    check_route("T", TopicRouteData(queue_datas=[QueueData("a", QUEUES_OF_TOPIC_MAX, -5, 6)], broker_datas=[broker]))
    for bad in (
        TopicRouteData(queue_datas=[QueueData("a", QUEUES_OF_TOPIC_MAX, 0), QueueData("b", 1, 0)]),
        TopicRouteData(queue_datas=[QueueData("a", 0, QUEUES_OF_TOPIC_MAX + 1)]),
        TopicRouteData(order_topic_conf=f"a:{QUEUES_OF_TOPIC_MAX};b:1"),
        TopicRouteData(broker_datas=[BrokerData("c", "a", dict.fromkeys(range(ADDRESSES_OF_TOPIC_MAX + 1), "x:1"))]),
    ):
        with pytest.raises(RemoteProtocolError, match="route of T: expected at most"):
            check_route("T", bad)


def test_an_entry_of_an_order_list_with_an_absurd_number_is_skipped() -> None:
    route = TopicRouteData(order_topic_conf="a:" + "9" * 5000 + ";b:2")
    assert publish_queues("T", route) == (MessageQueue("T", "b", 0), MessageQueue("T", "b", 1))


# ---- topics that have gone -------------------------------------------------------------------------------------------


def table_of(*topics: str) -> RouteTable:
    table = RouteTable()
    for topic in topics:
        table.put(topic, route(QueueData(topic, 1, 1, 6), **{topic: {0: f"{topic}:1"}}))
    return table


def test_a_route_that_is_unknown_and_unused_is_forgotten_after_a_time() -> None:
    table = table_of("T", "U")
    table.note_unknown("T", 10.0)
    table.note_unknown("T", 20.0)
    table.note_unknown("never asked", 10.0)
    table.forget_unused(9.0)
    assert table.topics == ["T", "U"]
    table.forget_unused(10.0)
    table.forget_unrouted_brokers()
    assert table.topics == ["U"]
    assert table.publish_queues("T") == ()
    assert table.publish_address("T") is None


@pytest.mark.parametrize(
    "use",
    [
        lambda table: table.publish_queues("T"),
        lambda table: table.subscribe_queues("T"),
        lambda table: table.addresses_of_topic("T"),
        lambda table: table.note_used("T"),
        lambda table: table.put("T", route(QueueData("T", 1, 1, 6), T={0: "T:1"})),
    ],
)
def test_a_route_that_is_used_stays_though_no_nameserver_knows_its_topic(use: Callable[[RouteTable], object]) -> None:
    table = table_of("T")
    table.note_unknown("T", 10.0)
    use(table)
    table.forget_unused(20.0)
    assert places(table.publish_queues("T")) == [("T", 0)]
    table.note_unknown("T", 30.0)
    table.forget_unused(20.0)
    assert table.topics == ["T"]


def test_of_too_many_unknown_topics_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "UNKNOWN_ROUTES_MAX", 2)
    table = table_of("a", "b", "c")
    for topic in ("b", "a", "c"):
        table.note_unknown(topic, 10.0)
    assert table.topics == ["a", "c"]
