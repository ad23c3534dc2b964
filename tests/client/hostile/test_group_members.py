"""Brokers that answer the pulls of a group with half an answer or byte by byte.

A member goes on asking, and has acknowledged nothing that was not handled. With honest answers it works again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.client import Client, open_client
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from rocketpy.remoting.connection import Connection
from tests.client.conftest import FIRST, LITE_FIRST, TOPIC
from tests.client.hostile.conftest import World


def _handling(*, is_orderly: bool) -> Callable[[Client, list[bytes]], Awaitable[None]]:
    async def consume(client: Client, handled: list[bytes]) -> None:
        async def handler(batch: MessageBatch) -> None:
            handled.extend(each.body for each in batch)

        async with client.consumer("g", TOPIC, config=FIRST) as consumer:
            await (consumer.run_orderly if is_orderly else consumer.run)(handler)

    return consume


async def _polling(client: Client, handled: list[bytes]) -> None:
    async with client.lite_pull_consumer("g", TOPIC, config=LITE_FIRST) as consumer:
        while True:
            handled.extend(each.body for each in await consumer.poll(1.0))


MEMBERS: dict[str, Callable[[Client, list[bytes]], Awaitable[None]]] = {
    "concurrent": _handling(is_orderly=False),
    "orderly": _handling(is_orderly=True),
    "lite pull": _polling,
}


# ---- what brokers do -----------------------------------------------------------------------------------------------


WrongAnswer = Callable[[Connection, RemotingCommand, trio.Nursery], RemotingCommand | bytes | None]
"""Takes the connection, the right answer and a nursery for what lasts; returns what is sent instead."""


def vanish(connection: Connection, answer: RemotingCommand, nursery: trio.Nursery) -> None:
    """Send half an answer and close the connection."""
    frame = encode_frame(answer)
    connection.reply_frame(frame[: len(frame) // 2])
    connection.flush()
    trio.lowlevel.current_trio_token().run_sync_soon(connection.close)


def trickle(connection: Connection, answer: RemotingCommand, nursery: trio.Nursery) -> None:
    """Send a byte every five seconds."""

    async def send_slowly() -> None:
        for byte in encode_frame(answer):
            connection.reply_frame(bytes((byte,)))
            connection.flush()
            await trio.sleep(5)

    nursery.start_soon(send_slowly)


WAYS: dict[str, WrongAnswer] = {"vanish": vanish, "trickle": trickle}


def misbehave(world: World, nursery: trio.Nursery, way: str) -> None:
    def spoil(
        connection: Connection, request: RemotingCommand, answer: RemotingCommand
    ) -> RemotingCommand | bytes | None:
        return WAYS[way](connection, answer, nursery) if request.code == RequestCode.PULL_MESSAGE else answer

    for broker in world.cluster.brokers:
        broker.spoil = spoil


def behave(world: World) -> None:
    """Answer honestly, over new connections: half an answer would be the beginning of every later one."""
    for broker in world.cluster.brokers:
        broker.behave()
        for connection in broker.peers:
            connection.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("role", MEMBERS)
async def test_a_member_of_a_group_goes_on_and_acknowledges_nothing_that_it_has_not_handled(
    world: World, autojump_clock: MockClock, role: str, way: str
) -> None:
    broker = world.cluster.broker
    for number in range(3):
        broker.put(TOPIC, 0, b"%d" % number)
    handled: list[bytes] = []
    config = ClientConfig(mq_client_api_timeout=1000)
    async with (
        open_client(world.address, environment=world.environment, config=config) as client,
        trio.open_nursery() as nursery,
    ):
        misbehave(world, nursery, way)
        nursery.start_soon(MEMBERS[role], client, handled)
        await trio.sleep(60)
        assert handled == []
        assert broker.progress.get(("g", TOPIC, 0), 0) == 0
        assert len(broker.asked(RequestCode.PULL_MESSAGE)) < 400, "there is a pause before each further try"
        behave(world)
        with trio.fail_after(120):
            while broker.progress.get(("g", TOPIC, 0), 0) < 3:
                await trio.sleep(1)
        assert sorted(handled) == [b"0", b"1", b"2"]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("role", MEMBERS)
async def test_ends_of_a_queue_that_contradict_each_other_change_nothing(
    world: World, autojump_clock: MockClock, role: str, client: Client
) -> None:
    """A lowest offset above the highest: both are for programs to look at."""
    broker = world.cluster.broker
    for number in range(3):
        broker.put(TOPIC, 0, b"%d" % number)

    def contradict(connection: Connection, request: RemotingCommand, answer: RemotingCommand) -> RemotingCommand:
        if request.code == RequestCode.PULL_MESSAGE and answer.ext_fields:
            answer.ext_fields["minOffset"] = "1000"
        return answer

    broker.spoil = contradict
    handled: list[bytes] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(MEMBERS[role], client, handled)
        await trio.sleep(20)
        nursery.cancel_scope.cancel()
    assert sorted(handled) == [b"0", b"1", b"2"]
    assert broker.progress["g", TOPIC, 0] == 3
