"""Which attempts hooks are shown, and in whose context variables; ``tests/client/test_hooks.py`` has what they see."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar, copy_context
from typing import Any

import attrs
import pytest
import trio

from rocketpy.client import aio, blocking
from rocketpy.client.client import open_client
from rocketpy.client.hooks import CommunicationMode, SendMessageContext
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.producer import Producer
from rocketpy.errors import (
    BrokerError,
    ClientError,
    RemoteProtocolError,
    RemotingConnectError,
    RemotingSendRequestError,
)
from rocketpy.protocol.bodies.route import BrokerData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_response
from rocketpy.protocol.message import Message, MessageQueue
from rocketpy.testing.fixture.in_thread import BrokerInThread
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.patience import until

SEND = RequestCode.SEND_MESSAGE_V2
ONCE = ProducerConfig(retry_times_when_send_failed=0, retry_times_when_send_async_failed=0)
USER: ContextVar[str] = ContextVar("USER", default="nobody")
SEEN_BEFORE: ContextVar[bool] = ContextVar("SEEN_BEFORE", default=False)


class Watcher:
    """Notes the attempts, and the user that its calls run for."""

    hook_name = "watcher"

    def __init__(self) -> None:
        self.begun: list[SendMessageContext] = []
        self.ended: list[SendMessageContext] = []
        self.users: list[tuple[bytes, str, str]] = []

    def send_message_before(self, context: SendMessageContext) -> None:
        assert not SEEN_BEFORE.get(), "what a hook sets belongs to one send"
        SEEN_BEFORE.set(True)
        context.trace_context = USER.get()
        self.begun.append(context)

    def send_message_after(self, context: SendMessageContext) -> None:
        assert SEEN_BEFORE.get(), "it is called where the first call was"
        SEEN_BEFORE.set(False)
        assert context in self.begun
        self.ended.append(context)
        self.users.append((context.messages[0].body, str(context.trace_context), USER.get()))


@asynccontextmanager
async def watched(cluster: FakeCluster, config: ProducerConfig = ONCE) -> AsyncIterator[tuple[Producer, Watcher]]:
    """Open a producer, and look at the end whether each attempt that was announced has been reported."""
    hook = Watcher()
    async with (
        open_client(cluster.address) as client,
        client.producer("p", config=config, send_hooks=[hook]) as producer,
    ):
        yield producer, hook
    assert len(hook.ended) == len(hook.begun)
    assert set(hook.ended) == set(hook.begun)


async def test_an_attempt_without_connection_is_shown(cluster: FakeCluster) -> None:
    """A broker that is away is what an error metric is for."""
    away = [BrokerData("cluster", "broker-a", {0: "127.0.0.1:1"})]
    for topic in (TOPIC, "TBW102"):
        cluster.name_server.routes[topic] = attrs.evolve(cluster.route(1), broker_datas=away)
    async with watched(cluster) as (producer, hook):
        for send in (producer.send, producer.send_nowait, producer.send_oneway):
            with pytest.raises(RemotingConnectError):
                await send(Message(TOPIC, b"x"))
    assert all(isinstance(each.exception, RemotingConnectError) for each in hook.ended)
    assert {(each.message_queue, each.broker_address) for each in hook.ended[-1:]} == {
        (MessageQueue(TOPIC, "broker-a", 0), "127.0.0.1:1")
    }
    assert {each.communication_mode for each in hook.ended} == set(CommunicationMode)


async def test_an_attempt_without_route_or_queue_is_shown(cluster: FakeCluster) -> None:
    def fails(queues: object, message: object) -> MessageQueue:
        raise ValueError("no choice")

    del cluster.name_server.routes["TBW102"]
    async with watched(cluster) as (producer, hook):
        for send in (producer.send, producer.send_nowait, producer.send_oneway):
            with pytest.raises(ClientError, match="No route info"):
                await send(Message("Nowhere", b"x"))
        with pytest.raises(ClientError, match="select message queue threw"):
            await producer.send(Message(TOPIC, b"x"), queue=fails)
    queues = [each.message_queue for each in hook.ended]
    assert queues == [MessageQueue("Nowhere", "", -1)] * 3 + [MessageQueue(TOPIC, "", -1)]


async def test_an_attempt_ends_for_hooks_however_it_ends(cluster: FakeCluster) -> None:
    """By an answer that cannot be read, by a cancellation, by the end of the producer."""
    async with watched(cluster) as (producer, hook):
        cluster.broker.spoil = lambda connection, request, answer: (
            make_response(request) if request.code == SEND else answer
        )
        with pytest.raises(RemoteProtocolError):
            await producer.send(Message(TOPIC, b"garbage"))
        cluster.broker.behave()
        cluster.broker.be_silent(SEND)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(producer.send, Message(TOPIC, b"cancelled"))
            await until(lambda: len(cluster.broker.asked(SEND)) == 2)
            nursery.cancel_scope.cancel()
        with trio.CancelScope() as scope:
            scope.cancel()
            pending = producer.send_nowait(Message(TOPIC, b"closed"))
            await producer.aclose()
        with pytest.raises(RemotingSendRequestError, match="was closed before"):
            pending.result()
    failures = {each.messages[0].body: type(each.exception) for each in hook.ended}
    assert failures == {
        b"garbage": RemoteProtocolError,
        b"cancelled": RemotingSendRequestError,
        b"closed": RemotingSendRequestError,
    }


async def test_what_is_forbidden_is_not_shown_and_what_fails_to_decide_forbids(cluster: FakeCluster) -> None:
    class Forbids:
        hook_name = "forbids"

        def check_forbidden(self, context: SendMessageContext) -> None:
            if context.messages[0].body == b"bug":
                raise ZeroDivisionError
            raise ClientError(403, "no")

    watcher = Watcher()
    async with (
        open_client(cluster.address) as client,
        client.producer("p", send_hooks=[watcher], check_forbidden_hooks=[Forbids()]) as producer,
    ):
        for body, reason in ((b"x", "no"), (b"bug", "checkForbiddenHook forbids failed: ZeroDivisionError")):
            for send in (producer.send, producer.send_nowait, producer.send_oneway):
                with pytest.raises(ClientError, match=reason):
                    await send(Message(TOPIC, body))
    assert watcher.begun == []
    assert cluster.broker.bodies(TOPIC) == []


async def _send_for(user: str, send: Any, body: bytes) -> None:
    USER.set(user)
    await send(Message(TOPIC, body))


async def test_hooks_run_in_the_context_of_the_send_they_observe(two_brokers: FakeCluster) -> None:
    """While there is no route and no connection yet, when there is one, and when a send is tried again."""
    two_brokers.brokers[0].refuse(SEND, ResponseCode.SYSTEM_ERROR)
    async with watched(two_brokers, ProducerConfig()) as (producer, hook):
        for _ in range(2):
            async with trio.open_nursery() as nursery:
                for number in range(20):
                    nursery.start_soon(_send_for, f"user {number}", producer.send, b"%d" % number)
    assert len(hook.users) > 40
    assert any(isinstance(each.exception, BrokerError) for each in hook.ended)
    assert all(before == after == f"user {body.decode()}" for body, before, after in hook.users)


async def test_hooks_of_collected_messages_run_in_the_context_of_the_client(cluster: FakeCluster) -> None:
    USER.set("the opener")
    async with watched(cluster) as (producer, hook), producer.batching() as batches, trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(_send_for, f"user {number}", batches.send, b"x")
    assert {user for _, *both in hook.users for user in both} == {"the opener"}


async def test_a_connection_keeps_no_request_alive(cluster: FakeCluster) -> None:
    class Kept:
        pass

    variable: ContextVar[Kept] = ContextVar("variable")
    request = Kept()
    remembered = weakref.ref(request)

    async def first_request(kept: list[Kept]) -> None:
        variable.set(kept.pop())
        await producer.send(Message(TOPIC, b"x"))

    requests = [request]
    del request
    async with watched(cluster) as (producer, hook):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first_request, requests)
        hook.begun.clear()
        hook.ended.clear()
        await producer.send(Message(TOPIC, b"the next one"))
        gc.collect()
        assert remembered() is None


def test_hooks_of_asyncio_and_plain_code_run_in_the_context_of_the_send(broker: BrokerInThread) -> None:
    """Also of calls that need a task of Trio, which other calls have used before."""
    bodies = [b"%d" % number + b"x" * 100_000 * (number % 2) for number in range(10)]  # long ones are compressed first

    async def main() -> list[tuple[bytes, str, str]]:
        hook = Watcher()
        async with aio.open_client(broker.name_server) as client, client.producer(send_hooks=[hook]) as producer:
            for _ in range(2):
                await asyncio.gather(*(_send_for(f"user {body[:1].decode()}", producer.send, body) for body in bodies))
        return hook.users

    def plain() -> list[tuple[bytes, str, str]]:
        hook = Watcher()

        def send(body: bytes) -> None:
            USER.set(f"user {body[:1].decode()}")
            producer.send(Message(TOPIC, body))

        with blocking.open_client(broker.name_server) as client, client.producer(send_hooks=[hook]) as producer:
            for body in bodies:
                copy_context().run(send, body)
        return hook.users

    for users in (asyncio.run(main()), plain()):
        assert len(users) >= 10
        assert all(before == after == f"user {body[:1].decode()}" for body, before, after in users)
