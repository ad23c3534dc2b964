"""Consumption of plain lists of messages: what hands them to handlers, without brokers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.concurrently import ConcurrentConsumption, ConcurrentHandler
from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.consume_hooks import ConsumeHooks
from rocketpy.client.consumer.consumer_stats import ConsumerStats
from rocketpy.client.consumer.group.queue_locks import QueueLocks
from rocketpy.client.consumer.offsets.offset_store import OffsetTable
from rocketpy.client.consumer.orderly import OrderlyConsumption
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.client.consumer.statuses import ConsumeOrderlyStatus
from rocketpy.client.hooks import ConsumeMessageHook
from rocketpy.clock import SystemClock
from rocketpy.protocol.message import MessageExt, MessageQueue
from tests.client.consumer.scripted_send_back import ScriptedSendBack

QUEUE, OTHER = MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)
Result = ConsumeOrderlyStatus | BaseException | None


def messages_at(offsets: Sequence[int]) -> list[MessageExt]:
    return [MessageExt("T", b"x", queue_offset=each) for each in offsets]


def hooks_of(*hooks: ConsumeMessageHook) -> ConsumeHooks:
    return ConsumeHooks(group="g", namespace="", hooks=hooks)


class Concurrent:
    """One queue and what handles its messages; settings are those of a consumer."""

    def __init__(self, nursery: trio.Nursery, *hooks: ConsumeMessageHook, **settings: object) -> None:
        self.send_back = ScriptedSendBack()
        self.offsets = OffsetTable()
        self.process_queue = ProcessQueue(QUEUE)
        self.seen: list[list[int]] = []
        self.consumption = ConcurrentConsumption(
            config=ConsumerConfig(**settings),  # type: ignore[arg-type]
            send_back=self.send_back,
            offsets=self.offsets,
            retry_topic="%RETRY%g",
            stats=ConsumerStats(),
            clock=SystemClock(),
            nursery=nursery,
            hooks=hooks_of(*hooks),
        )

    def deliver(self, *offsets: int) -> None:
        self.consumption.deliver(self.process_queue, self.process_queue.put(messages_at(offsets)), 0.1)

    async def note(self, batch: MessageBatch) -> None:
        """Handle a batch: note its offsets."""
        self.seen.append([each.queue_offset for each in batch])

    async def run(self, handler: ConcurrentHandler, *, seconds: float = 1.0, tasks: int = 1) -> None:
        with trio.move_on_after(seconds):
            await self.consumption.run(handler, tasks)

    @property
    def committed(self) -> int | None:
        return self.offsets.get(QUEUE)


class Orderly:
    """Two queues and what handles their messages; ``results`` come in turn, then everything succeeds."""

    def __init__(self, *results: Result, hooks: Sequence[ConsumeMessageHook] = (), **settings: object) -> None:
        self.results = list(results)
        self.send_back = ScriptedSendBack()
        self.offsets = OffsetTable()
        self.locks = QueueLocks(requests=None, clock=SystemClock(), is_needed=True)  # type: ignore[arg-type]
        self.process_queues = [ProcessQueue(QUEUE), ProcessQueue(OTHER)]
        for each in self.process_queues:
            self.locks.note_locked(each)
        self.seen: list[tuple[float, list[int]]] = []
        self.left = 0
        self.suspend_ms = -1
        self.consumption = OrderlyConsumption(
            config=ConsumerConfig(**settings),  # type: ignore[arg-type]
            send_back=self.send_back,
            offsets=self.offsets,
            locks=self.locks,
            retry_topic="%RETRY%g",
            stats=ConsumerStats(),
            clock=SystemClock(),
            hooks=hooks_of(*hooks),
        )
        self.consumption.on_left = self.note_left

    @property
    def queue(self) -> ProcessQueue:
        return self.process_queues[0]

    @property
    def handled(self) -> list[list[int]]:
        return [offsets for _, offsets in self.seen]

    def note_left(self) -> None:
        self.left += 1

    def deliver(self, *offsets: int, queue: int = 0) -> None:
        process_queue = self.process_queues[queue]
        self.consumption.deliver(process_queue, process_queue.put(messages_at(offsets)), 0.0)

    async def handle(self, batch: MessageBatch) -> ConsumeOrderlyStatus | None:
        self.seen.append((trio.current_time(), [each.queue_offset for each in batch]))
        batch.suspend_ms = self.suspend_ms
        result = self.results.pop(0) if self.results else None
        if isinstance(result, BaseException):
            raise result
        return result

    async def run(self, seconds: float, then: Callable[[], object] = lambda: None, *, tasks: int = 20) -> None:
        """Run for a while; do something after half of it."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.consumption.run, self.handle, tasks, lambda: self.process_queues)
            await trio.sleep(seconds / 2)
            then()
            await trio.sleep(seconds / 2)
            nursery.cancel_scope.cancel()

    @property
    def committed(self) -> int | None:
        return self.offsets.get(QUEUE)
