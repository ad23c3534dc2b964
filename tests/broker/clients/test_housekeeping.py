"""Silent clients and ended connections are removed from every table, and the remaining members are notified."""

from __future__ import annotations

from collections.abc import Callable

import trio
import trio.testing

from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.message import MessageQueue
from rocketpy.remoting.connection import Connection
from tests.broker.broker_on_bytes import BrokerOnBytes, received


async def join(broker: BrokerOnBytes, client_id: str, *, produces: bool = False) -> Connection:
    body = HeartbeatData(client_id, [ProducerData("p")] if produces else [], [ConsumerData("g")])
    connection = broker.connect()
    await broker.ask_all(make_request(RequestCode.HEART_BEAT, body=encode_body(body)), connection)
    return connection


async def test_the_end_of_a_connection_is_notified_to_the_others(broker: BrokerOnBytes) -> None:
    first, second = await join(broker, "c1", produces=True), await join(broker, "c2")
    received(first), received(second)
    first.close()
    assert [(each.code, each.ext_fields) for each in received(second)] == [(40, {"consumerGroup": "g"})]
    group = broker.tables.consumers.get_consumer_group_info("g")
    assert group is not None
    assert group.client_ids == ["c2"]
    assert broker.tables.producers.groups == []


async def test_a_silent_client_loses_its_connection_and_the_others_are_notified(broker: BrokerOnBytes) -> None:
    silent = await join(broker, "c1", produces=True)
    broker.tables.time.now += 60
    alive = await join(broker, "c2")
    received(alive)
    broker.tables.time.now += 61
    broker.housekeeping.scan()
    assert silent.is_closed
    assert not alive.is_closed
    assert [each.code for each in received(alive)] == [40]
    assert broker.housekeeping.statistics().expired_connections == 1
    broker.housekeeping.scan()
    assert broker.housekeeping.statistics().expired_connections == 1


async def test_locks_that_are_not_renewed_are_dropped(broker: BrokerOnBytes) -> None:
    broker.tables.locks.try_lock_batch("g", [MessageQueue("t", "b", 0)], "c1")
    broker.tables.time.now += 601
    broker.housekeeping.scan()
    assert broker.housekeeping.statistics().dropped_locks == 1


async def test_it_scans_every_ten_seconds(
    broker: BrokerOnBytes, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    await nursery.start(broker.housekeeping.run)
    await trio.sleep(35)
    assert broker.housekeeping.statistics().scans == 3


async def test_filters_of_groups_that_left_long_ago_are_forgotten(broker_with: Callable[..., BrokerOnBytes]) -> None:
    broker = broker_with(filter_data_clean_time_span=60_000)
    filters, subscription = broker.tables.filters, SubscriptionData("t", "a > 1", 1, expression_type="SQL92")
    body = HeartbeatData("c1", [], [ConsumerData("g", subscription_data_set=[subscription])])
    connection = broker.connect()
    await broker.ask_all(make_request(RequestCode.HEART_BEAT, body=encode_body(body)), connection)
    registered = filters.get("t", "g")
    assert registered is not None
    connection.close()
    assert registered.is_dead
    broker.housekeeping.scan()
    assert filters.get("t", "g") is registered
    broker.tables.clock.advance_ms(60_000)
    broker.housekeeping.scan()
    assert filters.get("t", "g") is None
    assert broker.housekeeping.statistics().dropped_filters == 1
