"""Concurrent consumption: batches of all queues go to idle handlers, each is acknowledged on its own.

Rule: a batch is in exactly one place until it is settled: ready, with a handler, or waiting to be tried again. A
handler that is cancelled returns its batch; nothing is acknowledged that a handler has not finished.

Compatibility: ``ConsumeMessageConcurrentlyService`` (4.9.8). A handler that exceeds ``consume_timeout`` is cancelled
and its messages are sent back; in Java they are sent back too, and the thread stays occupied.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Sequence

import trio

from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.consume_hooks import ConsumeHooks
from rocketpy.client.consumer.consumer_stats import ConsumerStats
from rocketpy.client.consumer.handler_failure import contain_handler_failure
from rocketpy.client.consumer.offsets.offset_store import OffsetTable
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.client.consumer.send_back import SendBack
from rocketpy.client.consumer.statuses import ConsumeConcurrentlyStatus, checked_status
from rocketpy.client.hooks import ConsumeReturnType
from rocketpy.client.namespace import NO_NAMESPACE, Namespace
from rocketpy.clock import Clock
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.properties import PROPERTY_CONSUME_START_TIMESTAMP

LOCAL_RETRY_SECONDS = 5.0
"""Pause before messages are tried again here that no broker takes back."""
EXPIRED_LEVEL = 3
"""Delay level of messages whose handler took too long."""
EXPIRY_INTERVAL_SECONDS_MAX = 60.0

_LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER

ConcurrentHandler = Callable[[MessageBatch], Awaitable[ConsumeConcurrentlyStatus | None]]

_log = logging.getLogger("rocketpy.client")


class ConcurrentConsumption:
    """Message processing of a concurrent consumer."""

    def __init__(
        self,
        *,
        config: ConsumerConfig,
        send_back: SendBack,
        offsets: OffsetTable,
        retry_topic: str,
        stats: ConsumerStats,
        clock: Clock,
        nursery: trio.Nursery,
        hooks: ConsumeHooks | None = None,
        namespace: Namespace = NO_NAMESPACE,
        log: logging.Logger = _log,
    ) -> None:
        self._config = config
        self._send_back = send_back
        self._offsets = offsets
        self._retry_topic = retry_topic
        self._stats = stats
        self._clock = clock
        self._nursery = nursery
        self._hooks = hooks
        self._namespace = namespace
        self._log = log
        self._timeout_s = 60 * config.consume_timeout
        # Bounded by the flow control of the readers.
        self._ready, self._batches = trio.open_memory_channel[MessageBatch](math.inf)
        self._in_hand: set[MessageBatch] = set()  # of programs that settle their batches themselves
        self._handled: set[MessageBatch] = set()  # with handlers
        self._runs: set[trio.CancelScope] = set()
        self._all_settled = trio.Event()  # waited for while it drains
        self._is_draining = False
        self._is_closed = False

    # ---- for the group --------------------------------------------------------------------------------------------

    def deliver(self, process_queue: ProcessQueue, messages: Sequence[MessageExt], pull_seconds: float) -> None:
        """Cut messages into batches that are ready."""
        self._stats.add_pulled(process_queue.queue.topic, len(messages), pull_seconds)
        if process_queue.queue.topic == self._retry_topic:
            for message in messages:
                self._namespace.restore_topic(message)
        size = self._config.consume_message_batch_max_size
        if len(messages) <= size:
            self._make_ready(self._batch(messages, process_queue))
            return
        for begin in range(0, len(messages), size):
            self._make_ready(self._batch(messages[begin : begin + size], process_queue))

    async def wait_idle(self, process_queue: ProcessQueue) -> None:
        """Return at once: what is still being consumed is delivered again to the next owner of the queue."""

    async def drain(self) -> None:
        """Let no batch begin any more, whether pulled or not; return when all that have begun are settled."""
        self._is_draining = True
        self._ready.close()
        while self._handled or self._in_hand:
            if self._all_settled.is_set():
                self._all_settled = trio.Event()
            await self._all_settled.wait()

    def cancel_handlers(self) -> None:
        """End the handlers of every run, and the runs."""
        for scope in self._runs:
            scope.cancel()

    def close(self) -> None:
        """Let no batch begin any more: the consumer has left its group."""
        self._is_closed = True
        self._ready.close()
        if self._hooks is not None:
            self._hooks.end_all(_LATER)

    # ---- styles ---------------------------------------------------------------------------------------------------

    async def next_batch(self) -> MessageBatch:
        """Wait for the next batch of a queue that is still assigned; EndOfChannel when the consumer has left."""
        while True:
            batch = await self._batches.receive()
            if self._is_draining:  # it has been pulled, and is for the next member that has its queue
                raise trio.EndOfChannel
            if not batch.process_queue.is_dropped:
                self._begin(batch)
                return batch

    async def next_in_hand(self) -> MessageBatch:
        """As :meth:`next_batch`; the batch is sent back if it is not settled within ``consume_timeout``."""
        batch = await self.next_batch()
        self._in_hand.add(batch)
        return batch

    async def run(self, handler: ConcurrentHandler, tasks: int) -> None:
        """Handle batches, so many at once, until cancelled or the consumer has left its group."""
        with trio.CancelScope() as scope:
            self._runs.add(scope)
            try:
                async with trio.open_nursery() as nursery:
                    for _ in range(tasks):
                        nursery.start_soon(self._work, handler)
            finally:
                self._runs.remove(scope)

    async def send_expired_back(self) -> None:
        """Send back what has been in hand for too long, until cancelled."""
        while True:
            await trio.sleep(min(self._timeout_s, EXPIRY_INTERVAL_SECONDS_MAX))
            oldest = trio.current_time() - self._timeout_s
            for batch in [each for each in self._in_hand if each.started_at < oldest]:
                self._log.warning("%d messages of %s were not settled in time", len(batch), batch.queue)
                self._announce_end(batch, ConsumeReturnType.TIME_OUT, _LATER)
                await self.give_back(batch, batch.messages, EXPIRED_LEVEL)

    # ---- settlement -----------------------------------------------------------------------------------------------

    def settle(self, batch: MessageBatch) -> None:
        """Acknowledge all messages of a batch that are not settled yet."""
        if batch.is_settled:
            return
        batch.is_settled = True
        self._in_hand.discard(batch)
        if self._is_draining:
            self._look_whether_idle()
        self._announce_end(batch, ConsumeReturnType.SUCCESS, ConsumeConcurrentlyStatus.CONSUME_SUCCESS)
        self._remove(batch, batch.messages)
        self._stats.add_consumed(batch.process_queue.queue.topic, len(batch), trio.current_time() - batch.started_at)

    async def give_back(self, batch: MessageBatch, messages: Sequence[MessageExt], delay_level: int) -> None:
        """Send messages back to be consumed again later; in a broadcasting consumer they are lost, as in RocketMQ."""
        left = [each for each in messages if each in batch.process_queue]
        kept: list[MessageExt] = []
        self._stats.add_failed(batch.process_queue.queue.topic, len(left))
        try:
            for message in left:
                if self._config.is_broadcasting:
                    self._log.warning("message %s failed, and is lost: the consumer is broadcasting", message.msg_id)
                elif not await self._send_back.send_back(message, delay_level):
                    message.reconsume_times += 1
                    kept.append(message)
                    continue
                self._remove(batch, [message])
        finally:
            if kept:
                again = self._batch(kept, batch.process_queue)
                self._nursery.start_soon(self._try_again, again)
                batch.messages = [each for each in batch.messages if each not in kept]
            if not any(each in batch.process_queue for each in batch.messages):
                self._announce_end(batch, ConsumeReturnType.FAILED, _LATER)
                batch.is_settled = True
                self._in_hand.discard(batch)
                self._look_whether_idle()

    # ---- private --------------------------------------------------------------------------------------------------

    def _batch(self, messages: Sequence[MessageExt], process_queue: ProcessQueue) -> MessageBatch:
        return MessageBatch(messages, process_queue, self, self._namespace)

    async def _work(self, handler: ConcurrentHandler) -> None:
        while True:
            try:
                batch = await self.next_batch()
            except trio.EndOfChannel:
                return
            self._handled.add(batch)
            try:
                await self._consume(batch, handler)
            finally:
                self._handled.discard(batch)
                if self._is_draining:
                    self._look_whether_idle()
                if not batch.is_settled:  # cancelled
                    self._announce_end(batch, ConsumeReturnType.RETURNNULL, _LATER)
                    left = [each for each in batch.messages if each in batch.process_queue]
                    self._make_ready(self._batch(left, batch.process_queue))

    async def _consume(self, batch: MessageBatch, handler: ConcurrentHandler) -> None:
        status: ConsumeConcurrentlyStatus | None = _LATER
        has_raised = False
        with trio.move_on_after(self._timeout_s) as limit:
            try:
                status = checked_status(await handler(batch), ConsumeConcurrentlyStatus)
            except BaseException as failure:
                contain_handler_failure(failure, batch.queue, len(batch), self._log)
                has_raised = True
        if batch.is_settled:
            return
        if self._hooks is not None:
            self._announce_result(batch, status, has_raised=has_raised)
        if limit.cancelled_caught:
            self._log.warning("a handler of %s took too long, its %d messages are redelivered", batch.queue, len(batch))
            await self.give_back(batch, batch.messages, EXPIRED_LEVEL)
        elif status is _LATER:
            await self.give_back(batch, batch.messages, batch.delay_level)
        else:
            if batch.ack_index is not None and batch.ack_index + 1 < len(batch):
                count = max(0, batch.ack_index + 1)
                failed = batch.messages[count:]
                self._remove(batch, batch.messages[:count])
                await self.give_back(batch, failed, batch.delay_level)
            self.settle(batch)

    def _announce_result(
        self, batch: MessageBatch, status: ConsumeConcurrentlyStatus | None, *, has_raised: bool
    ) -> None:
        """Show what a handler has returned or raised, before anything is done about it."""
        if has_raised:
            self._announce_end(batch, ConsumeReturnType.EXCEPTION, _LATER)
        elif trio.current_time() - batch.started_at >= self._timeout_s:
            self._announce_end(batch, ConsumeReturnType.TIME_OUT, status or ConsumeConcurrentlyStatus.CONSUME_SUCCESS)
        elif status is _LATER:
            self._announce_end(batch, ConsumeReturnType.FAILED, _LATER)
        else:
            self._announce_end(batch, ConsumeReturnType.SUCCESS, ConsumeConcurrentlyStatus.CONSUME_SUCCESS)

    def _announce_end(
        self, batch: MessageBatch, return_type: ConsumeReturnType, status: ConsumeConcurrentlyStatus
    ) -> None:
        if self._hooks is not None:
            self._hooks.after(batch, return_type, status)

    def _begin(self, batch: MessageBatch) -> None:
        if self._hooks is not None:
            self._hooks.before(batch)
        batch.started_at = trio.current_time()
        now = self._clock.timestamp_ms()
        batch.process_queue.consumed_at_ms = now
        text = str(now)
        for message in batch.messages:
            message.properties[PROPERTY_CONSUME_START_TIMESTAMP] = text

    def _remove(self, batch: MessageBatch, messages: Sequence[MessageExt]) -> None:
        process_queue = batch.process_queue
        consumer_offset = process_queue.remove(messages)
        if consumer_offset is not None and not process_queue.is_dropped:
            self._offsets.update(process_queue.queue, consumer_offset)

    async def _try_again(self, batch: MessageBatch) -> None:
        await trio.sleep(LOCAL_RETRY_SECONDS)
        self._make_ready(batch)

    def _make_ready(self, batch: MessageBatch) -> None:
        if not self._is_closed and not self._is_draining:
            self._ready.send_nowait(batch)

    def _look_whether_idle(self) -> None:
        if not self._handled and not self._in_hand:
            self._all_settled.set()
