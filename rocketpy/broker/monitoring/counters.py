"""Counters for the hot roads: plain attributes that a message adds to, emptied into the statistics now and then.

A look-up by a text made of topic, group and queue costs more than a message may. So the hot roads hold an object each
and add to its attributes; :class:`.BrokerStatsManager` empties all of them when it takes notes or is asked.
"""

from __future__ import annotations

import struct

from rocketpy.store import layout

_PLACE = struct.Struct(">qi")
"""Physical offset and system flag, 28 bytes into a record."""
_PLACE_POSITION = 28

HEAD_SIZE = 76
"""So many bytes of a record hold its place, and when it was stored."""

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
    """What one group got of one queue since the counter was last emptied, and how far behind its last pull was.

    Of the last pull a road notes the head of the last record, where the log ended and when that was; what they mean is
    worked out when somebody asks (:meth:`fall`).
    """

    __slots__ = (
        "group",
        "last_head",
        "log_end",
        "message_count",
        "pull_count",
        "pulled_ms",
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
        self.last_head = b""
        self.log_end = 0
        self.pulled_ms = 0

    def clear(self) -> None:
        """Begin anew."""
        self.pull_count = self.message_count = self.size_bytes = 0

    def fall(self) -> tuple[int, int] | None:
        """Return bytes of the log from the last record on, and its age in milliseconds; None before the first pull."""
        head = self.last_head
        if not head:
            return None
        physical_offset, sys_flag = _PLACE.unpack_from(head, _PLACE_POSITION)
        (store_timestamp_ms,) = _TIMESTAMP.unpack_from(head, layout.store_timestamp_position(sys_flag))
        return self.log_end - physical_offset, max(0, self.pulled_ms - store_timestamp_ms)


def last_record(body: bytes) -> int:
    """Return where the last of several records begins."""
    begin = position = 0
    while position < len(body):
        begin = position
        position += _SIZE.unpack_from(body, position)[0]
    return begin
