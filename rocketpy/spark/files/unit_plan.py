"""Plans a read through ConsumeQueues: which units, and from where on the log must be read itself.

The queues hold every record up to a certain physical offset. After a clean shutdown that is the end of the last record
that any queue knows: dispatch goes through the log in order. While a broker runs, and after it was killed, queues may
have lost units that were not on the disk, each queue others; what the checkpoint says was flushed is there. So then the
limit is the last record that is known to be stored before that time.

Units show what a consumer could be given. Records of a topic that was deleted are in the log only.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left
from collections.abc import Sequence

import attrs

from rocketpy.spark.files.log_files import CommitLogFile, open_to_read, read_timestamp_ms
from rocketpy.spark.files.plan import CLOCK_STEP_MS_MAX, CUT_QUEUES_MAX
from rocketpy.spark.files.queue_units import KnownRecords, OpenQueue, QueueFiles
from rocketpy.spark.files.unit_ranges import UnitRange
from rocketpy.spark.filters import MessageFilter
from rocketpy.store.layout import ABORT_FILE, CHECKPOINT_FILE
from rocketpy.store.recovery.checkpoint import is_time_or_none

_CHECKPOINT = struct.Struct(">qq")  # times up to which the log and the queues are on disk
_CHECKPOINT_MARGIN_MS = 3000
"""As in recovery: RocketMQ subtracts as much from the times of its checkpoint."""
_SAMPLES = 9
_NO_END = 1 << 63


@attrs.frozen(kw_only=True)
class UnitPlanner:
    """Plans for wanted topics: about ``partition_bytes`` of records in a range."""

    queues: Sequence[QueueFiles]
    wants: MessageFilter
    partition_bytes: int

    def plan(self, files: Sequence[CommitLogFile], limit: int) -> tuple[list[tuple[UnitRange, ...]], int]:
        """Return units of wanted records before a physical offset, and about how many bytes these records have.

        A large queue is several ranges, and many small ones are read by one task.
        """
        topics, queue_ids = self.wants.topics, self.wants.queue_ids
        assert topics is not None, "without topics every record is wanted"
        in_files = tuple(files)
        tasks: list[tuple[UnitRange, ...]] = []
        task: list[UnitRange] = []
        bytes_wanted = bytes_before = 0
        for queue in self.queues:
            if queue.topic not in topics or (queue_ids is not None and queue.queue_id not in queue_ids):
                continue
            with OpenQueue(queue) as units:
                low, high = self._wanted_units(units, files, limit)
                size = _mean_size(units, low, high)
            step = max(1, self.partition_bytes // max(1, size))
            for start in range(low, high, step):
                end = min(start + step, high)
                task.append(UnitRange(queue, start, end, in_files, limit))
                bytes_wanted += (end - start) * size
                if bytes_wanted - bytes_before >= self.partition_bytes:
                    tasks.append(tuple(task))
                    task, bytes_before = [], bytes_wanted
        return [*tasks, tuple(task)] if task else tasks, bytes_wanted

    def _wanted_units(self, units: OpenQueue, files: Sequence[CommitLogFile], limit: int) -> tuple[int, int]:
        offsets, places = self.wants.physical_offsets, self.wants.queue_offsets
        low = units.first_from(max(files[0].base_offset, offsets.start or 0))
        high = units.first_from(limit if offsets.end is None else min(limit, offsets.end))
        low = max(low, places.start or 0)
        high = high if places.end is None else min(high, places.end)
        times = self.wants.store_timestamps_ms
        if times.start is not None:
            low = max(low, _first_stored_from(units, files, low, high, times.start - CLOCK_STEP_MS_MAX))
        if times.end is not None:
            high = min(high, _first_stored_from(units, files, low, high, times.end + CLOCK_STEP_MS_MAX))
        return low, max(low, high)


def dispatched_to(root: str, files: Sequence[CommitLogFile], queues: Sequence[QueueFiles]) -> int:
    """Return the physical offset up to which the queues of a store hold every record; 0 if nothing says so."""
    known = KnownRecords(queues)
    if os.path.exists(os.path.join(root, ABORT_FILE)):
        return _flushed_to(_queues_flushed_ms(root), files, queues)
    for file in reversed(files):
        position = known.last_record(file)
        if position is not None:
            return file.base_offset + position + _size_at(file, position)
    return 0


def _flushed_to(timestamp_ms: int, files: Sequence[CommitLogFile], queues: Sequence[QueueFiles]) -> int:
    """Return the end of the last record that is known to be stored at a time or before; a few queues must know it."""
    latest = 0
    for queue in sorted(queues, key=lambda each: each.first - each.limit)[:CUT_QUEUES_MAX]:
        with OpenQueue(queue) as units:
            low, high = units.first_from(files[0].base_offset), units.first_from(files[-1].end_offset)
            after = _first_stored_from(units, files, low, high, timestamp_ms + 1)
            if after > low and (at := _file_at(files, units.unit(after - 1)[0])) is not None:
                offset, size = units.unit(after - 1)
                if read_timestamp_ms(at, offset - at.base_offset) is not None:
                    latest = max(latest, offset + size)
    return latest


def _queues_flushed_ms(root: str) -> int:
    try:
        with open(os.path.join(root, CHECKPOINT_FILE), "rb") as file:
            _, logics = _CHECKPOINT.unpack(file.read(_CHECKPOINT.size))
    except (OSError, struct.error):
        return 0
    # As in recovery, a time that cannot be one counts as none: the log itself is read then.
    return int(logics) - _CHECKPOINT_MARGIN_MS if is_time_or_none(logics) else 0


def _first_stored_from(units: OpenQueue, files: Sequence[CommitLogFile], low: int, high: int, timestamp_ms: int) -> int:
    """Return the first unit whose record was stored at a time or later; those without a record count as later."""

    def stored(queue_offset: int) -> int:
        physical_offset, _ = units.unit(queue_offset)
        file = _file_at(files, physical_offset)
        found = None if file is None else read_timestamp_ms(file, physical_offset - file.base_offset)
        return _NO_END if found is None else found

    return low + bisect_left(range(low, high), timestamp_ms, key=stored) if low < high else low


def _file_at(files: Sequence[CommitLogFile], physical_offset: int) -> CommitLogFile | None:
    number = bisect_left(files, physical_offset + 1, key=lambda file: file.base_offset) - 1
    return files[number] if number >= 0 and physical_offset < files[number].end_offset else None


def _mean_size(units: OpenQueue, low: int, high: int) -> int:
    """Return the mean size of the records of some units, by a few of them."""
    if low >= high:
        return 0
    sampled = range(low, high, max(1, (high - low) // _SAMPLES))
    return sum(units.unit(at)[1] for at in sampled) // len(sampled)


def _size_at(file: CommitLogFile, position: int) -> int:
    descriptor = open_to_read(file.path)
    try:
        return int.from_bytes(os.pread(descriptor, 4, position), "big")
    finally:
        os.close(descriptor)
