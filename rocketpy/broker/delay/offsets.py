"""Progress of each delay level: ``delayOffset.json``.

::

    {
        "offsetTable":{1:4,2:1
        },
        "physicalOffset":81723
    }

``offsetTable`` is RocketMQ's: level -> the next queue offset in SCHEDULE_TOPIC_XXXX. ``physicalOffset`` is ours: the
end of the log when the table was taken, so every delivery that is not in the table has a higher physical offset. The
file is never ahead of the durable log: its writer flushes the log up to that offset first.

Rule: the two always belong together, so they are in one file, which is replaced atomically.

Compatibility: ``ScheduleMessageService`` and ``DelayOffsetSerializeWrapper`` (4.9.8). Java ignores ``physicalOffset``
and writes its file without it, which shows that Java was the last to deliver.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.fastjson.file_notes import FileNotes
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk

_OFFSETS = "offsetTable"
_PHYSICAL_OFFSET = "physicalOffset"
_FILE_KEYS = (_OFFSETS, _PHYSICAL_OFFSET, "dataVersion")  # the last one is RocketMQ 5's, and says nothing of an offset
_INT32_MAX = (1 << 31) - 1
_INT64_MAX = (1 << 63) - 1


@attrs.frozen
class DelayProgress:
    """Deliveries: ``offsets`` by level, and the physical offset from which on the log may have more."""

    offsets: Mapping[int, int] = attrs.field(factory=dict)
    physical_offset: int | None = None  # None: this implementation has delivered nothing beyond them


class DelayOffsetManager:
    """Progress of one broker, current and persisted."""

    def __init__(self, *, path: str, disk: Disk, run_blocking: RunBlocking) -> None:
        self.offset_table: dict[int, int] = {}
        """Level -> the next queue offset, current. ScheduleMessageService changes it, on a slave :meth:`take`."""
        self.noted = DelayProgress()
        """The progress that the file has, or will have when it is persisted."""
        self.stored = StoredTable(path=path, disk=disk, run_blocking=run_blocking, snapshot=self._snapshot)

    def load(self) -> None:
        """Read the file into the empty table; StartError when neither it nor its backup is valid."""
        loaded = self.stored.load(decode_delay_progress)
        if loaded is not None:
            self.noted = loaded
            self.offset_table = dict(loaded.offsets)

    def note(self, progress: DelayProgress) -> None:
        """Set the progress to persist. The log must be durable up to its physical offset."""
        if progress != self.noted:
            self.noted = progress
            self.stored.changed()

    def take(self, progress: DelayProgress) -> None:
        """Set the progress of a slave to its master's: current, and to persist. The same condition as :meth:`note`."""
        self.offset_table = dict(progress.offsets)
        self.note(progress)

    def forget(self) -> None:
        """Know nothing of deliveries any more: a start looks for them in the log, from the oldest message on."""
        self.offset_table = {}
        self.note(DelayProgress())

    def _snapshot(self) -> object:
        content: dict[str, object] = {_OFFSETS: dict(sorted(self.noted.offsets.items()))}
        if self.noted.physical_offset is not None:
            content[_PHYSICAL_OFFSET] = self.noted.physical_offset
        return content


def decode_delay_progress(content: object, notes: FileNotes | None = None) -> DelayProgress:
    """Return the progress in a parsed file or answer; RemoteProtocolError when it is malformed.

    A level that ``messageDelayLevel`` does not have counts when the setting has it again, as in RocketMQ.
    """
    table = content.get(_OFFSETS) if isinstance(content, dict) else None
    if not isinstance(table, dict):
        raise RemoteProtocolError(f"expected an object with {_OFFSETS}")
    assert isinstance(content, dict)
    physical_offset = content.get(_PHYSICAL_OFFSET)
    offsets = {
        _number(level, _OFFSETS, _INT32_MAX): _number(offset, _OFFSETS, _INT64_MAX) for level, offset in table.items()
    }
    if physical_offset is not None:
        physical_offset = _number(physical_offset, _PHYSICAL_OFFSET, _INT64_MAX)
    if notes is not None:
        notes.unknown_keys(content, _FILE_KEYS)
    return DelayProgress(offsets, physical_offset)


def _number(value: object, where: str, number_max: int) -> int:
    """Return a non-negative number, plain or quoted, as fastjson accepts both."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= number_max:
        return value
    raise RemoteProtocolError(f"{where}: expected a number from 0 to {number_max}, found {value!r:.100}")
