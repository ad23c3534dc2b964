"""Traps of RocketMQ's client, and what happens here instead; those that no other test file is about."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.client import Client, open_client
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.producer import Producer
from rocketpy.errors import ClientError
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.message import Message
from tests.client.conftest import TOPIC
from tests.client.hostile.conftest import World, consuming

# ---- sends ---------------------------------------------------------------------------------------------------------


async def test_requests_have_the_version_of_a_client_that_brokers_trust(
    world: World, autojump_clock: MockClock, client: Client
) -> None:
    async with client.consumer("g", TOPIC) as consumer:
        await consumer.wait_assigned()
        await trio.sleep(1)
    for server in (world.cluster.name_server, *world.cluster.brokers):
        assert server.requests
        assert {each.version >= 409 for each in server.requests} == {True}


async def test_settings_cannot_be_changed_without_effect() -> None:
    for config in (ClientConfig(), ProducerConfig(), ConsumerConfig()):
        for field in attrs.fields(type(config)):
            with pytest.raises(attrs.exceptions.FrozenInstanceError):
                setattr(config, field.name, getattr(config, field.name))


async def test_a_message_that_is_changed_after_the_call_is_sent_as_it_was(
    world: World, autojump_clock: MockClock
) -> None:
    """And a send changes nothing of it: not with compression, nor with a namespace."""
    world.cluster.add_topic(f"MQ_INST%{TOPIC}", 1)
    message = Message(TOPIC, b"x" * 10_000, {"a": "before"})
    config = ClientConfig(namespace="MQ_INST")
    async with (
        open_client(world.address, environment=world.environment, config=config) as client,
        client.producer("p") as producer,
    ):
        pending = producer.send_nowait(message)
        assert (message.topic, message.body, message.properties) == (TOPIC, b"x" * 10_000, {"a": "before"})
        message.properties["a"] = "after"
        await pending
    (stored,) = (each for broker in world.cluster.brokers for each in broker.messages(f"MQ_INST%{TOPIC}"))
    assert stored.properties["a"] == "before"
    assert (message.topic, message.properties) == (TOPIC, {"a": "after"})


async def test_every_broker_knows_the_producer_before_its_first_request_is_sent(
    world: World, autojump_clock: MockClock, producer: Producer
) -> None:
    with pytest.raises(ClientError, match="10006"):
        await producer.request(Message(TOPIC, b"x"), timeout_s=1.0)
    for broker in world.cluster.brokers:
        codes = [each.code for each in broker.requests]
        assert codes[0] == RequestCode.HEART_BEAT
        assert [each.group_name for each in broker.heartbeats[0].producer_data_set] == ["p"]


async def test_without_a_trace_topic_messages_are_sent_and_the_client_ends(
    world: World, autojump_clock: MockClock
) -> None:
    """No broker creates it either."""
    begun = trio.current_time()
    async with (
        open_client(world.address, environment=world.environment) as client,
        client.producer("p", config=ProducerConfig(enable_msg_trace=True)) as producer,
    ):
        for _ in range(20):
            await producer.send(Message(TOPIC, b"x"))
    assert trio.current_time() - begun < 30
    assert sum(len(broker.bodies(TOPIC)) for broker in world.cluster.brokers) == 20


# ---- consumers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_orderly", [False, True])
async def test_a_broker_that_does_not_tell_offsets_stalls_no_queue_of_another(
    world: World, autojump_clock: MockClock, is_orderly: bool, client: Client
) -> None:
    silent, good = world.cluster.brokers
    silent.be_silent(RequestCode.QUERY_CONSUMER_OFFSET)
    silent.be_silent(RequestCode.GET_MAX_OFFSET)
    handled: list[float] = []

    async def handler(batch: MessageBatch) -> None:
        handled.append(trio.current_time())

    async with consuming(client, handler, is_orderly=is_orderly):
        for _ in range(60):
            sent_at = trio.current_time()
            good.put(TOPIC, 0, b"x")
            await trio.sleep(1)
            late = handled[-1] - sent_at if handled else 1.0
            assert sent_at < 10 or late < 0.5
