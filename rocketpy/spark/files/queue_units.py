"""ConsumeQueue files of a store, read without a broker.

A unit is 20 bytes: physical offset i64, size i32, tags code i64. The files of a queue may be preallocated; zeros follow
the last unit. Physical offsets ascend, so a queue is searched by halving.

Rule: a unit is a hint, never a proof. Queues of a crashed store may be ahead of its log, and a restored one may be of
another time. So a position counts as the begin of a record only if a whole record lies there that says of itself what
the queue says of it: topic, queue, queue offset, size, physical offset, and its body has its checksum. Units of light
queues point at records of other topics; they are no use for that.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from heapq import heapify, heapreplace
from typing import TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from rocketpy.protocol.stored_message import RECORD_SIZE_MAX, RecordStatus, check_message
from rocketpy.spark.columns.layout import UNIT_TYPE
from rocketpy.spark.files.log_files import CommitLogFile, open_to_read
from rocketpy.store.layout import PRE_BLANK_SIZE, UNIT, UNIT_SIZE

Unit: TypeAlias = tuple[int, int]
"""Physical offset and size of a record."""
NO_UNIT: Unit = (1 << 63, 0)
"""Greater than every unit."""
_TRIES = 16
"""Units looked at before a queue is given up, where its units do not fit the log."""


@attrs.frozen
class QueueFiles:
    """One queue: its files as (queue offset of the first unit, number of units, path), in order."""

    topic: str
    queue_id: int
    files: tuple[tuple[int, int, str], ...]

    @property
    def first(self) -> int:
        """Queue offset of the first unit on disk, which may be a filler."""
        return self.files[0][0]

    @property
    def limit(self) -> int:
        """Queue offset after the last unit that the files have room for."""
        return self.files[-1][0] + self.files[-1][1]


def list_queues(directory: str) -> list[QueueFiles]:
    """Return the queues below a ``consumequeue`` directory that have a file; none if there is no such directory."""
    found: list[QueueFiles] = []
    for topic in _names(directory):
        for queue_id in _names(os.path.join(directory, topic)):
            if not queue_id.isdigit():
                continue
            path = os.path.join(directory, topic, queue_id)
            files = [
                (int(name) // UNIT_SIZE, os.path.getsize(os.path.join(path, name)) // UNIT_SIZE, path + "/" + name)
                for name in _names(path)
                if len(name) == 20 and name.isdigit()
            ]
            files = [file for file in files if file[1]]
            if files:
                found.append(QueueFiles(topic, int(queue_id), tuple(files)))
    return found


class OpenQueue:
    """Single units of a queue. A context manager: it holds the descriptor of one file."""

    def __init__(self, queue: QueueFiles) -> None:
        self.queue = queue
        self._path = ""
        self._descriptor = -1

    def __enter__(self) -> OpenQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def unit(self, queue_offset: int) -> Unit:
        """Return physical offset and size of a unit; where there is none, ``NO_UNIT``."""
        at = bisect_left(self.queue.files, queue_offset + 1, key=lambda file: file[0]) - 1
        if at < 0:
            return NO_UNIT
        first, count, path = self.queue.files[at]
        if queue_offset >= first + count:
            return NO_UNIT
        if path != self._path:
            self._close()
            self._descriptor, self._path = open_to_read(path), path
        content = os.pread(self._descriptor, UNIT_SIZE, (queue_offset - first) * UNIT_SIZE)
        physical_offset, size, _ = UNIT.unpack(content.ljust(UNIT_SIZE, b"\0"))
        return (physical_offset, size) if size > 0 else NO_UNIT

    def first_from(self, physical_offset: int) -> int:
        """Return the queue offset of the first unit with at least this physical offset, or that after the last unit."""
        offsets = range(self.queue.first, self.queue.limit)
        return self.queue.first + bisect_left(offsets, physical_offset, key=lambda at: self.unit(at)[0])

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@attrs.frozen
class KnownRecords:
    """Positions where queues have records: each checked against the record itself."""

    queues: Sequence[QueueFiles]

    def next_record(self, file: CommitLogFile, position: int) -> int | None:
        """Return the position of the first known record of a file from a position on; None without one."""
        file_end = file.base_offset + file.size
        candidates: list[tuple[int, int, int]] = []  # physical offset, number of the queue, queue offset
        for number, queue in enumerate(self.queues):
            with OpenQueue(queue) as units:
                queue_offset = units.first_from(file.base_offset + position)
                candidates.append((units.unit(queue_offset)[0], number, queue_offset))
        heapify(candidates)
        for _ in range(_TRIES + len(candidates)):
            if not candidates or candidates[0][0] >= file_end:
                return None
            found, number, queue_offset = candidates[0]
            with OpenQueue(self.queues[number]) as units:
                if is_record_of(file, units.unit(queue_offset), units.queue, queue_offset):
                    return found - file.base_offset
                heapreplace(candidates, (units.unit(queue_offset + 1)[0], number, queue_offset + 1))
        return None

    def last_record(self, file: CommitLogFile) -> int | None:
        """Return the position of the last known record of a file; None without one."""
        latest = max((self._last_of(queue, file) for queue in self.queues), default=-1)
        return latest if latest >= 0 else None

    def _last_of(self, queue: QueueFiles, file: CommitLogFile) -> int:
        with OpenQueue(queue) as units:
            end = units.first_from(file.base_offset + file.size)
            for queue_offset in range(end - 1, max(end - _TRIES, queue.first) - 1, -1):
                found, _ = unit = units.unit(queue_offset)
                if found < file.base_offset:
                    break
                if is_record_of(file, unit, queue, queue_offset):
                    return found - file.base_offset
        return -1


def is_record_of(file: CommitLogFile, unit: Unit, queue: QueueFiles, queue_offset: int) -> bool:
    """Return whether a whole record lies where a unit says, and says the same of itself."""
    physical_offset, size = unit
    position = physical_offset - file.base_offset
    if position < 0 or not 0 < size <= min(file.size - position, RECORD_SIZE_MAX):
        return False
    descriptor = open_to_read(file.path)
    try:
        record = os.pread(descriptor, size, position)
    finally:
        os.close(descriptor)
    checked = check_message(record, 0, len(record))
    return (
        checked.status is RecordStatus.MESSAGE
        and (checked.size, checked.physical_offset) == (size, physical_offset)
        and (checked.topic, checked.queue_id, checked.queue_offset) == (queue.topic, queue.queue_id, queue_offset)
    )


def read_units(queue: QueueFiles, start: int, end: int) -> Iterator[npt.NDArray[np.void]]:
    """Yield the units of a queue from one queue offset to another, a file at a time, without fillers."""
    for first, count, path in queue.files:
        low, high = max(start, first), min(end, first + count)
        if low >= high:
            continue
        descriptor = open_to_read(path)
        try:
            content = os.pread(descriptor, (high - low) * UNIT_SIZE, (low - first) * UNIT_SIZE)
        finally:
            os.close(descriptor)
        units = np.frombuffer(content[: len(content) // UNIT_SIZE * UNIT_SIZE], UNIT_TYPE)
        yield units[(units["size"] > 0) & (units["size"] != PRE_BLANK_SIZE)]


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []
