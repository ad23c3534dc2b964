"""Messages, queues and selectors of a program without type checks: the call with one fails, and nothing else does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.client import Client, open_client
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.producer.producer import Producer
from rocketpy.errors import ClientError
from rocketpy.protocol.message import Message, MessageQueue
from tests.client.conftest import TOPIC
from tests.client.hostile.conftest import World

BAD: dict[str, dict[str, Any]] = {
    "a body that is text": {"body": "text"},
    "a long body that is text": {"body": "text" * 5000},
    "no body": {"body": None},
    "a body that may change": {"body": bytearray(b"x")},
    "a body that is a view": {"body": memoryview(b"x")},
    "a body that is a list": {"body": [1]},
    "no topic": {"topic": None},
    "a topic that is a number": {"topic": 5},
    "a topic that is bytes": {"topic": b"T"},
    "no properties": {"properties": None},
    "properties that are a list": {"properties": ["a"]},
    "a property that is a number": {"properties": {"a": 1}},
    "a property without a value": {"properties": {"a": None}},
    "a name of a property that is a number": {"properties": {1: "a"}},
    "properties that are too long": {"properties": {"a": "x" * 40_000}},
    "a flag that is text": {"flag": "x"},
    "a flag that is too large": {"flag": 2**31},
}


async def _nowait(producer: Producer, message: Message) -> object:
    return await producer.send_nowait(message)


async def _soon(producer: Producer, message: Message) -> object:
    return await (await producer.send_soon(message))


async def _batched(producer: Producer, message: Message) -> object:
    async with producer.batching() as batching:
        return await batching.send(message)


async def _batched_nowait(producer: Producer, message: Message) -> object:
    async with producer.batching() as batching:
        return await batching.send_nowait(message)


WAYS: dict[str, Callable[[Producer, Message], Awaitable[object]]] = {
    "send": lambda producer, message: producer.send(message),
    "send_nowait": _nowait,
    "send_soon": _soon,
    "send_oneway": lambda producer, message: producer.send_oneway(message),
    "send_batch": lambda producer, message: producer.send_batch([message, message]),
    "request": lambda producer, message: producer.request(message, timeout_s=1.0),
    "batching": _batched,
    "batching, without waiting": _batched_nowait,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
async def test_what_is_no_message_is_refused_and_the_producer_goes_on(
    world: World, autojump_clock: MockClock, bad: dict[str, Any], way: Callable[[Producer, Message], Awaitable[object]]
) -> None:
    """Its block ends too: nothing waits for the answer to what was never sent."""
    good: dict[str, Any] = {"topic": TOPIC, "body": b"x"}
    with trio.fail_after(60):
        async with (
            open_client(world.address, environment=world.environment) as client,
            client.producer("p") as producer,
        ):
            with pytest.raises(ClientError) as caught:
                await way(producer, Message(**(good | bad)))
            assert len(str(caught.value)) < 300
            assert not any(broker.bodies(TOPIC) for broker in world.cluster.brokers)
            await producer.send(Message(**good))


@pytest.mark.parametrize("name", [None, b"broker-a", 5])
async def test_a_queue_of_no_broker_is_a_client_error_and_the_producer_goes_on(
    autojump_clock: MockClock, name: Any, producer: Producer
) -> None:
    with pytest.raises(ClientError, match="10003"):
        await producer.send(Message(TOPIC, b"x"), queue=MessageQueue(TOPIC, name, 0))
    await producer.send(Message(TOPIC, b"x"))


@pytest.mark.parametrize("tasks", [0, -1])
async def test_a_consumer_that_would_call_no_handler_is_refused(
    autojump_clock: MockClock, tasks: int, client: Client
) -> None:
    async def handler(batch: MessageBatch) -> None:
        pass

    for is_orderly in (False, True):
        async with client.consumer("g", TOPIC) as consumer:
            with pytest.raises(ValueError, match="expected at least 1"):
                await (consumer.run_orderly if is_orderly else consumer.run)(handler, tasks=tasks)
