"""A batch and its acknowledgement."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio

from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.protocol.message import MessageExt, MessageQueue

QUEUE = MessageQueue("T", "b", 0)


class Consumer:
    """Notes what batches say."""

    def __init__(self) -> None:
        self.settled: list[MessageBatch] = []
        self.given_back: list[tuple[Sequence[MessageExt], int]] = []

    def settle(self, batch: MessageBatch) -> None:
        self.settled.append(batch)

    async def give_back(self, batch: MessageBatch, messages: Sequence[MessageExt], delay_level: int) -> None:
        self.given_back.append((messages, delay_level))


@pytest.fixture
def consumer() -> Consumer:
    return Consumer()


@pytest.fixture
def batch(consumer: Consumer) -> MessageBatch:
    return MessageBatch([MessageExt("T", b"1"), MessageExt("T", b"2")], ProcessQueue(QUEUE), consumer)


def test_it_is_a_collection_of_messages_of_a_queue(batch: MessageBatch) -> None:
    assert [each.body for each in batch] == [b"1", b"2"]
    assert len(batch) == 2
    assert batch.queue == QUEUE


async def test_an_acknowledgement_counts_even_if_the_call_is_cancelled(consumer: Consumer, batch: MessageBatch) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await batch.done()
    assert scope.cancelled_caught
    assert consumer.settled == [batch]


async def test_messages_go_back_with_a_level_all_of_them_or_some(consumer: Consumer, batch: MessageBatch) -> None:
    await batch.retry_later(5)
    await batch.dead_letter(messages=batch.messages[1:])
    assert consumer.given_back == [(batch.messages, 5), (batch.messages[1:], -1)]
    batch.is_settled = True
    await batch.retry_later()
    assert len(consumer.given_back) == 2
