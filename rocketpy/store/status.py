"""Status of an open store: the running flags that RocketMQ shows, and the events that the broker subscribes to.

Compatibility: ``RunningFlags`` (4.9.8). Only "disk full" ever changes here: where RocketMQ sets one of the other flags,
the store stops with a StoreError.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

import attrs

from rocketpy.store.ha.tail_cut import CutReport
from rocketpy.store.recovery.recovery import RecoveryReport


class RunningFlag(enum.IntFlag):
    """A reason why a store does not serve every operation, as RocketMQ's bits."""

    NOT_READABLE = 1
    NOT_WRITEABLE = 2
    WRITE_LOGICS_QUEUE_ERROR = 4
    WRITE_INDEX_FILE_ERROR = 8
    DISK_FULL = 16


_NO_QUEUES = RunningFlag.NOT_WRITEABLE | RunningFlag.WRITE_LOGICS_QUEUE_ERROR | RunningFlag.WRITE_INDEX_FILE_ERROR


@attrs.define(eq=False)
class RunningFlags:
    """The flags of one store."""

    value: RunningFlag = attrs.field(factory=lambda: RunningFlag(0))

    @property
    def is_readable(self) -> bool:
        """Whether messages can be read."""
        return not self.value & RunningFlag.NOT_READABLE

    @property
    def is_writeable(self) -> bool:
        """Whether messages are accepted."""
        return not self.value & (_NO_QUEUES | RunningFlag.DISK_FULL)

    @property
    def is_cq_writeable(self) -> bool:
        """Whether units are written for stored messages. A full disk does not stop that, only new messages."""
        return not self.value & _NO_QUEUES

    def set(self, flag: RunningFlag, *, to: bool) -> bool:
        """Set or clear a flag; return whether that changed it."""
        before = self.value
        self.value = before | flag if to else before & ~flag
        return self.value != before


def _nothing(*_: object) -> None:
    pass


@attrs.frozen(kw_only=True)
class StoreReports:
    """Listeners for events of a store; an event without a listener is dropped. Called on the event loop: must not
    block.
    """

    cut: Callable[[CutReport], None] = _nothing
    """What was done about an order to cut the log, before its recovery."""
    recovered: Callable[[RecoveryReport], None] = _nothing
    """The result of recovery, before the store is handed to its caller."""
    recovering: Callable[[int, int], None] = _nothing
    """Progress of recovery, every two seconds: the offset reached, and the end of the log's last file."""
    full: Callable[[str | None], None] = _nothing
    """Why messages are refused when a disk becomes too full, and None when it no longer is."""


NO_REPORTS = StoreReports()
