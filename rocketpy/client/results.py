"""Results of sends, pulls and local transactions: statuses, not exceptions.

Compatibility: ``SendResult``, ``SendStatus``, ``PullResult``, ``PullStatus``, ``LocalTransactionState`` (4.9.8).
"""

from __future__ import annotations

from enum import Enum

import attrs

from rocketpy.protocol.headers.send import (
    TRANSACTION_COMMIT_TYPE,
    TRANSACTION_NOT_TYPE,
    TRANSACTION_ROLLBACK_TYPE,
)
from rocketpy.protocol.message import MessageExt, MessageQueue


class SendStatus(Enum):
    """Durability of a stored message; with every status the message is stored."""

    SEND_OK = 0
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12


class PullStatus(Enum):
    """Outcome of a pull."""

    FOUND = 0
    NO_NEW_MSG = 19
    NO_MATCHED_MSG = 20
    OFFSET_ILLEGAL = 21


class LocalTransactionState(Enum):
    """Verdict on a transaction."""

    COMMIT_MESSAGE = TRANSACTION_COMMIT_TYPE
    ROLLBACK_MESSAGE = TRANSACTION_ROLLBACK_TYPE
    UNKNOW = TRANSACTION_NOT_TYPE
    """Not known yet: the broker will ask."""


@attrs.frozen
class SendResult:
    """Queue and offset of a stored message or batch. ``msg_id`` is the unique key; a batch's are joined by commas.

    ``transaction_id`` is what the broker returns of a half message. ``trace_on`` is False where the broker wants no
    message trace.
    """

    status: SendStatus
    msg_id: str
    offset_msg_id: str
    message_queue: MessageQueue
    queue_offset: int
    region_id: str
    transaction_id: str | None = None
    trace_on: bool = True


@attrs.frozen
class PullResult:
    """Messages of a pull; ``next_begin_offset`` is the offset of the next pull, whatever the status.

    ``suggest_which_broker_id`` names the broker for the next pull: a slave when the master has to read from its disk.
    """

    status: PullStatus
    messages: tuple[MessageExt, ...]
    next_begin_offset: int
    min_offset: int
    max_offset: int
    suggest_which_broker_id: int
