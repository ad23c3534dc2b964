"""Our client as the tests with Java and Go use it: patient settings, and a consumer that collects what it is given."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

import trio

from rocketpy.client import (
    Client,
    ClientConfig,
    ConsumeFromWhere,
    Consumer,
    ConsumerConfig,
    Message,
    MessageBatch,
    MessageExt,
    MessageQueue,
    MessageSelector,
    ProducerConfig,
    SendResult,
    open_client,
)
from rocketpy.errors import RocketpyError
from tests.interop.clients import Received, Sent, ToSend
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS

T = TypeVar("T")

PATIENT_PRODUCER = ProducerConfig(send_msg_timeout=PATIENCE_MS)
FROM_FIRST = ConsumerConfig(
    consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, persist_consumer_offset_interval=100
)


@asynccontextmanager
async def open_our_client(namesrv: str, **settings: object) -> AsyncIterator[Client]:
    """Open a client that sees new topics soon, and waits long for answers."""
    config = ClientConfig(
        poll_name_server_interval=1000, heartbeat_broker_interval=1000, mq_client_api_timeout=PATIENCE_MS, **settings
    )  # type: ignore[arg-type]
    async with open_client(namesrv, config=config) as client:
        yield client


async def eventually(call: Callable[[], Awaitable[T]], what: str) -> T:
    """Return what a call gives once that is true. A refusal is not: a topic or a group may have no route yet."""
    with trio.move_on_after(PATIENCE_SECONDS):
        while True:
            try:
                if found := await call():
                    return found
            except RocketpyError:
                pass
            await trio.sleep(0.05)
    raise AssertionError(f"never: {what}")


class Collected:
    """What a consumer of ours was given, in that order; its handlers fail as often as they are asked to."""

    def __init__(self, fails: int = 0) -> None:
        self._fails = fails
        self._changed = trio.Event()
        self.messages: list[MessageExt] = []
        self.queues: list[MessageQueue] = []
        self.sizes: list[int] = []

    async def handle(self, batch: MessageBatch) -> None:
        """Take a batch; give it back for a second while its messages have not failed often enough."""
        self.sizes.append(len(batch))
        for each in batch:
            self.messages.append(each)
            self.queues.append(batch.queue)
        self._changed.set()
        self._changed = trio.Event()
        if batch.messages[0].reconsume_times < self._fails:
            batch.delay_level = 1
            raise ValueError("the test wants it again")

    async def wait(self, count: int) -> list[MessageExt]:
        """Return the messages once there are ``count``."""
        await self.until(lambda: len(self.messages) >= count, f"{count} messages")
        return self.messages

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until something is so, asked again with each batch."""
        with trio.move_on_after(PATIENCE_SECONDS):
            while not condition():
                await self._changed.wait()
            return
        raise AssertionError(f"never: {what}; there are {[each.body[:40] for each in self.messages]}")

    @property
    def bodies(self) -> list[bytes]:
        """The bodies, sorted."""
        return sorted(each.body for each in self.messages)


@asynccontextmanager
async def open_our_consumer(
    client: Client,
    group: str,
    topic: str,
    selector: str | MessageSelector = "*",
    *,
    config: ConsumerConfig = FROM_FIRST,
    orderly: bool = False,
    fails: int = 0,
) -> AsyncIterator[tuple[Consumer, Collected]]:
    """Open a member of a group that collects; it has its first queues when the block begins."""
    collected = Collected(fails)
    subscriptions: Mapping[str, str | MessageSelector] = {topic: selector}
    async with (
        client.consumer(group, subscriptions=subscriptions, config=config) as consumer,
        trio.open_nursery() as nursery,
    ):
        await nursery.start(consumer.run_orderly if orderly else consumer.run, collected.handle)
        yield consumer, collected
        nursery.cancel_scope.cancel()


def our_message(asked: ToSend) -> Message:
    """Return what our producer sends."""
    return Message.create(
        asked.topic,
        asked.body,
        tags=asked.tags,
        keys=asked.keys,
        delay_level=asked.delay,
        properties=asked.properties,
    )


def our_answer(result: SendResult) -> Sent:
    """Return the answer to a send in the form that all languages share."""
    return Sent(
        status=result.status.name,
        msg_id=result.msg_id,
        offset_msg_id=result.offset_msg_id,
        broker_name=result.message_queue.broker_name,
        queue_id=result.message_queue.queue_id,
        queue_offset=result.queue_offset,
    )


def our_received(message: MessageExt) -> Received:
    """Return a message that our consumer was given in the form that all languages share."""
    return Received(
        topic=message.topic,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        msg_id=message.msg_id,
        offset_msg_id=message.offset_msg_id,
        broker_name=message.broker_name,
        sys_flag=message.sys_flag,
        reconsume_times=message.reconsume_times,
        born_timestamp=message.born_timestamp,
        store_timestamp=message.store_timestamp,
        tags=message.tags or "",
        keys=message.keys or "",
        properties=message.properties,
        body=message.body,
    )
