"""Delivery of delayed messages when they are due.

::

    SCHEDULE_TOPIC_XXXX, one queue per level          the log
    +-----------+-----------+-----------+             ... record P ............ copy of it
    | P, due at | due later | ...       |                                       preparedTransactionOffset = ~P
    +-----------+-----------+-----------+

Within a queue messages are due in queue order, so only the head of each level is examined, and one task sleeps between
two deliveries: as long as nothing is due, ten thousand messages cost no more than none. A delivery is a new message at
the end of the log, in the topic and queue of the original.

**Exactly once.** The copy and the fact that it was made are one record: it has the physical offset of its original, in
a field that nothing else uses in this way (a committed message has its half message's physical offset there, which is
never negative). The offsets in ``delayOffset.json`` only bound how far back to search: a start reads the log from the
file's physical offset, and deliveries found there are not repeated. So a message is delivered exactly once however the
broker ends. Whether a copy survives a power failure depends on the flush type, as for any message; if it does not, it
is made again.

**No message stops its level.** Temporary obstacles (a full disk, a store that is shutting down) are waited for: nothing
can be put then. A message that is refused for its content would be refused forever: it becomes a dead letter
(:mod:`.dead_letter`).

**Never early, and in order.** The due time is in the unit. For units without one (a lost extension, Java's recovery,
which ignores delays) it is computed from the record. For clocks that are set see :mod:`.due_time`.

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
from rocketpy.broker.delay.due_time import ClockSetBack, DueTimes
from rocketpy.broker.delay.levels import DelayLevels
from rocketpy.broker.delay.offsets import DelayOffsetManager
from rocketpy.broker.delay.progress import DelayProgressService
from rocketpy.broker.monitoring.broker_stats_manager import BrokerStatsManager
from rocketpy.clock import Clock
from rocketpy.containment import Contained
from rocketpy.errors import ShortageError
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC
from rocketpy.store.message_store import MessageStore
from rocketpy.store.queue.extension import is_ext_address
from rocketpy.store.results import PutMessageStatus
from rocketpy.store.services.waiting import until_done

SCHEDULE_CONSUMER = "SCHEDULE_CONSUMER"
"""The group under which deliveries are counted in the statistics."""

LOOK_SECONDS = 1.0
"""Longest sleep between checks of the clock, which may have been set, and of all queues."""

MESSAGES_PER_TURN = 32
BYTES_PER_TURN = 256 << 10
_RETRY_SECONDS_MIN = 0.1
_RETRY_SECONDS_MAX = 5.0
_HASH_MIN, _HASH_MAX = -(1 << 31), 1 << 31
"""Tags codes in this range are hashes of tags, not due times: those would be in January 1970."""

_log = logging.getLogger("rocketpy.broker")


@attrs.frozen(slots=True)
class _Unit:
    """A waiting message."""

    queue_offset: int
    physical_offset: int
    size: int
    due_ms: int | None  # from its unit, None where that has no due time


@attrs.define(eq=False)
class _Level:
    """One level: its next message, and when to deliver it."""

    level: int
    queue_id: int
    queue_offset: int  # of the next message to deliver
    times: DueTimes
    due_ms: int | None = None  # due time of that one, None while unknown
    retry_at: float = 0.0  # Trio time of the next attempt
    retry_s: float = 0.0  # last backoff, 0 after a success


@attrs.frozen
class ScheduleMessageStatistics:
    """Counters since the start."""

    delivered_count: int
    already_delivered_count: int  # found in the log at a start, not repeated
    lost_count: int  # their records are deleted or damaged
    refused_count: int  # attempts that the store refused temporarily
    dead_letter_count: int  # stored as dead letters, because they can never be delivered


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
    ) -> None:
        """``serve_woken`` serves pulls woken by deliveries; ``stats`` counts deliveries, None for no counting."""
        self._store = store
        self._levels = levels
        self._offsets = offsets
        self._clock = clock
        self._progress = DelayProgressService(store=store, offsets=offsets, flush_interval_ms=flush_interval_ms)
        self._serve_woken = serve_woken
        self._dead_letters = dead_letters
        self._stats = stats
        self._table: list[_Level] = []
        self._clock_set_back: ClockSetBack | None = None
        self._more = trio.Event()
        self._is_flush_asked = False
        self._delivered_count = 0
        self._already_delivered_count = 0
        self._lost_count = 0
        self._refused_count = 0

    # ---- interface ------------------------------------------------------------------------------------------------

    def before_delayed(self) -> None:
        """Check the clock before a message is timestamped: a step must be assigned to the messages before it."""
        self._check_clock()

    def message_delayed(self, level: int) -> None:
        """Wake the task if the message may be the head of its level. The caller counts it."""
        if level <= len(self._table) and self._table[level - 1].due_ms is None:
            self._more.set()

    def statistics(self) -> ScheduleMessageStatistics:
        """Return the counters."""
        return ScheduleMessageStatistics(
            self._delivered_count,
            self._already_delivered_count,
            self._lost_count,
            self._refused_count,
            self._dead_letters.count,
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
            times = DueTimes(
                delay_ms=levels.delay_ms(level) if level <= levels.level_max else None,
                begin_ms=now_ms,
                end_offset=store.max_offset_in_queue(SCHEDULE_TOPIC, level - 1),
            )
            queue_offset = self._offsets.offset_table.get(level, 0)
            self._table.append(_Level(level, level - 1, queue_offset, times))
            self._correct(self._table[-1], is_known=level in self._offsets.offset_table)
        self._clock_set_back = ClockSetBack(timestamp_ms=now_ms, current_time=trio.current_time())
        self._dead_letters.begin()
        await until_done(self._skip_delivered)

    def _correct(self, level: _Level, *, is_known: bool) -> None:
        """Move an offset into the range of its queue. Skipped messages count as lost if the offset is known."""
        min_offset = self._store.min_offset_in_queue(SCHEDULE_TOPIC, level.queue_id)
        max_offset = self._store.max_offset_in_queue(SCHEDULE_TOPIC, level.queue_id)
        corrected = min(max(level.queue_offset, min_offset), max_offset)
        if corrected != level.queue_offset:
            if is_known:
                _log.error(
                    "delay level %d: the next offset is %d, but its queue has %d to %d; it goes on at %d",
                    level.level, level.queue_offset, min_offset, max_offset, corrected,
                )  # fmt: skip
                self._lost_count += max(0, corrected - level.queue_offset)
            self._move(level, corrected)

    async def _skip_delivered(self) -> None:
        """Advance past deliveries made after the progress was persisted; they are found in the log."""
        begin = self._offsets.noted.physical_offset
        if begin is None:
            return
        delivered = await self._delivered_since(begin)
        if not delivered:
            return
        for level in self._table:
            await self._skip(level, delivered)
        _log.info(
            "%d delayed messages had been delivered since the progress was written: they are skipped",
            self._already_delivered_count,
        )

    async def _delivered_since(self, begin: int) -> set[int]:
        """Return the physical offsets of the originals of all copies in the log from ``begin`` on."""
        delivered: set[int] = set()
        if not any(self._has_more(level) for level in self._table):
            return delivered
        while True:
            window = await self._store.record_reader.prepared_offsets(begin)
            if window is None:
                return delivered
            delivered.update(~prepared for _, prepared in window.prepared_offsets if prepared < 0)
            begin = window.next_offset

    async def _skip(self, level: _Level, delivered: set[int]) -> None:
        last, at = max(delivered), level.queue_offset
        while True:
            units = await self._units(level, at, MESSAGES_PER_TURN)
            for unit in units:
                if unit.physical_offset in delivered:
                    self._already_delivered_count += 1
                    self._move(level, unit.queue_offset + 1)
            if not units or units[-1].physical_offset > last:
                return
            at = units[-1].queue_offset + 1

    # ---- delivery -------------------------------------------------------------------------------------------------

    async def _deliver_due(self) -> bool:
        """Give one turn to each level that may have a message due; return whether any made progress."""
        self._check_clock()
        is_busy = False
        for level in self._table:
            try:
                if self._may_be_due(level) and await self._take_turn(level):
                    is_busy = True
            except ShortageError:  # of file descriptors, while reading: nothing was delivered
                level.retry_at = trio.current_time() + _RETRY_SECONDS_MAX
        return is_busy

    def _may_be_due(self, level: _Level) -> bool:
        if trio.current_time() < level.retry_at or not self._has_more(level):
            return False
        return level.due_ms is None or level.due_ms <= self._clock.timestamp_ms()

    def _has_more(self, level: _Level) -> bool:
        return level.queue_offset < self._store.max_offset_in_queue(SCHEDULE_TOPIC, level.queue_id)

    async def _take_turn(self, level: _Level) -> bool:
        """Deliver the due messages of a level, at most a turn of them; return whether there were any."""
        if level.queue_offset < self._store.min_offset_in_queue(SCHEDULE_TOPIC, level.queue_id):
            self._correct(level, is_known=True)
        units = await self._units(level, level.queue_offset, MESSAGES_PER_TURN)
        due: list[_Unit] = []
        size_bytes = 0
        for unit in units:
            due_ms = await self._due_ms(level, unit)
            if due_ms > self._clock.timestamp_ms() or (due and size_bytes + unit.size > BYTES_PER_TURN):
                level.due_ms = due_ms
                break
            due.append(unit)
            size_bytes += unit.size
        else:
            level.due_ms = None
        if not due:
            return False
        if not await self._progress.is_anchored():
            level.retry_s = _RETRY_SECONDS_MAX
            level.retry_at = trio.current_time() + level.retry_s
            return False
        records = await self._store.record_reader.records([(unit.physical_offset, unit.size) for unit in due])
        self._deliver(level, due, records)
        await trio.lowlevel.checkpoint()
        return True

    def _deliver(self, level: _Level, units: Sequence[_Unit], records: Sequence[bytes | None]) -> None:
        """Put messages into their own queues. No await here: a copy and its offset change in one step."""
        for unit, record in zip(units, records, strict=True):
            if not self._deliver_one(level, unit, record):
                level.due_ms = None
                break
            self._move(level, unit.queue_offset + 1)
        self._store.end_burst()
        self._serve_woken()
        if self._store.sync_flush:
            self._flush_soon()

    def _deliver_one(self, level: _Level, unit: _Unit, record: bytes | None) -> bool:
        """Deliver a message, make it a dead letter or count it as lost; False when it must be retried."""
        message = read_delayed_message(record)
        if isinstance(message, str):
            self._count_lost(level, unit, message)
            return True
        if message.fault is not None:
            return self._keep(level, unit, message, message.fault)
        status, physical_offset, _ = self._store.put(
            message.topic,
            message.queue_id,
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
            return self._keep(level, unit, message, status.name)
        if status is not PutMessageStatus.PUT_OK:
            self._retry_later(level, unit, status)
            return False
        level.retry_s = 0.0
        self._delivered_count += 1
        if self._stats is not None:
            size_bytes = self._store.wrote_offset - physical_offset
            self._stats.inc_queue_get(SCHEDULE_CONSUMER, SCHEDULE_TOPIC, level.queue_id, 1, size_bytes)
            self._stats.inc_group_get(SCHEDULE_CONSUMER, SCHEDULE_TOPIC, 1, size_bytes)
            self._stats.inc_topic_put(message.topic, 1, size_bytes)
        return True

    def _keep(self, level: _Level, unit: _Unit, message: DelayedMessage, why: str) -> bool:
        """Store an undeliverable message as a dead letter; False when that must be retried."""
        status = self._dead_letters.put(message, unit.physical_offset, why)
        if status in FINAL_STATUSES:
            self._count_lost(level, unit, f"{why}, nor kept as a dead letter: {status.name}")
        elif status is not PutMessageStatus.PUT_OK:
            self._retry_later(level, unit, status)
            return False
        level.retry_s = 0.0
        return True

    def _count_lost(self, level: _Level, unit: _Unit, why: str) -> None:
        """Count and log a message that cannot be read or kept. Its record, if there is one, stays in the log."""
        self._lost_count += 1
        if self._lost_count & (self._lost_count - 1) == 0:  # once, twice, four times, ...
            _log.error(
                "delay level %d: the message at queue offset %d, at %d of the log, cannot be delivered: %s",
                level.level, unit.queue_offset, unit.physical_offset, why,
            )  # fmt: skip

    def _retry_later(self, level: _Level, unit: _Unit, status: PutMessageStatus) -> None:
        """Schedule a retry with backoff, without limit: the store refuses only temporarily."""
        self._refused_count += 1
        level.retry_s = min(max(2 * level.retry_s, _RETRY_SECONDS_MIN), _RETRY_SECONDS_MAX)
        level.retry_at = trio.current_time() + level.retry_s
        if self._refused_count & (self._refused_count - 1) == 0:  # once, twice, four times, ...
            _log.warning(
                "delay level %d: the message at queue offset %d is retried, the store refuses it: %s, %s",
                level.level, unit.queue_offset, status.name, self._store.writable_or_why() or "for now",
            )  # fmt: skip

    def _move(self, level: _Level, queue_offset: int) -> None:
        level.queue_offset = queue_offset
        self._offsets.offset_table[level.level] = queue_offset
        level.times.passed(queue_offset)

    async def _units(self, level: _Level, queue_offset: int, count: int) -> list[_Unit]:
        listing = await self._store.list_units(SCHEDULE_TOPIC, level.queue_id, queue_offset, count)
        found = []
        for at, unit in enumerate(() if listing is None else listing.units, queue_offset):
            tags_code = unit.ext.tags_code if unit.ext is not None else unit.tags_code
            has_no_time = is_ext_address(tags_code) or _HASH_MIN <= tags_code < _HASH_MAX
            found.append(_Unit(at, unit.physical_offset, unit.size, None if has_no_time else tags_code))
        return found

    def _flush_soon(self) -> None:
        """Request a flush of the deliveries: under SYNC_FLUSH only a waiting caller causes one."""
        if not self._is_flush_asked:
            self._is_flush_asked = True
            self._store.wait_durable(self._store.wrote_offset, self._flushed)

    def _flushed(self, status: PutMessageStatus) -> None:
        self._is_flush_asked = False
        if self._store.durable_offset < self._store.wrote_offset:
            self._flush_soon()

    # ---- time -----------------------------------------------------------------------------------------------------

    async def _due_ms(self, level: _Level, unit: _Unit) -> int:
        """Return when a message is due by the current wall clock."""
        due_ms = unit.due_ms
        if due_ms is None:
            stored_ms = await self._store.store_timestamp_of(SCHEDULE_TOPIC, level.queue_id, unit.queue_offset)
            due_ms = self._levels.deliver_timestamp_ms(level.level, stored_ms)
        return level.times.due_ms(unit.queue_offset, due_ms, self._clock.timestamp_ms())

    def _check_clock(self) -> None:
        if self._clock_set_back is None:
            return  # before run: no due time is cached yet
        set_back_ms = self._clock_set_back.look(
            timestamp_ms=self._clock.timestamp_ms(), current_time=trio.current_time()
        )
        if not set_back_ms:
            return
        _log.warning("the clock was set back by %d ms: the due times of delayed messages are corrected", set_back_ms)
        for level in self._table:
            level.times.set_back(self._store.max_offset_in_queue(SCHEDULE_TOPIC, level.queue_id), set_back_ms)
            level.due_ms = None

    async def _wait(self) -> None:
        """Sleep until a message is due, or one arrives that may be the head of its level."""
        now_ms = self._clock.timestamp_ms()
        wait_s = LOOK_SECONDS
        for level in self._table:
            if level.due_ms is not None:
                wait_s = min(wait_s, max((level.due_ms - now_ms) / 1000, level.retry_at - trio.current_time()))
            elif level.retry_s and self._has_more(level):
                wait_s = min(wait_s, level.retry_at - trio.current_time())
        with trio.move_on_after(max(wait_s, 0.0)):
            await self._more.wait()
        if self._more.is_set():
            self._more = trio.Event()
