"""Detection of stuck queues: an online group lags, and its offset does not advance.

A consumer that hangs in one message looks alive: it sends heartbeats and holds its queues. Each stuck queue is logged
once, and once more when its offset advances again. The runtime info has the number of stuck queues
(``stuckConsumerQueues``) and the total lag (``consumerLagTotal``). Groups that are not online may lag on purpose, so
neither figure includes them. RocketMQ has neither the log lines nor the figures.
"""

from __future__ import annotations

import logging

import attrs
import trio

from rocketpy.broker.clients.consumers import ConsumerManager
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager
from rocketpy.containment import Contained
from rocketpy.log_files import event_fields
from rocketpy.protocol.bodies.heartbeat import MessageModel
from rocketpy.store.message_store import MessageStore

PERIOD_SECONDS = 30.0
STUCK_SECONDS = 300.0
"""Longer than any retry of a client, and than most messages take to process."""

QUEUES_PER_SLICE = 256

_log = logging.getLogger("rocketpy.broker")

_Queue = tuple[str, str, int]  # group, topic, queue id


@attrs.frozen
class ConsumerLagStatistics:
    """Figures of the last round."""

    lag_total: int = 0  # messages
    stuck_queues: int = 0
    queue_count: int = 0


@attrs.define(eq=False, slots=True)
class _Progress:
    consumer_offset: int
    since: float  # Trio time at which the offset was first seen at this value while lagging
    is_reported: bool = False


class ConsumerLagService:
    """One loop over the offsets of the online groups."""

    def __init__(
        self,
        *,
        consumer_manager: ConsumerManager,
        consumer_offset_manager: ConsumerOffsetManager,
        store: MessageStore,
    ) -> None:
        self._consumer_manager = consumer_manager
        self._consumer_offset_manager = consumer_offset_manager
        self._store = store
        self._waiting: dict[_Queue, _Progress] = {}
        self._statistics = ConsumerLagStatistics()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Check every PERIOD_SECONDS until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(PERIOD_SECONDS)
            with Contained(_log, "a look at how far consumers lag"):
                await self.look()

    async def look(self) -> None:
        """Compare every offset with its queue's max offset and with its previous value, in bounded slices."""
        now = trio.current_time()
        queues = self._queues()
        waiting: dict[_Queue, _Progress] = {}
        lag_total = 0
        for number, queue in enumerate(queues):
            if number % QUEUES_PER_SLICE == QUEUES_PER_SLICE - 1:
                await trio.lowlevel.checkpoint()
            group, topic, queue_id = queue
            consumer_offset = self._consumer_offset_manager.query_offset(group, topic, queue_id)
            lag = self._store.max_offset_in_queue(topic, queue_id) - consumer_offset
            if consumer_offset >= 0 and lag > 0:
                lag_total += lag
                waiting[queue] = self._progress(queue, consumer_offset, lag, now)
        for queue, progress in self._waiting.items():
            if progress.is_reported and (queue not in waiting or not waiting[queue].is_reported):
                _log.info("group is no longer stuck", extra=_fields(queue))
        self._waiting = waiting
        stuck = sum(progress.is_reported for progress in waiting.values())
        self._statistics = ConsumerLagStatistics(lag_total, stuck, len(queues))

    def statistics(self) -> ConsumerLagStatistics:
        """Return the figures."""
        return self._statistics

    def runtime_info(self) -> dict[str, str]:
        """Return the rows of GET_BROKER_RUNTIME_INFO."""
        return {
            "consumerLagTotal": str(self._statistics.lag_total),
            "stuckConsumerQueues": str(self._statistics.stuck_queues),
        }

    # ---- private --------------------------------------------------------------------------------------------------

    def _queues(self) -> list[_Queue]:
        """Return the queues with offsets of online groups; broadcasting groups keep theirs on the client."""
        return [
            (group.group_name, topic, queue_id)
            for group in self._consumer_manager
            if group.message_model != MessageModel.BROADCASTING
            for topic in group.subscription_table
            for queue_id in self._consumer_offset_manager.offsets_of(group.group_name, topic)
        ]

    def _progress(self, queue: _Queue, consumer_offset: int, lag: int, now: float) -> _Progress:
        progress = self._waiting.get(queue)
        if progress is None or progress.consumer_offset != consumer_offset:
            return _Progress(consumer_offset, now)
        if not progress.is_reported and now - progress.since >= STUCK_SECONDS:
            progress.is_reported = True
            stuck_seconds = int(now - progress.since)
            fields = _fields(queue, offset=consumer_offset, seconds=stuck_seconds, waiting=lag)
            _log.warning("group is stuck: its offset does not move while messages wait", extra=fields)
        return progress


def _fields(queue: _Queue, **more: int) -> dict[str, object]:
    group, topic, queue_id = queue
    return event_fields(group=group, topic=topic, queueId=queue_id, **more)
