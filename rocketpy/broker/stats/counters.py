"""Counters for the hot roads: plain attributes that a message adds to, emptied into the statistics now and then.

A look-up by a text made of topic, group and queue costs more than a message may. So the hot roads hold an object each
and add to its attributes; :class:`.BrokerStatsManager` empties all of them when it takes notes or is asked.
"""

from __future__ import annotations

import struct

from rocketpy.clock import Clock
from rocketpy.store import layout

_PLACE = struct.Struct(">qi")
"""Physical offset and system flag, 28 bytes into a record."""
_PLACE_POSITION = 28

_TIMESTAMP = struct.Struct(">q")
_SIZE = struct.Struct(">i")


class TopicPutCounter:
    """Messages of one topic, and bytes of their records, that were put since the counter was last emptied."""

    __slots__ = ("count", "size_bytes", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.count = 0
        self.size_bytes = 0

    def clear(self) -> None:
        """Begin anew."""
        self.count = self.size_bytes = 0


class GroupGetCounter:
    """What one group got of one queue since the counter was last emptied, and how far behind its last pull was."""

    __slots__ = (
        "fall_bytes",
        "fall_ms",
        "group",
        "has_fall",
        "message_count",
        "pull_count",
        "queue_id",
        "size_bytes",
        "topic",
    )

    def __init__(self, group: str, topic: str, queue_id: int) -> None:
        self.group = group
        self.topic = topic
        self.queue_id = queue_id
        self.pull_count = 0
        self.message_count = 0
        self.size_bytes = 0
        self.fall_bytes = 0
        self.fall_ms = 0
        self.has_fall = False

    def clear(self) -> None:
        """Begin anew. How far the group is behind is no count: it stays."""
        self.pull_count = self.message_count = self.size_bytes = 0


def fall_of(body: bytes, last_record_size: int, log_end: int, clock: Clock) -> tuple[int, int]:
    """Return how far behind a pull is that ends with a record: bytes of the log from it on, and its age in ms.

    ``body`` is whole records; ``last_record_size`` is 0 when the last one has yet to be found among them.
    """
    begin = len(body) - last_record_size if last_record_size else _last_record(body)
    physical_offset, sys_flag = _PLACE.unpack_from(body, begin + _PLACE_POSITION)
    (store_timestamp_ms,) = _TIMESTAMP.unpack_from(body, begin + layout.store_timestamp_position(sys_flag))
    return log_end - physical_offset, max(0, clock.timestamp_ms() - store_timestamp_ms)


def _last_record(body: bytes) -> int:
    """Return where the last of several records begins."""
    begin = position = 0
    while position < len(body):
        begin = position
        position += _SIZE.unpack_from(body, position)[0]
    return begin
