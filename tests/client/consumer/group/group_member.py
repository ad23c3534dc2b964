"""A member of a group whose handlers a test plays, at a scripted broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import trio

from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.group.consumer_group import ConsumerGroup
from rocketpy.client.consumer.group.queue_locks import QueueLocks
from rocketpy.client.consumer.group.requests import GroupRequests
from rocketpy.client.consumer.group.subscriptions import Subscriptions
from rocketpy.client.consumer.offsets.remote_offset_store import RemoteOffsetStore
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.client.consumer.queue.requests import QueueRequests
from rocketpy.protocol.bodies.heartbeat import ConsumeFromWhere
from rocketpy.protocol.message import MessageExt, MessageQueue
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.client.opened import opened

QUEUES = [MessageQueue(TOPIC, "broker-a", each) for each in range(4)]


class Sink:
    """Messages stay where they are; a queue is idle when its flag says so."""

    def __init__(self) -> None:
        self.delivered: list[tuple[ProcessQueue, int]] = []
        self.is_closed = False
        self.waited_count = 0
        self.on_close: Callable[[], None] = lambda: None

    def deliver(self, process_queue: ProcessQueue, messages: Sequence[MessageExt], pull_seconds: float) -> None:
        self.delivered += [(process_queue, each.queue_offset) for each in messages]

    async def wait_idle(self, process_queue: ProcessQueue) -> None:
        while process_queue.is_consuming:
            self.waited_count += 1
            await trio.sleep(0.01)

    def close(self) -> None:
        self.is_closed = True
        self.on_close()


class World:
    """A member and its sink."""

    def __init__(self, group: ConsumerGroup, sink: Sink) -> None:
        self.group = group
        self.sink = sink

    def process_queue(self, number: int = 0) -> ProcessQueue:
        return next(each for each in self.group.queues.process_queues if each.queue == QUEUES[number])


@asynccontextmanager
async def member(cluster: FakeCluster, *, is_orderly: bool = False, **settings: object) -> AsyncIterator[World]:
    """A member that has not joined: nothing rebalances it but the test."""
    config = ConsumerConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        **settings,  # type: ignore[arg-type]
    )
    async with opened(cluster.address) as instance, trio.open_nursery() as nursery:
        await instance.routes.look_up_again(TOPIC)
        subscriptions = Subscriptions(lambda: 1)
        subscriptions.add(TOPIC, "*")
        queue_requests = QueueRequests(instance=instance, group="g")
        requests = GroupRequests(instance=instance, group="g", randomness=instance.randomness)
        sink = Sink()
        group = ConsumerGroup(
            instance=instance,
            group="g",
            config=config,
            subscriptions=subscriptions,
            store=RemoteOffsetStore(queue_requests),
            queue_requests=queue_requests,
            requests=requests,
            locks=QueueLocks(requests=requests, clock=instance.clock, is_needed=is_orderly),
            sink=sink,
            nursery=nursery,
            is_orderly=is_orderly,
        )
        group.register()
        yield World(group, sink)
        await group.leave()
        nursery.cancel_scope.cancel()
