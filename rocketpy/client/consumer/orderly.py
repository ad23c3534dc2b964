"""Orderly consumption: one handler at a time for each queue, in the order of the queue.

Rule: a handler is called only while the lock of its queue is trusted, and the next batch of a queue only when the one
before is settled. Messages that a handler has not finished are taken again, before any later one.

Compatibility: ``ConsumeMessageOrderlyService`` (4.9.8). Messages of a batch that have been given up for the retry topic
are not handled once more together with those that have retries left.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

import trio

from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.consume_hooks import ConsumeHooks
from rocketpy.client.consumer.consumer_stats import ConsumerStats
from rocketpy.client.consumer.group.queue_locks import QueueLocks
from rocketpy.client.consumer.handler_failure import contain_handler_failure
from rocketpy.client.consumer.offsets.offset_store import OffsetTable
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.client.consumer.send_back import SendBack
from rocketpy.client.consumer.statuses import ConsumeOrderlyStatus, checked_status
from rocketpy.client.hooks import ConsumeReturnType
from rocketpy.client.namespace import NO_NAMESPACE, Namespace
from rocketpy.clock import Clock
from rocketpy.protocol.message import MessageExt, MessageQueue
from rocketpy.protocol.properties import PROPERTY_CONSUME_START_TIMESTAMP

SUSPEND_MS_MIN, SUSPEND_MS_MAX = 10, 30_000
UNTRUSTED_SECONDS = 0.1
"""Pause before the lock of a queue is looked at again."""

_SUSPEND = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT

OrderlyHandler = Callable[[MessageBatch], Awaitable[ConsumeOrderlyStatus | None]]

_log = logging.getLogger("rocketpy.client")


class OrderlyConsumption:
    """Message processing of an orderly consumer."""

    def __init__(
        self,
        *,
        config: ConsumerConfig,
        send_back: SendBack,
        offsets: OffsetTable,
        locks: QueueLocks,
        retry_topic: str,
        stats: ConsumerStats,
        clock: Clock,
        hooks: ConsumeHooks | None = None,
        namespace: Namespace = NO_NAMESPACE,
        log: logging.Logger = _log,
    ) -> None:
        self._config = config
        self._send_back = send_back
        self._offsets = offsets
        self._locks = locks
        self._retry_topic = retry_topic
        self._stats = stats
        self._clock = clock
        self._hooks = hooks
        self._namespace = namespace
        self._log = log
        self._reconsume_times_max = config.reconsume_times_max(is_orderly=True)
        self.on_left: Callable[[], None] | None = None
        """Called when a queue that is being given up is idle."""
        self._running: _Running | None = None
        self._working: set[ProcessQueue] = set()
        # Two assignments of one queue follow each other, and the handler of the first may still run.
        self._serial: dict[MessageQueue, trio.Lock] = {}
        self._idle = trio.Condition()
        self._is_draining = False
        self._closed = trio.Event()

    # ---- for the group --------------------------------------------------------------------------------------------

    def deliver(self, process_queue: ProcessQueue, messages: Sequence[MessageExt], pull_seconds: float) -> None:
        """Start to consume a queue, unless that is going on."""
        self._stats.add_pulled(process_queue.queue.topic, len(messages), pull_seconds)
        if process_queue.queue.topic == self._retry_topic:
            for message in messages:
                self._namespace.restore_topic(message)
        self._start(process_queue)

    async def wait_idle(self, process_queue: ProcessQueue) -> None:
        """Return when no handler has messages of this queue."""
        async with self._idle:
            while process_queue.is_consuming:
                await self._idle.wait()

    async def drain(self) -> None:
        """Let no batch begin any more, whether pulled or not; return when no handler has one."""
        self._is_draining = True
        async with self._idle:
            while any(each.is_consuming for each in self._working):
                await self._idle.wait()

    def cancel_handlers(self) -> None:
        """End the handlers, and the run."""
        self._closed.set()

    def close(self) -> None:
        """Let no batch begin any more: the consumer has left its group."""
        self._closed.set()

    # ---- the style ------------------------------------------------------------------------------------------------

    async def run(
        self, handler: OrderlyHandler, tasks: int, process_queues: Callable[[], Sequence[ProcessQueue]]
    ) -> None:
        """Handle batches, at most so many at once and one of each queue, until cancelled or closed."""
        async with trio.open_nursery() as nursery:
            self._running = _Running(handler, trio.CapacityLimiter(tasks), nursery)
            try:
                for process_queue in process_queues():
                    self._start(process_queue)
                await self._closed.wait()
                nursery.cancel_scope.cancel()
            finally:
                self._running = None

    # ---- private --------------------------------------------------------------------------------------------------

    def _start(self, process_queue: ProcessQueue) -> None:
        if self._running is not None and process_queue not in self._working:
            self._working.add(process_queue)
            self._running.nursery.start_soon(self._work, process_queue, self._running)

    async def _work(self, process_queue: ProcessQueue, running: _Running) -> None:
        serial = self._serial.setdefault(process_queue.queue, trio.Lock())
        try:
            async with serial:
                while _may_go_on(process_queue) and not self._is_draining:
                    if not self._locks.is_trusted(process_queue):
                        await trio.sleep(UNTRUSTED_SECONDS)
                        continue
                    async with running.limiter:
                        pause_s = await self._consume_next(process_queue, running.handler)
                    await trio.sleep(pause_s)
        finally:
            if not serial.locked():  # the last one that waited
                self._serial.pop(process_queue.queue, None)
            self._working.discard(process_queue)
            if process_queue.is_leaving and self.on_left is not None:
                self.on_left()

    async def _consume_next(self, process_queue: ProcessQueue, handler: OrderlyHandler) -> float:
        """Handle one batch; return the pause in seconds until the next."""
        if self._is_draining or not _may_go_on(process_queue) or not self._locks.is_trusted(process_queue):
            return 0.0  # it has waited for its turn
        messages = process_queue.take(self._config.consume_message_batch_max_size)
        batch = MessageBatch(messages, process_queue, namespace=self._namespace)
        batch.auto_commit = self._config.auto_commit
        batch.started_at = trio.current_time()
        process_queue.consumed_at_ms = self._clock.timestamp_ms()
        text = str(process_queue.consumed_at_ms)
        for message in messages:
            message.properties[PROPERTY_CONSUME_START_TIMESTAMP] = text
        process_queue.is_consuming = True
        if self._hooks is not None:
            self._hooks.before(batch)
        try:
            status, has_raised = await _status_of(batch, handler, self._log)
            if self._hooks is not None:
                self._hooks.after(batch, self._return_type(batch, status, has_raised=has_raised), status)
            pause_s = await self._settle(batch, status)
            batch.is_settled = True
            return pause_s
        finally:
            if self._hooks is not None:  # cancelled, unless it has ended above
                self._hooks.after(batch, ConsumeReturnType.RETURNNULL, _SUSPEND)
            if not batch.is_settled and not process_queue.is_dropped:  # cancelled
                process_queue.put_back(messages)
            process_queue.is_consuming = False
            with trio.CancelScope(shield=True):  # it does not wait for anything but its turn
                async with self._idle:
                    self._idle.notify_all()

    def _return_type(self, batch: MessageBatch, status: ConsumeOrderlyStatus, *, has_raised: bool) -> ConsumeReturnType:
        """Return how a handler has ended; ROLLBACK counts as SUCCESS, as in Java."""
        if has_raised:
            return ConsumeReturnType.EXCEPTION
        if trio.current_time() - batch.started_at >= 60 * self._config.consume_timeout:
            return ConsumeReturnType.TIME_OUT
        return ConsumeReturnType.FAILED if status is _SUSPEND else ConsumeReturnType.SUCCESS

    async def _settle(self, batch: MessageBatch, status: ConsumeOrderlyStatus) -> float:
        process_queue = batch.process_queue
        if process_queue.is_dropped:
            return 0.0
        if batch.auto_commit and status in (ConsumeOrderlyStatus.COMMIT, ConsumeOrderlyStatus.ROLLBACK):
            self._log.warning("%s of %s counts only without auto_commit, and is SUCCESS", status.value, batch.queue)
            status = ConsumeOrderlyStatus.SUCCESS
        match status:
            case ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT:
                self._stats.add_failed(process_queue.queue.topic, len(batch))
                left = await self._with_retries_left(batch)
                process_queue.put_back(left)
                if not left and batch.auto_commit:
                    self._commit(process_queue)
                return self._suspension_s(batch) if left else 0.0
            case ConsumeOrderlyStatus.ROLLBACK:
                process_queue.put_back()
                return self._suspension_s(batch)
            case _:
                seconds = trio.current_time() - batch.started_at
                self._stats.add_consumed(process_queue.queue.topic, len(batch), seconds)
                if batch.auto_commit or status is ConsumeOrderlyStatus.COMMIT:
                    self._commit(process_queue)
        return 0.0

    def _commit(self, process_queue: ProcessQueue) -> None:
        process_queue.commit()
        consumer_offset = process_queue.consumer_offset
        if consumer_offset is not None:
            self._offsets.update(process_queue.queue, consumer_offset)

    async def _with_retries_left(self, batch: MessageBatch) -> list[MessageExt]:
        """Count a failure of each message; give those without retries left away, and return the others."""
        process_queue, messages = batch.process_queue, batch.messages
        left = []
        for message in messages:
            is_over = message.reconsume_times >= self._reconsume_times_max
            if is_over and await self._send_back.send_copy(message, reconsume_times=message.reconsume_times):
                process_queue.give_up([message])  # at once: the next copy may be cancelled
                continue
            left.append(message)
        for message in left:
            message.reconsume_times += 1
        return left

    def _suspension_s(self, batch: MessageBatch) -> float:
        configured = self._config.suspend_current_queue_time_millis
        wanted = configured if batch.suspend_ms == -1 else batch.suspend_ms
        return min(max(wanted, SUSPEND_MS_MIN), SUSPEND_MS_MAX) / 1000


class _Running:
    """The handler of a consumer, while :meth:`OrderlyConsumption.run` runs."""

    def __init__(self, handler: OrderlyHandler, limiter: trio.CapacityLimiter, nursery: trio.Nursery) -> None:
        self.handler = handler
        self.limiter = limiter
        self.nursery = nursery


def _may_go_on(process_queue: ProcessQueue) -> bool:
    return process_queue.has_waiting and not process_queue.is_leaving and not process_queue.is_dropped


async def _status_of(
    batch: MessageBatch, handler: OrderlyHandler, log: logging.Logger
) -> tuple[ConsumeOrderlyStatus, bool]:
    """Return the result of a handler, and whether it has raised."""
    try:
        status = checked_status(await handler(batch), ConsumeOrderlyStatus)
    except BaseException as failure:
        contain_handler_failure(failure, batch.queue, len(batch), log)
        return _SUSPEND, True
    return ConsumeOrderlyStatus.SUCCESS if status is None else status, False
