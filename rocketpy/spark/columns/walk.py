"""Steps from record to record by their sizes, in many places of a buffer at a time.

A record's size is the only way to the next one, so a plain walk costs Python steps for each record. Here the buffer is
cut into lanes, which begin where the magic number of a record seems to be, and all lanes take a step together::

    |r r r r r r|r r r r r|r r r r r r r|r r r r r|
     ^ lane 0    ^ lane 1  ^ lane 2      ^ lane 3

Where the lanes begin is a guess: a body may hold the magic number. So what they found only counts from the first record
on, as far as each record ends where the next one found begins, which is what steps from size to size would have found.
From there on the walk is a plain one.
"""

from __future__ import annotations

import struct

import numpy as np

from rocketpy.protocol.stored_message import MESSAGE_MAGIC_CODE, RECORD_SIZE_MAX, RECORD_SIZE_MIN, Buffer
from rocketpy.spark.columns.layout import MAGIC, Int64s, read_int32

_SIZE = struct.Struct(">i")
_MAGIC_BYTES = struct.pack(">i", MESSAGE_MAGIC_CODE)
_STEPS = 32
"""Records in a lane, about. A step of all lanes costs as much as the search for the begin of 20 of them."""
_LANES_MIN = 32
"""Fewer lanes are walked one by one: a step of all lanes together costs as much as this many plain steps."""


def walk(buffer: Buffer, position: int, limit: int) -> tuple[Int64s, int]:
    """Return the starts of the whole records from a position on that begin before ``limit``, and where that ended.

    Of a record only its size is looked at here: each further look would cost as much as a column of the result.
    """
    last = min(limit, len(buffer) - RECORD_SIZE_MIN + 1)
    found, position = walk_lanes(buffer, position, last) if isinstance(buffer, bytes) else (None, position)
    starts: list[int] = []
    add, unpack, whole_end = starts.append, _SIZE.unpack_from, len(buffer)
    while position < last:
        (size,) = unpack(buffer, position)
        if not RECORD_SIZE_MIN <= size <= RECORD_SIZE_MAX or position + size > whole_end:
            break
        add(position)
        position += size
    rest = np.array(starts, np.int64)
    return (rest if found is None else np.concatenate((found, rest))), position


def walk_lanes(buffer: bytes, position: int, last: int) -> tuple[Int64s | None, int]:
    """Return the starts of records from a position on as far as lanes found them, and where the last one ends.

    None for a buffer that is not worth lanes.
    """
    if last - position < _STEPS * _LANES_MIN * RECORD_SIZE_MIN:
        return None, position
    (size,) = _SIZE.unpack_from(buffer, position)
    lane_size = _STEPS * max(size, RECORD_SIZE_MIN)
    if lane_size > (last - position) // _LANES_MIN:
        return None, position
    starts = np.sort(_guess(buffer, _lane_begins(buffer, position, last, lane_size), last))
    sizes = read_int32(buffer, starts).astype(np.int64)
    ends = starts + sizes
    is_whole = (sizes >= RECORD_SIZE_MIN) & (sizes <= RECORD_SIZE_MAX) & (ends <= len(buffer))
    is_whole[1:] &= ends[:-1] == starts[1:]
    count = len(starts) if is_whole.all() else int(is_whole.argmin())
    return starts[:count], int(ends[count - 1]) if count else position


def _lane_begins(buffer: bytes, position: int, last: int, lane_size: int) -> list[int]:
    """Return the position and, about a lane apart, where records seem to begin."""
    begins = [position]
    for target in range(position + lane_size, last, lane_size):
        found = buffer.find(_MAGIC_BYTES, target + MAGIC, min(target + lane_size, last) + MAGIC) - MAGIC
        if found > begins[-1]:
            begins.append(found)
    return begins


def _guess(buffer: bytes, begins: list[int], last: int) -> Int64s:
    """Return where each lane steps, from its begin to that of the next one. Positions are all different."""
    found: list[Int64s] = []
    positions, ends = np.array(begins), np.array([*begins[1:], last])
    while len(positions) >= _LANES_MIN:
        found.append(positions)
        sizes = read_int32(buffer, positions)
        following = positions + sizes
        goes_on = (sizes >= RECORD_SIZE_MIN) & (following < ends)
        positions, ends = following[goes_on], ends[goes_on]
    steps: list[int] = []
    for position, end in zip(positions.tolist(), ends.tolist(), strict=True):
        while position < end:
            steps.append(position)
            (size,) = _SIZE.unpack_from(buffer, position)
            position += size if size >= RECORD_SIZE_MIN else end
    return np.concatenate([*found, np.array(steps, np.int64)])
