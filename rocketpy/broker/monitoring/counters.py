"""Counters for the fast paths: plain attributes, drained periodically into the statistics.

A lookup by a key built from topic, group and queue would cost too much per message. Each fast path therefore holds a
counter object and adds to its attributes; :class:`.BrokerStatsManager` drains all of them before a sample or a query.

A counter is named after a topic, or after a group, topic and queue. ``idle_rounds`` counts the samples of an hour since
it was last drained of anything; after :data:`IDLE_ROUNDS` it is forgotten.
"""

from __future__ import annotations

import struct

from rocketpy.protocol.stored_message import store_timestamp_position

_PLACE = struct.Struct(">qi")
"""Physical offset and system flag, 28 bytes into a record."""
_PLACE_POSITION = 28

HEAD_SIZE = 76
"""Bytes of a record up to and including its physical offset and store time."""

IDLE_ROUNDS = 6
"""Samples of an hour, 10 minutes apart, after which a counter that nothing has touched is forgotten."""

TOPIC_PUT_BYTES = 300
GROUP_GET_BYTES = 700
"""What a counter takes without the names in it."""

_TIMESTAMP = struct.Struct(">q")
_SIZE = struct.Struct(">i")


class TopicPutCounter:
    """Messages of one topic, and bytes of their records, put since the counter was last drained."""

    __slots__ = ("count", "idle_rounds", "size_bytes", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.idle_rounds = 0
        self.count = 0
        self.size_bytes = 0

    def clear(self) -> None:
        """Reset the counter, which is not idle."""
        self.count = self.size_bytes = self.idle_rounds = 0


class GroupGetCounter:
    """Messages that one group got from one queue since the last drain, and the lag of its last pull.

    For the last pull the fast path stores the head of the last record, the log's end offset and the time; the lag is
    computed from them only on demand (:meth:`fall`).
    """

    __slots__ = (
        "group",
        "idle_rounds",
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
        self.idle_rounds = 0
        self.pull_count = 0
        self.message_count = 0
        self.size_bytes = 0
        self.last_head = b""
        self.log_end = 0
        self.pulled_ms = 0

    def clear(self) -> None:
        """Reset the counter, which is not idle."""
        self.pull_count = self.message_count = self.size_bytes = self.idle_rounds = 0

    def fall(self) -> tuple[int, int] | None:
        """Return the log bytes from the last record on, and its age in milliseconds; None before the first pull."""
        head = self.last_head
        if not head:
            return None
        physical_offset, sys_flag = _PLACE.unpack_from(head, _PLACE_POSITION)
        (store_timestamp_ms,) = _TIMESTAMP.unpack_from(head, store_timestamp_position(sys_flag))
        return self.log_end - physical_offset, max(0, self.pulled_ms - store_timestamp_ms)


def last_record(body: bytes) -> int:
    """Return the position of the last of several records."""
    begin = position = 0
    while position < len(body):
        begin = position
        position += _SIZE.unpack_from(body, position)[0]
    return begin
