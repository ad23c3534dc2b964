"""Properties that hooks add travel with each message, and the caller's message stays as it is."""

from __future__ import annotations

from contextvars import ContextVar

import pytest
import trio

from rocketpy.client.client import open_client
from rocketpy.client.results import LocalTransactionState
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.message import Message, MessageExt
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster

SPAN: ContextVar[str] = ContextVar("SPAN", default="none")


class Traceparent:
    """Adds the span of the sender, and counts."""

    hook_name = "traceparent"

    def __init__(self) -> None:
        self.count = 0

    def properties_of(self, message: Message) -> dict[str, str]:
        self.count += 1
        message.properties["scribbled"] = "on a copy"
        return {"traceparent": f"{SPAN.get()} of {message.body.decode().strip()}"}


async def never_asked(message: MessageExt) -> LocalTransactionState:
    raise AssertionError(message)


async def test_each_message_has_what_its_sender_is_about(cluster: FakeCluster) -> None:
    """Also those of a batch, and those that are collected; one that is too long for a batch is asked for once too."""
    hook, long = Traceparent(), Message(TOPIC, b"long".ljust(200))
    async with open_client(cluster.address) as client, client.producer("p", properties_hooks=[hook]) as producer:
        SPAN.set("one")
        message = Message(TOPIC, b"single", {"a": "b", "traceparent": "of where it came from"})
        await producer.send(message)
        await producer.send_nowait(Message(TOPIC, b"nowait"))
        await producer.send_oneway(Message(TOPIC, b"oneway"))
        await producer.send_batch([Message(TOPIC, b"1st"), Message(TOPIC, b"2nd")])
        async with producer.batching(batch_max_bytes=300) as batches, trio.open_nursery() as nursery:
            for span in ("two", "three"):
                SPAN.set(span)
                nursery.start_soon(batches.send, Message(TOPIC, span.encode()))
            nursery.start_soon(batches.send, long)
    cluster.broker.register(RequestCode.END_TRANSACTION, lambda connection, request: None)
    async with (
        open_client(cluster.address) as client,
        client.transaction_producer("g", check=never_asked, properties_hooks=[hook]) as transactions,
        transactions.transaction(Message(TOPIC, b"half")) as transaction,
    ):
        await transaction.commit()
    assert message == Message(TOPIC, b"single", {"a": "b", "traceparent": "of where it came from"})
    stored = {each.body.strip().decode(): each.properties["traceparent"] for each in cluster.broker.messages(TOPIC)}
    spans = {**dict.fromkeys(("single", "nowait", "oneway", "1st", "2nd"), "one"), "two": "two"}
    spans |= dict.fromkeys(("three", "long", "half"), "three")
    assert stored == {body: f"{span} of {body}" for body, span in spans.items()}
    assert not any("scribbled" in each.properties for each in cluster.broker.messages(TOPIC))
    assert hook.count == len(stored)


async def test_all_attempts_carry_the_same(two_brokers: FakeCluster) -> None:
    hook = Traceparent()
    two_brokers.brokers[0].refuse(RequestCode.SEND_MESSAGE_V2, ResponseCode.SYSTEM_ERROR)
    async with open_client(two_brokers.address) as client, client.producer("p", properties_hooks=[hook]) as producer:
        for _ in range(4):
            await producer.send(Message(TOPIC, b"x"))
    assert len(two_brokers.brokers[0].asked(RequestCode.SEND_MESSAGE_V2)) > 0
    assert hook.count == 4


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (ValueError("no span"), "ValueError: no span"),
        ({"good": "1", "KEYS": "order 1"}, "Property<KEYS> is used by system"),
        ({"good": "1", "bad": "a\x01b"}, "separates properties"),
        (None, "TypeError"),
    ],
)
async def test_a_hook_that_fails_is_logged_and_adds_nothing(
    cluster: FakeCluster, found: object, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Fails:
        hook_name = "fails"

        def properties_of(self, message: Message) -> dict[str, str]:
            if isinstance(found, Exception):
                raise found
            return found  # type: ignore[return-value]

    async with (
        open_client(cluster.address) as client,
        client.producer("p", properties_hooks=[Fails(), Traceparent()]) as producer,
    ):
        await producer.send(Message(TOPIC, b"x"))
    (stored,) = cluster.broker.messages(TOPIC)
    assert stored.properties.keys() == {"UNIQ_KEY", "WAIT", "traceparent"}
    assert "propertiesHook fails, before a send, failed" in caplog.text
    assert reason in caplog.text
