"""Delivery of delayed messages when they are due.

::

    SCHEDULE_TOPIC_XXXX, one queue per level          the log
    +-----------+-----------+-----------+             ... record P ............ copy of it
    | P, due at | due later | ...       |                                       preparedTransactionOffset = ~P
    +-----------+-----------+-----------+

Only the head of each level is examined (:mod:`.level_queue`), and one task sleeps between two deliveries: as long as
nothing is due, ten thousand messages cost no more than none. A delivery is a new message at the end of the log, in the
topic and queue of the original.

**Exactly once.** The copy and the fact that it was made are one record: it has the physical offset of its original, in
a field that nothing else uses in this way (a committed message has its half message's physical offset there, which is
never negative). The offsets in ``delayOffset.json`` only bound how far back to search: a start reads the log from the
file's physical offset, and deliveries found there are not repeated. Without a file, as after a promotion, it begins at
the first message that waits. So a message is delivered exactly once however the
broker ends. Whether a copy survives a power failure depends on the flush type, as for any message; if it does not, it
is made again.

**No message stops its level.** Temporary obstacles (a full disk, a store that is shutting down) are waited for: nothing
can be put then. A message that is refused for its content would be refused forever: it becomes a dead letter
(:mod:`.dead_letter`).

Compatibility: ``ScheduleMessageService`` (4.9.8) checks every 100 ms, repeats up to 10 s of deliveries after a crash,
does not deliver messages of a level that the settings no longer have, and stops a level permanently at a message that
has no target or exceeds a limit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import attrs
import trio

from rocketpy.broker.delay.dead_letter import FINAL_STATUSES, DelayDeadLetters
from rocketpy.broker.delay.delayed_message import DelayedMessage, read_delayed_message
from rocketpy.broker.delay.due_time import ClockSetBack
from rocketpy.broker.delay.level_queue import RETRY_SECONDS_MAX, DelayedUnit, LevelQueue
from rocketpy.broker.delay.levels import DelayLevels
from rocketpy.broker.delay.offsets import DelayOffsetManager, DelayProgress
from rocketpy.broker.delay.progress import DelayProgressService
from rocketpy.broker.monitoring.broker_stats_manager import BrokerStatsManager
from rocketpy.clock import Clock
from rocketpy.containment import Contained
from rocketpy.errors import ShortageError
from rocketpy.log_files import is_logged
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import PutMessageStatus
from rocketpy.store.services.waiting import until_done
from rocketpy.ticks import next_tick

SCHEDULE_CONSUMER = "SCHEDULE_CONSUMER"
"""The group under which deliveries are counted in the statistics."""

LOOK_SECONDS = 1.0
"""Longest sleep between checks of the clock, which may have been set, and of all queues."""

_log = logging.getLogger("rocketpy.broker")


@attrs.frozen
class ScheduleMessageStatistics:
    """Counters since the start."""

    delivered_count: int
    already_delivered_count: int  # found in the log at a start, not repeated
    lost_count: int  # their records are deleted or damaged
    refused_count: int  # attempts that the store refused temporarily
    dead_letter_count: int  # stored as dead letters, because they can never be delivered
    deleted_count: int  # deleted with their topics


def _as_sent(topic: str, queue_id: int) -> int:
    return queue_id


def _never(topic: str, physical_offset: int) -> bool:
    return False


class ScheduleMessageService:
    """Service with one task that delivers for all levels, and one that persists their progress."""

    def __init__(
        self,
        *,
        store: MessageStore,
        levels: DelayLevels,
        offsets: DelayOffsetManager,
        clock: Clock,
        flush_interval_ms: int,
        serve_woken: Callable[[], None],
        dead_letters: DelayDeadLetters,
        stats: BrokerStatsManager | None,
        queue_to_deliver: Callable[[str, int], int] = _as_sent,
        is_deleted: Callable[[str, int], bool] = _never,
    ) -> None:
        """``serve_woken`` serves pulls woken by deliveries; ``stats`` counts deliveries, None for no counting.

        ``queue_to_deliver`` returns the queue for a message, of its topic and the queue that it was sent to.
        ``is_deleted`` says whether a topic was deleted after the record at an offset was stored.
        """
        self._is_deleted = is_deleted
        self._queue_to_deliver = queue_to_deliver
        self._store = store
        self._levels = levels
        self._offsets = offsets
        self._clock = clock
        self._progress = DelayProgressService(store=store, offsets=offsets, flush_interval_ms=flush_interval_ms)
        self._serve_woken = serve_woken
        self._dead_letters = dead_letters
        self._stats = stats
        self._queues: list[LevelQueue] = []  # of level 1, 2, ...
        self._clock_set_back: ClockSetBack | None = None
        self._more = trio.Event()
        self._delivered_count = 0
        self._already_delivered_count = 0
        self._lost_count = 0
        self._refused_count = 0
        self._deleted_count = 0

    # ---- interface ------------------------------------------------------------------------------------------------

    def before_delayed(self) -> None:
        """Check the clock before a message is timestamped: a step must be assigned to the messages before it."""
        self._check_clock()

    def message_delayed(self, level: int, queue_offset: int) -> None:
        """Wake the task if the message may be the head of its level. The caller counts it."""
        if level > len(self._queues):
            return
        queue = self._queues[level - 1]
        queue.stored(queue_offset, self._store.burst_timestamp_ms)
        if queue.due_ms is None:
            self._more.set()

    def statistics(self) -> ScheduleMessageStatistics:
        """Return the counters."""
        return ScheduleMessageStatistics(
            self._delivered_count,
            self._already_delivered_count,
            self._lost_count,
            self._refused_count,
            self._dead_letters.count,
            self._deleted_count,
        )

    def runtime_info(self) -> dict[str, str]:
        """Return the rows of GET_BROKER_RUNTIME_INFO: for each level the next offset and the end of its queue.

        Two rows are ours: dead letters, and unreadable messages, since the start.
        """
        counts = {
            "scheduleMessageDeadLetterCount": str(self._dead_letters.count),
            "scheduleMessageLostCount": str(self._lost_count),
        }
        return counts | {
            f"scheduleMessageOffset_{level}": (
                f"{queue_offset},{self._store.max_offset_in_queue(SCHEDULE_TOPIC, level - 1)}"
            )
            for level, queue_offset in sorted(self._offsets.offset_table.items())
        }

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Deliver until cancelled. First searches the log for deliveries that the progress file does not have."""
        task_status.started()
        await self._begin()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._progress.run)
            while True:
                with Contained(_log, "a round of deliveries, which is tried again in %g s,", LOOK_SECONDS) as round_:
                    if not await self._deliver_due():
                        await self._wait()
                if round_.has_failed:
                    await trio.sleep(LOOK_SECONDS)

    async def finish(self) -> None:
        """Persist the progress; call it after :meth:`run` has ended and before the store closes."""
        if self._clock_set_back is None:
            return  # run was never called: a slave's progress is its master's
        await self._progress.finish()

    # ---- start ----------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        store, levels, now_ms = self._store, self._levels, self._clock.timestamp_ms()
        queue_ids = [queue_id for topic, queue_id in store.queues() if topic == SCHEDULE_TOPIC]
        # Levels that the settings no longer have are served too, so that no message waits forever.
        count = max([levels.level_max, *(queue_id + 1 for queue_id in queue_ids)])
        for level in range(1, count + 1):
            queue = LevelQueue(
                level, store=store, levels=levels, offsets=self._offsets, clock=self._clock, begin_ms=now_ms
            )
            self._queues.append(queue)
            self._lost_count += queue.correct(is_known=level in self._offsets.offset_table)
        self._clock_set_back = ClockSetBack(timestamp_ms=now_ms, current_time=trio.current_time())
        self._dead_letters.begin()
        await until_done(self._skip_delivered)

    async def _skip_delivered(self) -> None:
        """Advance past deliveries made after the progress was persisted; they are found in the log."""
        begin = self._offsets.noted.physical_offset
        if begin is None:
            # No process has delivered here yet. But this log may be a slave's: another broker has delivered into it.
            first = await self._first_waiting()
            if first is None:
                return
            begin = min(first, self._store.durable_offset)
            self._offsets.note(DelayProgress(self._offsets.noted.offsets, begin))
        delivered = await self._delivered_since(begin)
        if not delivered:
            return
        for queue in self._queues:
            await self._skip(queue, delivered)
        _log.info(
            "%d delayed messages had been delivered since the progress was written: they are skipped",
            self._already_delivered_count,
        )

    async def _first_waiting(self) -> int | None:
        """Return the lowest physical offset of the messages that wait, None without any. Copies come later in the log.

        Of each level the first is the lowest.
        """
        heads = [await queue.units(queue.queue_offset) for queue in self._queues if queue.has_more()]
        return min((units[0].physical_offset for units in heads if units), default=None)

    async def _delivered_since(self, begin: int) -> set[int]:
        """Return the physical offsets of the originals of all copies in the log from ``begin`` on."""
        delivered: set[int] = set()
        if not any(queue.has_more() for queue in self._queues):
            return delivered
        while True:
            window = await self._store.record_reader.prepared_offsets(begin)
            if window is None:
                return delivered
            delivered.update(~prepared for _, prepared in window.prepared_offsets if prepared < 0)
            begin = window.next_offset

    async def _skip(self, queue: LevelQueue, delivered: set[int]) -> None:
        last, at = max(delivered), queue.queue_offset
        while True:
            units = await queue.units(at)
            for unit in units:
                if unit.physical_offset in delivered:
                    self._already_delivered_count += 1
                    queue.move_to(unit.queue_offset + 1)
            if not units or units[-1].physical_offset > last:
                return
            at = units[-1].queue_offset + 1

    # ---- delivery -------------------------------------------------------------------------------------------------

    async def _deliver_due(self) -> bool:
        """Give one turn to each level that may have a message due; return whether any made progress."""
        self._check_clock()
        is_busy = False
        for queue in self._queues:
            try:
                if queue.may_be_due() and await self._take_turn(queue):
                    is_busy = True
            except ShortageError:  # of file descriptors, while reading: nothing was delivered
                queue.pause()
        return is_busy

    async def _take_turn(self, queue: LevelQueue) -> bool:
        """Deliver the due messages of a level, at most a turn of them; return whether there were any."""
        self._lost_count += queue.correct(is_known=True)  # the log's oldest files may have been deleted meanwhile
        due = await queue.due_units()
        if not due:
            return False
        if not await self._progress.is_anchored():
            queue.back_off(RETRY_SECONDS_MAX)
            return False
        records = await self._store.record_reader.records([(unit.physical_offset, unit.size) for unit in due])
        self._deliver(queue, due, records)
        await trio.lowlevel.checkpoint()
        return True

    def _deliver(self, queue: LevelQueue, units: Sequence[DelayedUnit], records: Sequence[bytes | None]) -> None:
        """Put messages into their own queues. No await here: a copy and its offset change in one step."""
        for unit, record in zip(units, records, strict=True):
            if not self._deliver_one(queue, unit, record):
                queue.due_ms = None
                break
            queue.move_to(unit.queue_offset + 1)
        self._store.end_burst()
        self._serve_woken()
        self._store.flush_soon()

    def _deliver_one(self, queue: LevelQueue, unit: DelayedUnit, record: bytes | None) -> bool:
        """Deliver a message, make it a dead letter, or count it as deleted or lost; False when it must be retried.

        Compatibility: RocketMQ (4.9.8) delivers messages of deleted topics, into queues that stay until an operator has
        unused topics cleaned.
        """
        message = read_delayed_message(record)
        if isinstance(message, str):
            self._count_lost(queue, unit, message)
            return True
        if message.fault is not None:
            return self._keep(queue, unit, message, message.fault)
        if self._is_deleted(message.topic, unit.physical_offset):
            self._deleted_count += 1
            return True
        status, physical_offset, _ = self._store.put(
            message.topic,
            self._queue_to_deliver(message.topic, message.queue_id),
            message.body,
            message.stored_properties,
            message.tags_code,
            message.keys,
            message.flag,
            message.sys_flag,
            message.born_timestamp,
            message.born_host,
            message.reconsume_times,
            ~unit.physical_offset,
        )
        if status in FINAL_STATUSES:
            return self._keep(queue, unit, message, status.name)
        if status is not PutMessageStatus.PUT_OK:
            self._retry_later(queue, unit, status)
            return False
        queue.end_backoff()
        self._delivered_count += 1
        if self._stats is not None:
            size_bytes = self._store.wrote_offset - physical_offset
            self._stats.inc_queue_get(SCHEDULE_CONSUMER, SCHEDULE_TOPIC, queue.queue_id, 1, size_bytes)
            self._stats.inc_group_get(SCHEDULE_CONSUMER, SCHEDULE_TOPIC, 1, size_bytes)
            self._stats.inc_topic_put(message.topic, 1, size_bytes)
        return True

    def _keep(self, queue: LevelQueue, unit: DelayedUnit, message: DelayedMessage, why: str) -> bool:
        """Store an undeliverable message as a dead letter; False when that must be retried."""
        status = self._dead_letters.put(message, unit.physical_offset, why)
        if status in FINAL_STATUSES:
            self._count_lost(queue, unit, f"{why}, nor kept as a dead letter: {status.name}")
        elif status is not PutMessageStatus.PUT_OK:
            self._retry_later(queue, unit, status)
            return False
        queue.end_backoff()
        return True

    def _count_lost(self, queue: LevelQueue, unit: DelayedUnit, why: str) -> None:
        """Count and log a message that cannot be read or kept. Its record, if there is one, stays in the log."""
        self._lost_count += 1
        if is_logged(self._lost_count):
            _log.error(
                "delay level %d: the message at queue offset %d, at %d of the log, cannot be delivered: %s",
                queue.level, unit.queue_offset, unit.physical_offset, why,
            )  # fmt: skip

    def _retry_later(self, queue: LevelQueue, unit: DelayedUnit, status: PutMessageStatus) -> None:
        """Schedule a retry with backoff, without limit: the store refuses only temporarily."""
        self._refused_count += 1
        queue.back_off()
        if is_logged(self._refused_count):
            _log.warning(
                "delay level %d: the message at queue offset %d is retried, the store refuses it: %s, %s",
                queue.level, unit.queue_offset, status.name, self._store.writable_or_why() or "for now",
            )  # fmt: skip

    # ---- time -----------------------------------------------------------------------------------------------------

    def _check_clock(self) -> None:
        if self._clock_set_back is None:
            return  # before run: no due time is cached yet
        set_back_ms = self._clock_set_back.look(
            timestamp_ms=self._clock.timestamp_ms(), current_time=trio.current_time()
        )
        if not set_back_ms:
            return
        _log.warning("the clock was set back by %d ms: the due times of delayed messages are corrected", set_back_ms)
        for queue in self._queues:
            queue.clock_set_back(set_back_ms)

    async def _wait(self) -> None:
        """Sleep until a message is due, or one arrives that may be the head of its level."""
        now_ms = self._clock.timestamp_ms()
        waits_s = [queue.wait_s(now_ms) for queue in self._queues]
        wait_s = min((each for each in waits_s if each is not None), default=LOOK_SECONDS)
        with trio.move_on_at(min(trio.current_time() + max(wait_s, 0.0), next_tick(LOOK_SECONDS))):
            await self._more.wait()
        if self._more.is_set():
            self._more = trio.Event()
