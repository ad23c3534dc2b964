"""Plans a read of a few keys through the index: single records, and the parts of the log that the index does not cover.

Every place that comes from the index is checked here, while there is a choice: where a span of the index begins and
ends, and where its messages lie, a record must begin. If one does not, the span is not believed, and the log is read.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Sequence

import attrs
import numpy as np

from rocketpy.protocol.stored_message import MESSAGE_MAGIC_CODE, RECORD_SIZE_MAX
from rocketpy.spark.columns.layout import Int64s
from rocketpy.spark.files.byte_ranges import ByteRange
from rocketpy.spark.files.key_index import IndexedSpan, read_spans
from rocketpy.spark.files.log_files import CommitLogFile, OpenLogFiles
from rocketpy.spark.files.unit_ranges import FoundRecords
from rocketpy.spark.filters import MessageFilter
from rocketpy.store.index.hash import hash_index_key

PLACES_MAX = 100_000
"""Records of all keys; more are found by reading the log."""
PLACE_COST = 4096
"""Cost of a record that is read alone, beside its size: in bytes that are read one after the other."""

_HEAD = struct.Struct(">ii20xq")  # size, magic, physical offset


@attrs.frozen
class KeyPlan:
    """``cost`` is in bytes that are read one after the other."""

    found: list[FoundRecords]
    rest: list[ByteRange]
    cost: int


def plan_keys(root: str, wants: MessageFilter, ranges: Sequence[ByteRange], partition_bytes: int) -> KeyPlan | None:
    """Return a plan that reads of ``ranges`` what wanted keys of wanted topics need; None without help of the index."""
    if wants.topics is None or wants.keys is None or not ranges:
        return None
    hashes = [hash_index_key(topic, key) for topic in wants.topics for key in wants.keys]
    spans, index_bytes = read_spans(root, hashes)
    spans.sort(key=lambda span: span.start)
    with OpenLogFiles() as opened:
        log = _Log(ranges, opened)
        places = [(span, log.places(span)) for span in spans if log.begins(span.start) and log.begins(span.end)]
    believed = [(span, found) for span, found in places if found is not None]
    if not believed or sum(len(found) for _, found in believed) > PLACES_MAX:
        return None
    rest = _without(ranges, [span for span, _ in believed])
    rows = np.unique(np.concatenate([found for _, found in believed]), axis=0)  # ascending, and each once
    tasks = _tasks(rows, tuple(dict.fromkeys(each.file for each in ranges)), partition_bytes)
    cost = index_bytes + int(rows[:, 1].sum()) + PLACE_COST * len(rows) + sum(part.size for part in rest)
    return KeyPlan(tasks, rest, cost)


@attrs.define(eq=False)
class _Log:
    """The planned ranges of the log, for a look at single records."""

    ranges: Sequence[ByteRange]
    _opened: OpenLogFiles
    _starts: list[int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._starts = [each.file.base_offset + each.start for each in self.ranges]

    def begins(self, physical_offset: int) -> bool:
        """Return whether a range may be cut at a physical offset: a record begins there, or it is in no range."""
        part = self._part(physical_offset)
        return part is None or self._size_at(part, physical_offset) is not None

    def places(self, span: IndexedSpan) -> Int64s | None:
        """Return (physical offset, size) of a span's records that are in a range; None if one of them is none."""
        rows: list[tuple[int, int]] = []
        for offset in span.found.tolist()[: PLACES_MAX + 1]:
            part = self._part(offset)
            if part is not None:
                size = self._size_at(part, offset)
                if size is None:
                    return None
                rows.append((offset, size))
        return np.array(rows, np.int64).reshape(-1, 2)

    def _part(self, physical_offset: int) -> ByteRange | None:
        number = bisect_right(self._starts, physical_offset) - 1
        if number < 0:
            return None
        part = self.ranges[number]
        return part if physical_offset < part.file.base_offset + part.end else None

    def _size_at(self, part: ByteRange, physical_offset: int) -> int | None:
        position = physical_offset - part.file.base_offset
        head = os.pread(self._opened.descriptor(part.file), _HEAD.size, position)
        if len(head) < _HEAD.size:
            return None
        size, magic, own_offset = _HEAD.unpack(head)
        is_record = magic == MESSAGE_MAGIC_CODE and own_offset == physical_offset
        return int(size) if is_record and 0 < size <= min(RECORD_SIZE_MAX, part.end - position) else None


def _without(ranges: Sequence[ByteRange], spans: Sequence[IndexedSpan]) -> list[ByteRange]:
    """Return what of the ranges is in no span; spans ascend."""
    rest: list[ByteRange] = []
    for part in ranges:
        base, start = part.file.base_offset, part.start
        for span in spans:
            low, high = max(start, span.start - base), min(part.end, span.end - base)
            if low < high:
                rest.append(attrs.evolve(part, start=start, end=low))
                start = high
        rest.append(attrs.evolve(part, start=start))
    return [each for each in rest if each.size > 0]


def _tasks(rows: Int64s, files: tuple[CommitLogFile, ...], partition_bytes: int) -> list[FoundRecords]:
    """Share the records among tasks: a task has about ``partition_bytes``, each record counted with what it costs."""
    if not len(rows):
        return []
    costs = np.cumsum(rows[:, 1] + PLACE_COST)
    cuts = np.searchsorted(costs, np.arange(partition_bytes, costs[-1], partition_bytes), "right")
    pieces = np.split(rows, np.unique(cuts))
    return [FoundRecords(piece[:, 0].copy(), piece[:, 1].copy(), files) for piece in pieces if len(piece)]
