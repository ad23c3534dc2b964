"""Sending of all messages of an iterable."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio

from rocketpy.client import blocking
from rocketpy.client.client import open_producer
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.pending_send import PendingSend
from rocketpy.client.producer.send_all import send_all
from rocketpy.errors import BrokerError
from rocketpy.protocol.message import Message
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster


def messages(count: int, taken: list[int]) -> Iterator[Message]:
    for number in range(count):
        taken.append(number)
        yield Message(TOPIC, str(number).encode())


async def test_results_come_in_the_order_of_the_messages(cluster: FakeCluster) -> None:
    config = ProducerConfig(back_pressure_for_async_send_num=10)  # less than there are
    async with open_producer(cluster.address, group="p", producer=config) as producer:
        results = await producer.send_all(messages(50, []))
        assert await producer.send_all([]) == []
    by_id = {each.properties["UNIQ_KEY"]: each.body for each in cluster.broker.messages(TOPIC)}
    assert [int(by_id[each.msg_id]) for each in results] == list(range(50))


async def test_the_first_failure_ends_it_once_nothing_is_in_flight(nursery: trio.Nursery) -> None:
    sends: list[PendingSend] = []
    taken: list[int] = []

    async def send_soon(_: Message) -> PendingSend:
        sends.append(PendingSend())
        if len(sends) == 4:
            sends[1].fail(BrokerError(1, "second", "a"), TOPIC)
            sends[0].succeed("first")  # type: ignore[arg-type]
            nursery.start_soon(end_the_others)
        return sends[-1]

    async def end_the_others() -> None:
        await trio.lowlevel.checkpoint()
        sends[2].fail(BrokerError(1, "third", "a"), TOPIC)
        sends[3].succeed("fourth")  # type: ignore[arg-type]

    with pytest.raises(BrokerError, match="second") as raised:
        await send_all(send_soon, messages(100, taken))
    assert taken == [0, 1, 2, 3]
    assert all(each.is_done for each in sends)
    assert raised.value.__notes__ == ["1 messages are stored before it; of 2 after it 1 failed"]


async def test_plain_code_reads_the_iterable_in_its_own_thread(cluster: FakeCluster) -> None:
    """It may block, as one that reads a file does: the loop's thread must not wait for it."""

    def send() -> None:
        def endless() -> Iterator[Message]:
            for number in range(2_500):
                assert trio.lowlevel.in_trio_run() is False
                yield Message(TOPIC, str(number).encode())

        with blocking.open_producer(cluster.address, group="p") as producer:
            results = producer.send_all(endless())
        assert len({each.msg_id for each in results}) == 2_500

    await trio.to_thread.run_sync(send)
    assert len(cluster.broker.messages(TOPIC)) == 2_500
