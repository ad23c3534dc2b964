"""StoreCheckpoint: up to where log, queues and index are durable, in RocketMQ's three times and in our offsets.

What was stored up to a time, or lies before an offset, is durable; so both must be captured *before* the flush that
makes them true begins. Where recovery makes units again that were durable, they are set back before the first one is
written. After a crash recovery starts where log and queues are known to be durable; in a store without our offsets with
the last file that begins before the smallest of the times.

::

     0 +--------------------------+
       | physicMsgTimestamp i64   |  the log
     8 +--------------------------+
       | logicsMsgTimestamp i64   |  the queues
    16 +--------------------------+
       | indexMsgTimestamp i64    |  the index: end of the last full index file
    24 +--------------------------+
       | logFlushedOffset i64     |  ours: the log is durable up to here
    32 +--------------------------+
       | durableOffset i64        |  ours: the log, and the units of all records before here; where a record begins
    40 +--------------------------+
       | unitCount i64            |  ours: how many units all queues have of records before durableOffset
    48 +--------------------------+
       | check i64                |  ours: xor of the six numbers above and a constant
    56 +--------------------------+
       | zeros up to 4096         |

All of it lies in one sector, so a torn page leaves the old numbers or the new ones.

A time that cannot be one (negative, or later than 2248) counts as 0, for nothing being durable: a start then reads more
of the log than it need. Believed, a time in the far future would let it read too little.

Compatibility: ``StoreCheckpoint`` (4.9.8) reads and writes the first 24 bytes only, and believes any time. If a Java
broker has written other times since, the check does not match and our offsets count for nothing.
"""

from __future__ import annotations

import os.path
import struct
import threading
from collections.abc import Callable, Iterable
from functools import reduce
from operator import xor

import attrs

from rocketpy.errors import ShortageError, StoreError
from rocketpy.store.disk.interface import Disk

CHECKPOINT_SIZE = 4096
_TIMES = struct.Struct(">qqq")
CHECKPOINT_NUMBERS = struct.Struct(">qqqqqqq")
CHECK_START = 0x526F_636B_6574_5079  # the bytes "RocketPy"
TIME_MAX_MS = 1 << 43
"""In the year 2248: what is later is no time."""
TOLERANCE_MS = 3000
"""RocketMQ's margin: times in a checkpoint count for this much less."""
assert _TIMES.size == 24
assert CHECKPOINT_NUMBERS.size == 56


@attrs.frozen
class DurableEnds:
    """Durable ends by offset: unlike timestamps, no change of the clock makes them wrong."""

    log_flushed_offset: int
    """The log is durable up to here: a record before it that is not valid is damage, and no crash's doing."""

    durable_offset: int
    """Records before it are durable, and so are their units. A record begins here, or the log ends."""

    unit_count: int
    """Units of all queues for records before ``durable_offset``, expired ones included; never more than there are."""


@attrs.define(eq=False)
class StoreCheckpoint:
    """The times and ends, and the file that keeps them. Change them on the event loop; after recovery they grow."""

    _disk: Disk
    _path: str
    physic_msg_timestamp_ms: int = 0
    logics_msg_timestamp_ms: int = 0
    index_msg_timestamp_ms: int = 0
    ends: DurableEnds | None = None
    """None while nothing is known: a store without checkpoint, or a Java broker's."""
    removed_unit_count: int = attrs.field(default=0, init=False)
    """Units that went with deleted queues in this run: a caller that counted earlier subtracts what went since."""
    flushed: Callable[[], None] = attrs.field(default=lambda: None, init=False)
    """Called when a flush has made the file durable, in the same thread."""
    times_in_file: tuple[int, int, int] = attrs.field(default=(0, 0, 0), init=False)
    """As the file has them: of the log, the queues and the index."""
    _writing: threading.Lock = attrs.field(factory=threading.Lock, init=False)  # the last to write knows the most
    _is_named: bool = attrs.field(default=False, init=False)  # the file's entry in its directory is durable

    @property
    def fault(self) -> str:
        """The times in the file that cannot be any, for a line of the log; empty if all can."""
        names = ("physicMsgTimestamp", "logicsMsgTimestamp", "indexMsgTimestamp")
        times = zip(names, self.times_in_file, strict=True)
        wrong = [f"{name} {time_ms}" for name, time_ms in times if not is_time_or_none(time_ms)]
        return f"{self._path}: expected times from 0 to {TIME_MAX_MS}, found {', '.join(wrong)}" if wrong else ""

    @property
    def min_timestamp_ms(self) -> int:
        """Messages stored up to this time are durable in log and queues; less RocketMQ's margin of three seconds."""
        return max(0, min(self.physic_msg_timestamp_ms, self.logics_msg_timestamp_ms) - TOLERANCE_MS)

    @property
    def min_timestamp_index_ms(self) -> int:
        """Messages stored up to this time are durable in the index too."""
        return min(self.min_timestamp_ms, self.index_msg_timestamp_ms)

    def flush(self) -> bool:
        """Write times and ends, durable on return. Blocks: for a worker thread. StoreError is final.

        In a shortage (no descriptor, or a full disk that has no checkpoint yet) it returns False, and what was written
        before counts: recovery then walks more, and finds the same.
        """
        try:
            self._write()
        except ShortageError:
            return False
        self.flushed()
        return True

    def set_back(self, ends: DurableEnds) -> None:
        """Let the units of records from ``ends.durable_offset`` on count as not durable; durable on return. Blocks.

        The time of the queues becomes 0, for a Java broker that recovers the store next: it then walks the whole log.
        ShortageError if it cannot be written.
        """
        self.ends, self.logics_msg_timestamp_ms = ends, 0
        self._write()

    def _write(self) -> None:
        """Write times and ends, durable on return."""
        file = self._disk.open(self._path, create=True)
        try:
            if file.size() < CHECKPOINT_SIZE:
                file.reserve(0, CHECKPOINT_SIZE)
            with self._writing:
                file.write(0, self._content())
            file.sync()
            if not self._is_named:
                # Perhaps it is new; or an earlier run made it, and died before this.
                self._disk.sync_directory(os.path.dirname(self._path))
                self._is_named = True
        finally:
            file.close()

    def units_removed(self, count: int) -> None:
        """Count ``count`` fewer units as durable: their queues are about to be deleted. Blocks for one small write.

        The count is written before the queues are deleted. Otherwise recovery after a kill would miss their units, and
        scan the whole log for them. It is not synced: after a loss of power that scan may happen, with the same result.
        """
        self.removed_unit_count += count
        if self.ends is None:
            return
        self.ends = attrs.evolve(self.ends, unit_count=max(0, self.ends.unit_count - count))
        try:
            file = self._disk.open(self._path)
        except StoreError:  # there is none yet, or no descriptor
            return
        try:
            with self._writing:
                file.write(0, self._content())
        finally:
            file.close()

    def _content(self) -> bytes:
        times = self.physic_msg_timestamp_ms, self.logics_msg_timestamp_ms, self.index_msg_timestamp_ms
        ends = self.ends  # one look: the event loop may replace it while a worker thread is here
        if ends is None:
            return _TIMES.pack(*times).ljust(CHECKPOINT_NUMBERS.size, b"\0")
        numbers = (*times, ends.log_flushed_offset, ends.durable_offset, ends.unit_count)
        return CHECKPOINT_NUMBERS.pack(*numbers, _check_of(numbers))


def load_checkpoint(disk: Disk, path: str) -> StoreCheckpoint:
    """Return the checkpoint of a store. A missing or short file counts as zeros: nothing is known to be durable."""
    content = b""
    if disk.exists(path):
        file = disk.open(path, read_only=True)
        try:
            content = file.read(0, CHECKPOINT_NUMBERS.size)
        finally:
            file.close()
    *numbers, check = CHECKPOINT_NUMBERS.unpack(content.ljust(CHECKPOINT_NUMBERS.size, b"\0"))
    physic_ms, logics_ms, index_ms, *ends = numbers
    known = DurableEnds(*ends)
    is_ours = check == _check_of(numbers) and 0 <= known.durable_offset <= known.log_flushed_offset
    times = physic_ms, logics_ms, index_ms
    physic_ms, logics_ms, index_ms = (time_ms if is_time_or_none(time_ms) else 0 for time_ms in times)
    checkpoint = StoreCheckpoint(disk, path, physic_ms, logics_ms, index_ms, known if is_ours else None)
    checkpoint.times_in_file = times
    return checkpoint


def is_time_or_none(time_ms: int) -> bool:
    """Whether a number of a file can be a time in milliseconds since 1970, or 0 for none."""
    return 0 <= time_ms < TIME_MAX_MS


def _check_of(numbers: Iterable[int]) -> int:
    return reduce(xor, numbers, CHECK_START)
