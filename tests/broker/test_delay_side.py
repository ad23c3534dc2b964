"""The delay side as a whole: a delayed message waits in its level and reaches its queue; a slave delivers nothing."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rocketpy.broker.delay_side import DelaySide
from rocketpy.broker.message_put import MessageExtBrokerInner
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from tests.broker.processors.message_broker import TOPIC, open_message_broker
from tests.broker.tables_of_a_broker import STORE_HOST, ground_of


def delayed(level: int) -> MessageExtBrokerInner:
    return MessageExtBrokerInner(
        topic=TOPIC,
        queue_id=1,
        body=b"later",
        properties={"DELAY": str(level)},
        flag=0,
        sys_flag=0,
        born_timestamp=1,
        born_host=STORE_HOST,
        reconsume_times=0,
    )


@pytest.mark.parametrize("is_counted", [True, False])
async def test_what_is_put_with_a_level_waits_there_until_the_service_delivers_it(
    is_counted: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Both halves are of the same levels: what one puts away the other finds. It is counted where a setting says so."""
    woken: list[None] = []
    config = MessageStoreConfig(enable_schedule_message_stats=is_counted)
    async with open_message_broker() as broker:
        side = DelaySide(ground_of(broker.tables, broker.store, config), serve_woken=lambda: woken.append(None))
        assert side.message_put.put(delayed(1)).is_ok
        broker.store.end_burst()
        assert broker.store.max_offset_in_queue(SCHEDULE_TOPIC, 0) == 1
        assert broker.store.max_offset_in_queue(TOPIC, 1) == 0
        broker.tables.clock.advance_ms(1_000)
        async with trio.open_nursery() as nursery:
            for service in side.services:
                await nursery.start(service.run)
            await trio.sleep(0.5)
            nursery.cancel_scope.cancel()
        assert [message.body for message in await broker.messages(TOPIC, 1)] == [b"later"]
        assert woken
        assert (broker.tables.stats.get_stats_item("TOPIC_PUT_NUMS", TOPIC) is not None) is is_counted


@pytest.mark.parametrize(("role", "count"), [(BrokerRole.ASYNC_MASTER, 1), (BrokerRole.SLAVE, 0)])
async def test_only_a_master_delivers(role: BrokerRole, count: int) -> None:
    async with open_message_broker() as broker:
        config = MessageStoreConfig(broker_role=role)
        side = DelaySide(ground_of(broker.tables, broker.store, config), serve_woken=lambda: None)
        assert len(side.services) == count
