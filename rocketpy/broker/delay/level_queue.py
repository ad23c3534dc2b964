"""Queue of one delay level: its next message, when that one is due, and when delivery is tried.

::

    SCHEDULE_TOPIC_XXXX, queue id level - 1
    +-----------+-----------+-----------+-----------+
    | delivered | delivered | due next  | due later |
    +-----------+-----------+-----------+-----------+
                            ^ queue_offset          ^ max offset in queue

Messages of a level have the same delay, so they are due in queue order and only the head is examined.

The due time is in the unit. For units without one (a lost extension, Java's recovery, which ignores delays) it is
computed from the record. For clocks that are set see :mod:`.due_time`.

It reads the queue and keeps the offset; putting messages into their own queues is :mod:`.delivery`.
"""

from __future__ import annotations

import logging

import attrs
import trio

from rocketpy.broker.delay.due_time import DueTimes
from rocketpy.broker.delay.levels import DelayLevels
from rocketpy.broker.delay.offsets import DelayOffsetManager
from rocketpy.clock import Clock
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC
from rocketpy.store.message_store import MessageStore
from rocketpy.store.queue.extension import is_ext_address

MESSAGES_PER_TURN = 32
BYTES_PER_TURN = 256 << 10

RETRY_SECONDS_MIN = 0.1
RETRY_SECONDS_MAX = 5.0

_HASH_MIN, _HASH_MAX = -(1 << 31), 1 << 31
"""Tags codes in this range are hashes of tags, not due times: those would be in January 1970."""

_log = logging.getLogger("rocketpy.broker")


@attrs.frozen(slots=True)
class DelayedUnit:
    """A waiting message."""

    queue_offset: int
    physical_offset: int
    size: int
    due_ms: int | None  # from its unit, None where that has no due time


class LevelQueue:
    """The waiting messages of one level."""

    def __init__(
        self,
        level: int,
        *,
        store: MessageStore,
        levels: DelayLevels,
        offsets: DelayOffsetManager,
        clock: Clock,
        begin_ms: int,
    ) -> None:
        """``begin_ms`` is the wall time of the start. ``offsets`` has the progress, and follows it."""
        self.level = level
        self.queue_id = level - 1
        self.queue_offset = offsets.offset_table.get(level, 0)  # of the next message to deliver
        self.due_ms: int | None = None  # due time of that one, None while unknown
        self._retry_at = 0.0  # Trio time of the next attempt
        self._retry_s = 0.0  # last backoff, 0 after a success
        self._store = store
        self._levels = levels
        self._offsets = offsets
        self._clock = clock
        self._times = DueTimes(
            delay_ms=levels.delay_ms(level) if level <= levels.level_max else None,
            begin_ms=begin_ms,
            end_offset=store.max_offset_in_queue(SCHEDULE_TOPIC, self.queue_id),
        )

    # ---- position -------------------------------------------------------------------------------------------------

    def has_more(self) -> bool:
        """Whether a message waits."""
        return self.queue_offset < self._store.max_offset_in_queue(SCHEDULE_TOPIC, self.queue_id)

    def move_to(self, queue_offset: int) -> None:
        """Set the next message to deliver, here and in the table of offsets."""
        self.queue_offset = queue_offset
        self._offsets.offset_table[self.level] = queue_offset
        self._times.passed(queue_offset)

    def correct(self, *, is_known: bool) -> int:
        """Move the offset into the range of the queue; return how many messages that skipped.

        Without a known offset none count: a new progress file begins anywhere.
        """
        min_offset = self._store.min_offset_in_queue(SCHEDULE_TOPIC, self.queue_id)
        max_offset = self._store.max_offset_in_queue(SCHEDULE_TOPIC, self.queue_id)
        previous = self.queue_offset
        corrected = min(max(previous, min_offset), max_offset)
        if corrected == previous:
            return 0
        if is_known:
            _log.error(
                "delay level %d: the next offset is %d, but its queue has %d to %d; it goes on at %d",
                self.level, previous, min_offset, max_offset, corrected,
            )  # fmt: skip
        self.move_to(corrected)
        return max(0, corrected - previous) if is_known else 0

    # ---- messages -------------------------------------------------------------------------------------------------

    async def due_units(self) -> list[DelayedUnit]:
        """Return the messages that are due, at most a turn of them, and set ``due_ms`` to that of the one after them.

        Raises :class:`~rocketpy.errors.ShortageError` without file descriptors to read with.
        """
        due: list[DelayedUnit] = []
        size_bytes = 0
        for unit in await self.units(self.queue_offset):
            due_ms = await self._due_ms(unit)
            if due_ms > self._clock.timestamp_ms() or (due and size_bytes + unit.size > BYTES_PER_TURN):
                self.due_ms = due_ms
                break
            due.append(unit)
            size_bytes += unit.size
        else:
            self.due_ms = None
        return due

    async def units(self, queue_offset: int) -> list[DelayedUnit]:
        """Return the messages from a queue offset on, at most a turn of them."""
        listing = await self._store.list_units(SCHEDULE_TOPIC, self.queue_id, queue_offset, MESSAGES_PER_TURN)
        found = []
        for at, unit in enumerate(() if listing is None else listing.units, queue_offset):
            tags_code = unit.ext.tags_code if unit.ext is not None else unit.tags_code
            has_no_time = is_ext_address(tags_code) or _HASH_MIN <= tags_code < _HASH_MAX
            found.append(DelayedUnit(at, unit.physical_offset, unit.size, None if has_no_time else tags_code))
        return found

    async def _due_ms(self, unit: DelayedUnit) -> int:
        """Return when a message is due by the current wall clock."""
        due_ms = unit.due_ms
        if due_ms is None:
            stored_ms = await self._store.store_timestamp_of(SCHEDULE_TOPIC, self.queue_id, unit.queue_offset)
            due_ms = self._levels.deliver_timestamp_ms(self.level, stored_ms)
        return self._times.due_ms(unit.queue_offset, due_ms, self._clock.timestamp_ms())

    # ---- time -----------------------------------------------------------------------------------------------------

    def may_be_due(self) -> bool:
        """Whether a turn is worth taking: a message may be due, and no backoff holds it."""
        if trio.current_time() < self._retry_at or not self.has_more():
            return False
        return self.due_ms is None or self.due_ms <= self._clock.timestamp_ms()

    def wait_s(self, now_ms: int) -> float | None:
        """Return the seconds until the next attempt, None while only a new message can cause one."""
        if self.due_ms is not None:
            return max((self.due_ms - now_ms) / 1000, self._retry_at - trio.current_time())
        if self._retry_s and self.has_more():
            return self._retry_at - trio.current_time()
        return None

    def stored(self, queue_offset: int, stamp_ms: int) -> None:
        """Look at the storeTimestamp of a message that has just been stored."""
        self._times.stored(queue_offset, stamp_ms, self._clock.timestamp_ms())

    def clock_set_back(self, step_ms: int) -> None:
        """Correct the due times of what waits: the wall clock was set back by ``step_ms``."""
        self._times.set_back(self._store.max_offset_in_queue(SCHEDULE_TOPIC, self.queue_id), step_ms)
        self.due_ms = None

    def end_backoff(self) -> None:
        """Begin the next backoff at the shortest: the store has accepted a message."""
        self._retry_s = 0.0

    def back_off(self, seconds_min: float = RETRY_SECONDS_MIN) -> None:
        """Schedule the next attempt: twice the last backoff from now, but at least ``seconds_min``."""
        self._retry_s = min(max(2 * self._retry_s, seconds_min), RETRY_SECONDS_MAX)
        self._retry_at = trio.current_time() + self._retry_s

    def pause(self) -> None:
        """Try again after the longest backoff, and leave the backoff as it is."""
        self._retry_at = trio.current_time() + RETRY_SECONDS_MAX
