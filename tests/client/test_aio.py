"""The client in asyncio programs, with a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from rocketpy import client as trio_client_package
from rocketpy.client import ConsumeFromWhere, LitePullConfig, Message, aio
from rocketpy.testing.fixture.in_thread import BrokerInThread, open_broker_in_thread
from rocketpy.testing.fixture.options import BrokerOptions
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerInThread]:
    with open_broker_in_thread(BrokerOptions()) as broker:
        yield broker


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(main, PATIENCE_SECONDS))


def test_messages_are_sent_and_pulled(broker: BrokerInThread) -> None:
    async def main() -> list[bytes]:
        async with aio.open_client(broker.name_server) as client:
            async with client.producer("g") as producer:
                sent = [await producer.send(Message("Aio", b"%d" % number)) for number in range(5)]
                await producer.send_nowait(Message("Aio", b"soon"))
            assert len({each.msg_id for each in sent}) == 5
            async with (
                client.pull_consumer("c") as consumer,
                consumer.open_messages("Aio", start="beginning", until_end=True) as messages,
            ):
                return [message.body async for message in messages]

    assert sorted(run(main())) == [b"0", b"1", b"2", b"3", b"4", b"soon"]


def test_messages_are_polled(broker: BrokerInThread) -> None:
    async def main() -> list[bytes]:
        async with aio.open_producer(broker.name_server) as producer:
            for number in range(5):
                await producer.send(Message("AioPolled", b"%d" % number))
        polled: list[bytes] = []
        first = LitePullConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        async with aio.open_lite_pull_consumer(
            broker.name_server, group="g", topics=["AioPolled"], consumer=first
        ) as consumer:
            queues = await consumer.wait_assigned()
            consumer.pause(queues)
            assert consumer.paused == queues
            consumer.resume(queues)
            async for messages in consumer:
                polled += [each.body for each in messages]
                await consumer.commit()
                if len(polled) == 5:
                    break
        return polled

    assert sorted(run(main())) == [b"0", b"1", b"2", b"3", b"4"]


def test_every_opener_of_the_client_is_there(broker: BrokerInThread) -> None:
    openers = {name for name in trio_client_package.__all__ if name.startswith("open_")}
    assert {name for name in openers if not callable(getattr(aio, name))} == set()
    with pytest.raises(AttributeError, match="open_nothing"):
        _ = aio.open_nothing

    async def main() -> None:
        async with aio.open_admin_client(broker.name_server) as admin:
            assert "Aio2" not in await admin.topics.names()
            await admin.create_topic("Aio2")
        async with aio.open_producer(broker.name_server) as producer:
            assert len(await producer.publish_queues("Aio2")) == 8

    run(main())
