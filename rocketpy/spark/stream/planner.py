"""Plans the batches of a stream: which offset comes next. Runs on Spark's driver, in one process per query.

When Spark asks what (4.3, with admission control):

===========================  ==========================================================================================
call                         when
===========================  ==========================================================================================
prepare for AvailableNow     once, at the start of a query with that trigger
initial offset               before the first batch, and again when a first batch that was planned is run after a crash
partitions(start, end)       for each batch after its end is in the checkpoint; after a crash first of all, for the
                             batch that was planned and is not done
latest offset(start, limit)  for each trigger, ``start`` being the end of the batch before: done, with its commit in
                             the checkpoint. An idle query asks every 10 ms
report latest offset         right after it
commit(end)                  when a later batch is in the checkpoint: one batch late, and never for the last one
===========================  ==========================================================================================

A queue that is new to the query begins at its earliest offset, as with Kafka's source: what came between its creation
and its discovery is part of the stream. Only the queues of the first batch begin where the options say.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import attrs

from rocketpy.errors import ClientError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.cluster import QueueBounds
from rocketpy.spark.live.positions import name_of
from rocketpy.spark.stream.admission import BatchDelay, share_limit
from rocketpy.spark.stream.losses import find_losses
from rocketpy.spark.stream.offsets import Document, StreamOffset, read_offset, write_offset
from rocketpy.spark.stream.watch import Look, QueueWatch

_log = logging.getLogger("rocketpy.spark.stream")

StartingPositions = Callable[[Mapping[MessageQueue, QueueBounds]], Mapping[MessageQueue, int]]
"""Where the options let queues begin that are there at the start of the query."""

_REMEDY = "failOnDataLoss=false warns and continues with what is left"


@attrs.define(eq=False, kw_only=True)
class StreamPlanner:
    """State of one query beside its checkpoint. Every call may raise what the cluster's answers raise."""

    watch: QueueWatch
    starting_positions: StartingPositions
    fail_on_data_loss: bool
    offsets_max: int | None = None  # of a batch
    delay: BatchDelay | None = None
    _is_available_now: bool = attrs.field(default=False, init=False)
    _last_look: Look | None = attrs.field(default=None, init=False)  # AvailableNow: the target
    _reported: dict[MessageQueue, int] = attrs.field(factory=dict, init=False)  # losses, by where the stream was

    def prepare_for_available_now(self) -> None:
        """Fix the end of the query: what is there now."""
        self._is_available_now = True
        self._last_look = self.watch.look_at_everything(())

    def latest_offset(self, start_document: Document, *, is_limited: bool) -> Document:
        """Return the end of the next batch; ``start_document`` itself if there is nothing for one."""
        start = read_offset(start_document)
        look = self._look(start)
        began = self._beginnings(start, look)
        positions = {**start.queues, **began}
        available = {queue: max(0, bounds.latest - positions[queue]) for queue, bounds in look.bounds.items()}
        if is_limited and not self._admits(sum(available.values())):
            if not start.is_initial:
                return start_document
            available = dict.fromkeys(available, 0)  # but the first offsets are fixed now
        if is_limited and self.offsets_max is not None:
            available = share_limit(self.offsets_max, available)
        ends = {queue: position + available.get(queue, 0) for queue, position in positions.items()}
        if ends == start.queues and not start.is_initial:
            return start_document
        return write_offset(StreamOffset(ends, began))

    def report_latest_offset(self) -> Document | None:
        """Return the ends of the queues as last seen, from which the lag in the progress is counted."""
        if self._last_look is None:
            return None
        return write_offset(StreamOffset({queue: bounds.latest for queue, bounds in self._last_look.bounds.items()}))

    def _admits(self, available: int) -> bool:
        return self.delay is None or self._is_available_now or self.delay.admits(available)

    def _look(self, start: StreamOffset) -> Look:
        if self._is_available_now:
            assert self._last_look is not None
            look = self._last_look
            look = attrs.evolve(look, unknown=frozenset(queue for queue in start.queues if queue not in look.bounds))
        elif start.is_initial:
            look = self._last_look = self.watch.look_at_everything(())
        else:
            look = self._last_look = self.watch.look(start.queues)
        self._check_unknown(start, look)
        return look

    def _beginnings(self, start: StreamOffset, look: Look) -> dict[MessageQueue, int]:
        """Return where queues begin that do not continue at the start of the batch."""
        if start.is_initial:
            wanted = self.starting_positions(look.bounds)
            # What was stored since the look is not in its bounds, but may be in the positions.
            return {queue: min(max(wanted[queue], each.earliest), each.latest) for queue, each in look.bounds.items()}
        began = {queue: bounds.earliest for queue, bounds in look.bounds.items() if queue not in start.queues}
        losses = find_losses(start.queues, look.bounds)
        for queue in look.bounds.keys() - {loss.queue for loss in losses}:
            self._reported.pop(queue, None)  # it goes on, and what it loses next is another loss
        for loss in losses:
            self._report(loss.queue, loss.position, str(loss))
            began[loss.queue] = loss.continues_at
        return began

    def _check_unknown(self, start: StreamOffset, look: Look) -> None:
        for queue in sorted(look.unknown):
            position = start.queues[queue]
            self._report(
                queue,
                position,
                f"{name_of(queue)}: the stream is at offset {position}, and no route of the subscription has this "
                "queue: its topic was deleted, or its broker is not registered at the nameserver",
            )

    def _report(self, queue: MessageQueue, position: int, lost: str) -> None:
        if self.fail_on_data_loss:
            raise ClientError(ResponseCode.PULL_OFFSET_MOVED, f"data loss: {lost} ({_REMEDY})")
        if self._reported.get(queue) != position:
            self._reported[queue] = position
            _log.warning("stream: data loss: %s", lost)
