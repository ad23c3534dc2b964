"""The delay side as a whole: a delayed message waits in its level and reaches its queue; a slave delivers nothing."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rocketpy.broker.delay.feature import DelayFeature
from rocketpy.broker.send.put import MessageExtBrokerInner
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import PERM_READ, ResponseCode
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.protocol.topic_name import DELAY_DEAD_LETTER_TOPIC, SCHEDULE_TOPIC
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from tests.broker.message_broker import TOPIC, open_message_broker, pull, send
from tests.broker.tables_of_a_broker import STORE_HOST, context_of


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


async def deliver(feature: DelayFeature) -> None:
    """Run its services for a while."""
    async with trio.open_nursery() as nursery:
        for service in feature.services:
            await nursery.start(service.run)
        await trio.sleep(0.5)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("is_counted", [True, False])
async def test_what_is_put_with_a_level_waits_there_until_the_service_delivers_it(
    is_counted: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Both halves are of the same levels: what one puts away the other finds. It is counted where a setting says so."""
    woken: list[None] = []
    config = MessageStoreConfig(enable_schedule_message_stats=is_counted)
    async with open_message_broker() as broker:
        feature = DelayFeature(context_of(broker.tables, broker.store, config), serve_woken=lambda: woken.append(None))
        assert feature.message_put.put(delayed(1)).is_ok
        broker.store.end_burst()
        assert broker.store.max_offset_in_queue(SCHEDULE_TOPIC, 0) == 1
        assert broker.store.max_offset_in_queue(TOPIC, 1) == 0
        broker.tables.clock.advance_ms(1_000)
        await deliver(feature)
        assert [message.body for message in await broker.messages(TOPIC, 1)] == [b"later"]
        assert woken
        assert (broker.tables.stats.get_stats_item("TOPIC_PUT_NUMS", TOPIC) is not None) is is_counted


@pytest.mark.parametrize(("read", "write", "expected"), [(2, 2, 1), (1, 1, 0), (3, 1, 1), (1, 4, 0)])
async def test_a_topic_with_fewer_queues_than_at_the_send_gets_the_message_where_it_is_read(
    read: int, write: int, expected: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_message_broker() as broker:
        feature = DelayFeature(context_of(broker.tables, broker.store, MessageStoreConfig()), serve_woken=lambda: None)
        assert feature.message_put.put(delayed(1)).is_ok
        broker.store.end_burst()
        broker.tables.topics.update_topic_config(TopicConfig(TOPIC, read, write))
        broker.tables.clock.advance_ms(1_000)
        await deliver(feature)
        assert [message.body for message in await broker.messages(TOPIC, expected)] == [b"later"]


@pytest.mark.parametrize(("role", "count"), [(BrokerRole.ASYNC_MASTER, 1), (BrokerRole.SLAVE, 0)])
async def test_only_a_master_delivers(role: BrokerRole, count: int) -> None:
    async with open_message_broker() as broker:
        config = MessageStoreConfig(broker_role=role)
        feature = DelayFeature(context_of(broker.tables, broker.store, config), serve_woken=lambda: None)
        assert len(feature.services) == count


async def test_what_can_never_be_delivered_is_in_a_topic_that_operators_read_and_clients_cannot_send_to(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It is made when it is needed, also where there are too many topics for any other."""
    async with open_message_broker(auto_create_topic_max=1) as broker:
        feature = DelayFeature(context_of(broker.tables, broker.store, MessageStoreConfig()), serve_woken=lambda: None)
        topics = broker.tables.topics
        assert topics.select_topic_config(DELAY_DEAD_LETTER_TOPIC) is None
        broker.store.put_timed(SCHEDULE_TOPIC, 0, b"lost", b"DELAY\x011", 0, (), 0, 0, 1, STORE_HOST, 0)
        broker.store.end_burst()
        await deliver(feature)
        config = topics.select_topic_config(DELAY_DEAD_LETTER_TOPIC)
        assert config is not None
        assert (config.perm, config.read_queue_nums) == (PERM_READ, 1)
        assert topics.is_system_topic(DELAY_DEAD_LETTER_TOPIC), "no request changes or deletes it"
        answer = await broker.ask(pull(topic=DELAY_DEAD_LETTER_TOPIC))
        assert [message.body for message in decode_messages(answer.body or b"")] == [b"lost"]
        assert (await broker.ask(send(topic=DELAY_DEAD_LETTER_TOPIC))).code == ResponseCode.NO_PERMISSION
