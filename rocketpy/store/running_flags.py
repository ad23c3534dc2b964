"""What a store may be asked for at the moment, as RocketMQ's bits.

Compatibility: ``RunningFlags`` (4.9.8). Only "disk full" ever changes here: whoever has set one of the others in
RocketMQ ends the store here, by its StoreError.
"""

from __future__ import annotations

import enum

import attrs


class RunningFlag(enum.IntFlag):
    """Why a store does not serve everything."""

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
        """Whether messages are taken."""
        return not self.value & (_NO_QUEUES | RunningFlag.DISK_FULL)

    @property
    def is_cq_writeable(self) -> bool:
        """Whether units are written for messages that are there: a disk that is full stops only new messages."""
        return not self.value & _NO_QUEUES

    def set(self, flag: RunningFlag, *, to: bool) -> bool:
        """Set or clear a flag; return whether that changed it."""
        before = self.value
        self.value = before | flag if to else before & ~flag
        return self.value != before
