"""The rule for the end of the last run: was it a clean shutdown, what is durable, where does the next walk begin. Pure.

Recovery calls it to start a store, inspection to say what a start would do. Both describe the queues and the log files
by the small values here; nothing in this module opens a file.

The rules, in their order:

- There was a clean shutdown if there is no abort file and the checkpoint has a time: every clean shutdown of a store
  with messages leaves one, Java's too. If the checkpoint is ours, the note of that shutdown must also agree with log
  and queues, and the checkpoint must cover all of it; else the abort file was removed by hand, or a recovery that
  made lost units again was killed before they were durable, and the start is one after a crash.
- The log must be valid up to where it is known to be durable: by our checkpoint; else by the note, if the queues end as
  it says; else, after a clean shutdown of Java's, up to the last record that a queue names.
- The walk begins at the noted end; after a clean shutdown of Java's three log files before the end; after a crash where
  our checkpoint says that log and queues were durable, or, by Java's times, with the last file whose first record was;
  and at the very beginning if no record begins where our checkpoint says, or units are missing that no crash can take.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence

import attrs

from rocketpy.protocol.stored_message import BLANK_MAGIC_CODE, MESSAGE_MAGIC_CODE
from rocketpy.store.layout import UNIT_SIZE
from rocketpy.store.recovery.checkpoint import DurableEnds, StoreCheckpoint
from rocketpy.store.recovery.marker_files import OrderlyEnd, digest_of_ends

FILES_AFTER_CLEAN_SHUTDOWN = 3
"""As many files as Java's own recovery reads: the end of the log is in one of them."""

RECORD_BEGIN = struct.Struct(">ii20xq")
"""The begin of a record: totalSize, magic, physicalOffset."""


@attrs.frozen
class QueueEnd:
    """A queue as its files are: where the first begins (in bytes), and the queue offset after its last valid unit."""

    topic: str
    queue_id: int
    begin_position: int
    max_offset: int
    physical_end: Callable[[], int]
    """Returns where the record of the last unit ends, 0 without one; asked only where it decides something."""


@attrs.frozen
class LogEnds:
    """The log files: base offset and end of each, in order."""

    spans: Sequence[tuple[int, int]]
    first_timestamp_ms: Callable[[int], int]
    """Returns the storeTimestamp of the first record of the file with that index, 0 without one."""

    @property
    def min_offset(self) -> int:
        """The offset at which the first file begins."""
        return self.spans[0][0] if self.spans else 0

    @property
    def end_offset(self) -> int:
        """The offset at which the last file ends."""
        return self.spans[-1][1] if self.spans else 0

    def file_at(self, physical_offset: int) -> int | None:
        """Return the index of the file that has room for an offset, None if none has."""
        return next((index for index, (begin, end) in enumerate(self.spans) if begin <= physical_offset < end), None)


@attrs.frozen
class WalkBegin:
    """The offset or file at which a start begins to scan the log."""

    is_clean: bool
    """Whether the last stop was a clean shutdown, all evidence considered."""
    noted_end: int | None
    """The end of the log by the note of that shutdown, if log and queues agree with it."""
    first_file: int
    offset: int | None
    """Within that file; None for its beginning."""

    def offset_in(self, log: LogEnds) -> int:
        """Return the physical offset that this is."""
        return log.spans[self.first_file][0] if self.offset is None else self.offset


@attrs.frozen(kw_only=True)
class LastStop:
    """State of the last stop, as the small files of a store record it."""

    seems_clean: bool
    """No abort file, and a checkpoint; the note is not considered."""
    durable_before_ms: int
    """Log and queues were durable up to this storeTimestamp, by the times that Java writes too."""
    ends: DurableEnds | None
    note: OrderlyEnd | None

    @classmethod
    def of(cls, *, has_abort_file: bool, checkpoint: StoreCheckpoint, note: OrderlyEnd | None) -> LastStop:
        """Return the state that the files record; ``note`` is the readable note, trustworthy or not."""
        return cls(
            seems_clean=not has_abort_file and checkpoint.physic_msg_timestamp_ms > 0,
            durable_before_ms=checkpoint.min_timestamp_ms,
            ends=checkpoint.ends,
            note=note,
        )

    def durable_end(self, queues: Sequence[QueueEnd]) -> int:
        """Return up to where the log must be valid, 0 if nothing is known."""
        if self.ends is not None:
            return self.ends.log_flushed_offset
        if self.note is not None and self.note.queues_digest == _digest_of(queues):
            return self.note.end_offset
        if self.seems_clean:
            return max((queue.physical_end() for queue in queues), default=0)
        return 0

    def is_inconsistent(self, queue: QueueEnd, log: LogEnds) -> bool:
        """Whether a queue cannot be right, so that a start removes it and rebuilds it from the log.

        A file begins within a unit; the log has its beginning and the queue has not; or, after a clean shutdown, the
        last unit leads out of the log.
        """
        return bool(
            queue.begin_position % UNIT_SIZE
            or begins_too_late(queue.begin_position, log.min_offset)
            or (self.seems_clean and queue.physical_end() > log.end_offset)
        )

    def noted_end(self, queues: Iterable[QueueEnd], log: LogEnds) -> int | None:
        """Return the end of the log that the clean shutdown has noted, if log and queues still end as it says.

        Also the checkpoint must be no older: a recovery sets it back before it makes lost units again. Killed then, it
        leaves queues that end as noted, and are not durable.
        """
        if self.note is None or not self.seems_clean:
            return None
        if self.ends is not None and self.ends.durable_offset < self.note.end_offset:
            return None
        index = log.file_at(self.note.end_offset)
        is_in_last_file = index == len(log.spans) - 1 if log.spans else index is None
        return self.note.end_offset if is_in_last_file and self.note.queues_digest == _digest_of(queues) else None

    def walk_begin(self, queues: Iterable[QueueEnd], log: LogEnds) -> WalkBegin:
        """Return where a start begins, given the queues that are consistent."""
        noted_end = self.noted_end(queues, log)
        if noted_end is not None:
            return WalkBegin(True, noted_end, max(0, len(log.spans) - 1), noted_end)
        # Our last stop was not clean, and no Java broker had the store since: the abort file was removed by hand.
        is_clean = self.seems_clean and self.ends is None
        if is_clean:
            return WalkBegin(True, None, max(0, len(log.spans) - FILES_AFTER_CLEAN_SHUTDOWN), None)
        if self.ends is None:
            return WalkBegin(False, None, self._first_durable_file(log), None)
        durable_offset = self.ends.durable_offset
        if durable_offset <= log.min_offset:
            return WalkBegin(False, None, 0, None)
        index = log.file_at(durable_offset)
        if index is not None:
            return WalkBegin(False, None, index, durable_offset)
        return WalkBegin(
            False, None, max(0, len(log.spans) - 1), durable_offset if durable_offset == log.end_offset else None
        )

    def misses_units(self, begin: WalkBegin, unit_count: int) -> bool:
        """Whether queues have fewer units before the walk than were durable: then the whole log is walked."""
        return (
            self.ends is not None
            and not begin.is_clean
            and begin.offset is not None
            and unit_count < self.ends.unit_count
        )

    def _first_durable_file(self, log: LogEnds) -> int:
        """Return the last file whose first record, and so all before it, was durable; the first one if none is."""
        for index in range(len(log.spans) - 1, 0, -1):
            if 0 < log.first_timestamp_ms(index) <= self.durable_before_ms:
                return index
        return 0


def is_boundary(physical_offset: int, file_span: tuple[int, int], begin: bytes, ends_before: Iterable[int]) -> bool:
    """Whether a record begins at an offset of a log file, or ends there by the unit of a queue.

    ``file_span`` is where the file begins and ends, ``begin`` are its bytes at the offset, as many as
    :data:`RECORD_BEGIN` has or the file has left. ``ends_before`` are the ends of the last records of each queue that
    begin before the offset; it is used only where the bytes do not decide.

    A checkpoint that leads anywhere else is of another store, or was put back by hand. A walk that began within a
    record would take that for the end of the log, and cut what follows.
    """
    if physical_offset == file_span[0]:
        return True
    size, magic, own_offset = RECORD_BEGIN.unpack(begin.ljust(RECORD_BEGIN.size, b"\0"))
    if magic == MESSAGE_MAGIC_CODE and own_offset == physical_offset:
        return True
    if magic == BLANK_MAGIC_CODE and size == file_span[1] - physical_offset:
        return True
    return physical_offset in ends_before


def begins_too_late(begin_position: int, log_min_offset: int) -> bool:
    """Whether a queue has lost its first file, although the log has every record since its beginning.

    Power was lost when that file was new: it went, and a later one did not.
    """
    return begin_position > 0 and not log_min_offset


def _digest_of(queues: Iterable[QueueEnd]) -> str:
    return digest_of_ends((queue.topic, queue.queue_id, queue.max_offset) for queue in queues)
