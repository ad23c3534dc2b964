"""Results of a handler for a batch of messages.

Compatibility: ``ConsumeConcurrentlyStatus`` and ``ConsumeOrderlyStatus`` (4.9.8). A handler that returns None has
succeeded here, because a Python function without ``return`` does; in Java it has failed. One that returns anything but
None or a status of its kind has failed, which Java's types do not allow.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeVar


class ConsumeConcurrentlyStatus(Enum):
    """Result of a handler that runs concurrently with others."""

    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"


class ConsumeOrderlyStatus(Enum):
    """Result of a handler that gets each queue in order.

    ``COMMIT`` and ``ROLLBACK`` count only without ``auto_commit``: then ``SUCCESS`` commits nothing, ``COMMIT`` commits
    everything since the last commit, and ``ROLLBACK`` has it consumed again.
    """

    SUCCESS = "SUCCESS"
    ROLLBACK = "ROLLBACK"
    COMMIT = "COMMIT"
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "SUSPEND_CURRENT_QUEUE_A_MOMENT"


StatusT = TypeVar("StatusT", ConsumeConcurrentlyStatus, ConsumeOrderlyStatus)


def checked_status(status: object, expected: type[StatusT]) -> StatusT | None:
    """Return what a handler has returned; TypeError for what is neither a status of its kind nor None.

    A handler that returns something else may have meant anything, so its messages count as failed.
    """
    if status is None or isinstance(status, expected):
        return status
    raise TypeError(f"the handler returned {status!r:.100}, expected {expected.__name__} or None")
