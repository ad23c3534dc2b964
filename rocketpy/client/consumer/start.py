"""Start positions: where in a queue reading begins.

:class:`Start` is a value that programs choose. A group that is rebalanced begins by RocketMQ's ``ConsumeFromWhere``
instead, and only in queues where it has no progress.

Compatibility: ``RebalancePushImpl.computePullFromWhereWithException`` (4.9.8). A group's retry topic is consumed from
its beginning, but from its end under CONSUME_FROM_TIMESTAMP, as there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Protocol

import attrs

from rocketpy.protocol.bodies.heartbeat import ConsumeFromWhere
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.topic_name import RETRY_PREFIX

SearchOffset = Callable[[MessageQueue, int], Awaitable[int]]
"""Asks a broker for the offset nearest to a wall time in ms."""


class QueueOffsets(Protocol):
    """Interface to the ends of queues and to a group's progress."""

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the lowest offset."""
        ...

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset after the highest."""
        ...

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset nearest to a wall time."""
        ...

    async def consumer_offset(self, queue: MessageQueue) -> int | None:
        """Return the group's progress."""
        ...


class StartKind(Enum):
    """Reference point of a start position."""

    BEGINNING = "beginning"
    END = "end"
    TIME = "a time"
    LAST = "the last messages"
    OFFSET = "an offset"
    STORED = "the stored progress"


@attrs.frozen
class Start:
    """A start position. Created by its class methods.

    ``value`` is the wall time in ms, the number of messages or the offset; ``otherwise`` is where to begin without
    stored progress.
    """

    kind: StartKind
    value: int = 0
    otherwise: Start | None = None

    @classmethod
    def beginning(cls) -> Start:
        """Begin with the oldest message that exists."""
        return cls(StartKind.BEGINNING)

    @classmethod
    def end(cls) -> Start:
        """Begin with the next message that is sent."""
        return cls(StartKind.END)

    @classmethod
    def at_time(cls, timestamp_ms: int) -> Start:
        """Begin with the first message stored at or after a wall time, in ms since the epoch."""
        if timestamp_ms < 0:
            raise ValueError(f"expected a time in ms since the epoch, found {timestamp_ms}")
        return cls(StartKind.TIME, timestamp_ms)

    @classmethod
    def last(cls, count: int) -> Start:
        """Begin so many messages before the end of each queue."""
        if count < 0:
            raise ValueError(f"expected a number of messages, found {count}")
        return cls(StartKind.LAST, count)

    @classmethod
    def at_offset(cls, queue_offset: int) -> Start:
        """Begin at a queue offset, the same in each queue."""
        if queue_offset < 0:
            raise ValueError(f"expected a queue offset, found {queue_offset}")
        return cls(StartKind.OFFSET, queue_offset)

    @classmethod
    def stored(cls, otherwise: Start | None = None) -> Start:
        """Begin at the group's progress; in queues where it has none ``otherwise``, by default at the beginning."""
        return cls(StartKind.STORED, otherwise=otherwise or cls.beginning())

    @classmethod
    def of(cls, start: Start | str | int) -> Start:
        """Return a start position from its short form, as the command line has it; ValueError for any other text.

        ``"beginning"``, ``"end"``, ``"stored"``, a wall time in ms, or a negative number -N for the last N messages.
        """
        match start:
            case Start():
                return start
            case int():
                return cls.at_time(start) if start >= 0 else cls.last(-start)
            case "beginning":
                return cls.beginning()
            case "end":
                return cls.end()
            case "stored":
                return cls.stored()
        try:
            return cls.of(int(start))
        except ValueError:
            expected = "'beginning', 'end', 'stored', a time in ms or -N"
            raise ValueError(f"start is {start!r}, expected {expected}") from None


async def first_offset_from(queue: MessageQueue, timestamp_ms: int, search: SearchOffset) -> int:
    """Return an offset at or before that of the first message stored at a time or later, as near as a broker tells.

    It finds the message *nearest* to a time, and of several of that time Java's broker finds any: those of a batch have
    the same. What it finds nearest to the millisecond before is never behind the first one.
    """
    return await search(queue, max(timestamp_ms - 1, 0))


async def offset_of_start(start: Start, queue: MessageQueue, offsets: QueueOffsets) -> int:
    """Return the offset at which reading a queue begins; for a time see :func:`first_offset_from`."""
    match start.kind:
        case StartKind.BEGINNING:
            return await offsets.min_offset(queue)
        case StartKind.END:
            return await offsets.max_offset(queue)
        case StartKind.TIME:
            return await first_offset_from(queue, start.value, offsets.search_offset)
        case StartKind.LAST:
            return max(await offsets.min_offset(queue), await offsets.max_offset(queue) - start.value)
        case StartKind.OFFSET:
            return start.value
        case StartKind.STORED:
            stored = await offsets.consumer_offset(queue)
            assert start.otherwise is not None, "stored() sets it"
            return await offset_of_start(start.otherwise, queue, offsets) if stored is None else stored


async def offset_without_progress(
    queue: MessageQueue, offsets: QueueOffsets, consume_from_where: ConsumeFromWhere, timestamp_ms: int
) -> int:
    """Return the offset at which a group begins in a queue where it has no progress.

    ``timestamp_ms`` is the wall time for CONSUME_FROM_TIMESTAMP.
    """
    is_retry = queue.topic.startswith(RETRY_PREFIX)
    if consume_from_where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
        return 0
    if consume_from_where is ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
        if is_retry:
            return await offsets.max_offset(queue)
        return await first_offset_from(queue, timestamp_ms, offsets.search_offset)
    return 0 if is_retry else await offsets.max_offset(queue)
