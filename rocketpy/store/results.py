"""Results of store operations: statuses and their values. Expected outcomes are statuses, never exceptions."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import ClassVar, Protocol, TypeAlias

import attrs

from rocketpy.store.queue.extension import CqExtUnit


class PutMessageStatus(enum.Enum):
    """Result of a put. The first four mean that the message is stored. RocketMQ's names, in RocketMQ's order."""

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


StoredCallback: TypeAlias = Callable[[PutMessageStatus], None]
"""Takes one of the four statuses of a stored message, once the wait for it is over."""


class GetMessageStatus(enum.Enum):
    """Result of a read from a queue. RocketMQ's names, in RocketMQ's order."""

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
    """Messages of one queue, as whole stored records back to back, and the queue offset of the next read."""

    status: GetMessageStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    body: bytes = b""
    message_count: int = 0
    suggest_pulling_from_slave: bool = False
    damage: str = ""
    """Why the message at the requested offset cannot be served: its unit or its record is damaged."""
    last_record_size: int = attrs.field(
        default=0, eq=False
    )  # of the last record in body, 0 if the read did not track it
    head_size: ClassVar[int] = 0  # as of a PlainRead: the body has records only


@attrs.frozen(slots=True)
class QueryMessageResult:
    """Records found by a key, back to back, and the end of the index."""

    body: bytes
    index_last_update_timestamp: int
    index_last_update_phyoffset: int
    why_incomplete: str = ""
    """Why messages that were there before the query may be missing; empty if none is."""


@attrs.frozen(slots=True)
class QueueTimeSpan:
    """storeTimestamps of a queue's messages and of a group's position among them; -1 for what cannot be read."""

    min_timestamp_ms: int
    max_timestamp_ms: int
    consume_timestamp_ms: int  # of the last consumed message; of the oldest message if none is consumed
    next_timestamp_ms: int | None  # of the first message that is not consumed; None if all are


@attrs.frozen(slots=True)
class ListedUnit:
    """One unit of a queue, as stored in the file."""

    physical_offset: int
    size: int
    tags_code: int  # of the message, or the address of a unit in a ConsumeQueueExt file
    ext: CqExtUnit | None  # the unit at that address; None for a plain tags code, and if none is found


@attrs.frozen(slots=True)
class QueueListing:
    """Some units of a queue, and the bounds of the queue; empty if the first requested unit does not exist."""

    min_offset: int
    max_offset: int
    units: tuple[ListedUnit, ...]


@attrs.frozen(slots=True)
class StoreStatistics:
    """Counters since the store was opened, and its current offsets."""

    put_count: int
    put_bytes: int
    put_refused_count: int
    burst_count: int
    get_count: int
    get_miss_count: int  # reads without a message
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
    """Selects messages of a queue, by unit, and by record only if :attr:`needs_record` is true."""

    @property
    def needs_record(self) -> bool:
        """Whether ``is_matched_by_commit_log`` must be called; if not, records that do not match are never read."""
        ...

    def is_matched_by_consume_queue(self, tags_code: int, ext: CqExtUnit | None) -> bool:
        """Whether a unit with this tags code may match. ``ext`` is its unit in a ConsumeQueueExt file, if any."""
        ...

    def is_matched_by_commit_log(self, record: bytes) -> bool:
        """Whether a whole stored record matches."""
        ...
