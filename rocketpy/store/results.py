"""What the store answers: statuses, and the values that come with them. An expected outcome is one of these, never an
exception.
"""

from __future__ import annotations

import enum
from typing import Protocol

import attrs

from rocketpy.store.queue.extension import CqExtUnit


class PutMessageStatus(enum.Enum):
    """What became of a message. The first four mean that it is stored; RocketMQ's names in RocketMQ's order."""

    PUT_OK = 0
    FLUSH_DISK_TIMEOUT = 1
    FLUSH_SLAVE_TIMEOUT = 2
    SLAVE_NOT_AVAILABLE = 3
    SERVICE_NOT_AVAILABLE = 4
    CREATE_MAPEDFILE_FAILED = 5
    MESSAGE_ILLEGAL = 6
    PROPERTIES_SIZE_EXCEEDED = 7
    OS_PAGECACHE_BUSY = 8
    UNKNOWN_ERROR = 9
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = 10


class GetMessageStatus(enum.Enum):
    """What a read of a queue found; RocketMQ's names in RocketMQ's order."""

    FOUND = 0
    NO_MATCHED_MESSAGE = 1
    MESSAGE_WAS_REMOVING = 2
    OFFSET_FOUND_NULL = 3
    OFFSET_OVERFLOW_BADLY = 4
    OFFSET_OVERFLOW_ONE = 5
    OFFSET_TOO_SMALL = 6
    NO_MATCHED_LOGIC_QUEUE = 7
    NO_MESSAGE_IN_QUEUE = 8
    OFFSET_RESET = 9


@attrs.frozen(slots=True)
class GetMessageResult:
    """Messages of one queue, whole stored records back to back, and where to go on."""

    status: GetMessageStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    body: bytes = b""
    message_count: int = 0
    suggest_pulling_from_slave: bool = False
    damage: str = ""
    """Why the message at the offset that was asked for cannot be served: its unit or its record is damaged."""
    last_record_size: int = attrs.field(default=0, eq=False)  # of the body, where the read knows it, else 0


@attrs.frozen(slots=True)
class QueryMessageResult:
    """Records that the index has for a key, back to back, and how far the index has come."""

    body: bytes
    index_last_update_timestamp: int
    index_last_update_phyoffset: int


@attrs.frozen(slots=True)
class QueueTimeSpan:
    """When messages of a queue were stored, and where a group is among them; -1 for what cannot be read."""

    min_timestamp_ms: int
    max_timestamp_ms: int
    consume_timestamp_ms: int  # of the last message that was consumed; of the oldest one before the first
    next_timestamp_ms: int | None  # of the first message that was not; None when all were


@attrs.frozen(slots=True)
class ListedUnit:
    """One unit of a queue, as it is in the file."""

    physical_offset: int
    size: int
    tags_code: int  # of the message, or where a ConsumeQueueExt file has more
    ext: CqExtUnit | None  # what stands there; None for a plain tags code, and where nothing is found


@attrs.frozen(slots=True)
class QueueListing:
    """Some units of a queue and the bounds of the queue; none at all when the first one asked for is not there."""

    min_offset: int
    max_offset: int
    units: tuple[ListedUnit, ...]


@attrs.frozen(slots=True)
class StoreStatistics:
    """Counters since the store was opened, and where its parts stand."""

    put_count: int
    put_bytes: int
    put_refused_count: int
    burst_count: int
    get_count: int
    get_miss_count: int  # of those that found nothing
    get_message_count: int
    get_cold_count: int
    commit_log_min_offset: int
    commit_log_max_offset: int
    commit_log_flushed_offset: int
    uncommitted_bytes: int  # in the transient store pool
    queue_count: int
    open_files: int
    index_behind: int


class MessageFilter(Protocol):
    """Chooses messages of a queue. It is asked for each unit, and for the record only if it says that it needs it."""

    @property
    def needs_record(self) -> bool:
        """Whether ``is_matched_by_commit_log`` has a say; if not, unwanted records are never read."""
        ...

    def is_matched_by_consume_queue(self, tags_code: int, ext: CqExtUnit | None) -> bool:
        """Whether a unit with this tags code may be wanted. ``ext`` is what a ConsumeQueueExt file knows beyond it."""
        ...

    def is_matched_by_commit_log(self, record: bytes) -> bool:
        """Whether a whole stored record is wanted."""
        ...
