"""How far each level of delayed messages has been delivered: ``delayOffset.json``.

::

    {
        "offsetTable":{1:4,2:1
        },
        "physicalOffset":81723
    }

``offsetTable`` is RocketMQ's: level -> the next queue offset in SCHEDULE_TOPIC_XXXX. ``physicalOffset`` is ours: where
the log ended when the table was noted, so deliveries that the table does not know are behind it and nowhere else. What
is on the disk is never ahead of the log on the disk: whoever notes says up to where the log is durable.

Rule: the two always belong together, so they are in one file, which appears whole or not at all.

Compatibility: ``ScheduleMessageService`` and ``DelayOffsetSerializeWrapper`` (4.9.8). Java passes over
``physicalOffset`` and writes its file without it, by which we know that it was Java who delivered last.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.errors import RemoteProtocolError
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk

_OFFSETS = "offsetTable"
_PLACE = "physicalOffset"


@attrs.frozen
class DelayProgress:
    """What is delivered: ``offsets`` by level, and the place in the log from which on there may be more."""

    offsets: Mapping[int, int] = attrs.field(factory=dict)
    physical_offset: int | None = None  # None: nothing of ours was ever delivered beyond the offsets


class DelayOffsetManager:
    """The progress of one broker, now and as it is on the disk."""

    def __init__(self, *, path: str, disk: Disk, run_blocking: RunBlocking) -> None:
        self.offset_table: dict[int, int] = {}
        """Level -> the next queue offset, as of this moment. ScheduleMessageService changes it, nobody else."""
        self.noted = DelayProgress()
        """What the file has, or will have when it is persisted."""
        self.stored = StoredTable(path=path, disk=disk, run_blocking=run_blocking, snapshot=self._snapshot)

    def load(self) -> None:
        """Read the file into the empty table; StartError when neither it nor its backup makes sense."""
        loaded = self.stored.load(_decode)
        if loaded is not None:
            self.noted = loaded
            self.offset_table = dict(loaded.offsets)

    def note(self, progress: DelayProgress) -> None:
        """Take what to persist: the log is durable up to its place."""
        if progress != self.noted:
            self.noted = progress
            self.stored.changed()

    def _snapshot(self) -> object:
        content: dict[str, object] = {_OFFSETS: dict(sorted(self.noted.offsets.items()))}
        if self.noted.physical_offset is not None:
            content[_PLACE] = self.noted.physical_offset
        return content


def _decode(content: object) -> DelayProgress:
    table = content.get(_OFFSETS) if isinstance(content, dict) else None
    if not isinstance(table, dict):
        raise RemoteProtocolError(f"expected an object with {_OFFSETS}")
    assert isinstance(content, dict)
    place = content.get(_PLACE)
    offsets = {_number(level, _OFFSETS): _number(offset, _OFFSETS) for level, offset in table.items()}
    return DelayProgress(offsets, None if place is None else _number(place, _PLACE))


def _number(value: object, where: str) -> int:
    """A number that is not negative, or the quoted one that fastjson takes too."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise RemoteProtocolError(f"{where}: expected a number from 0 on, found {value!r}")
