"""Fields of many records at once: unaligned, big-endian reads at computed positions, and where parts of records are.

The layout of a record is drawn in :mod:`rocketpy.protocol.stored_message`. An address takes 8 or 20 bytes by two bits
of sysFlag, so positions after it are computed for each record. Units of a ConsumeQueue and entries of the index have a
fixed size, and are NumPy's records.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from rocketpy.protocol.host import HOST_V4_SIZE, HOST_V6_SIZE
from rocketpy.protocol.stored_message import RECORD_HEAD, Buffer
from rocketpy.protocol.sysflag import BORN_HOST_V6_FLAG, STORE_HOST_V6_FLAG
from rocketpy.store.index.file import ENTRY_SIZE
from rocketpy.store.layout import UNIT_SIZE

UNIT_TYPE = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
ENTRY_TYPE = np.dtype([("key_hash", ">i4"), ("physical_offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])
"""``previous`` is the number of the next older entry."""
assert UNIT_TYPE.itemsize == UNIT_SIZE
assert ENTRY_TYPE.itemsize == ENTRY_SIZE

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MAGIC = 4
BODY_CRC = 8
QUEUE_ID = 12
FLAG = 16
QUEUE_OFFSET = 20
PHYSICAL_OFFSET = 28
SYS_FLAG = 36
BORN_TIMESTAMP = 40
BORN_HOST = 48
_STORE_TIMESTAMP = 56
_MORE = HOST_V6_SIZE - HOST_V4_SIZE
assert _MORE == 12


def read_int64(buffer: Buffer, positions: Int64s) -> Int64s:
    """Return the i64 at each position; the caller answers for positions being within the buffer."""
    return _read(buffer, positions, ">i8", 8).astype(np.int64)


def read_int32(buffer: Buffer, positions: Int64s) -> npt.NDArray[np.int32]:
    """Return the i32 at each position."""
    return _read(buffer, positions, ">i4", 4).astype(np.int32)


def read_int16(buffer: Buffer, positions: Int64s) -> npt.NDArray[np.int16]:
    """Return the i16 at each position."""
    return _read(buffer, positions, ">i2", 2).astype(np.int16)


def read_uint8(buffer: Buffer, positions: Int64s) -> npt.NDArray[np.uint8]:
    """Return the byte at each position."""
    return _read(buffer, positions, ">u1", 1).astype(np.uint8)


def _read(buffer: Buffer, positions: Int64s, dtype: str, size: int) -> npt.NDArray[Any]:
    """Index an array with one element per byte of the buffer, each overlapping the next ones."""
    count = max(len(buffer) - size + 1, 0)
    return np.ndarray((count,), dtype, buffer if count else b"", strides=(1,))[positions]


@attrs.frozen(eq=False)
class Layout:
    """Positions of the parts of each record in the buffer."""

    starts: Int64s
    ends: Int64s
    store_timestamps: Int64s
    """Store host and what follows are counted from here."""
    reconsume_times: Int64s
    body_starts: Int64s
    body_ends: Int64s
    topic_starts: Int64s
    topic_ends: Int64s
    properties_starts: Int64s

    def select(self, rows: Any) -> Layout:
        """Return the layout of some of the records: an array of their numbers, a slice or a mask."""
        return Layout(*(getattr(self, field.name)[rows] for field in attrs.fields(Layout)))


def head_positions(buffer: Buffer, starts: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return where storeTimestamp, reconsumeTimes and the body are, for records with at least their sysFlag."""
    sys_flags = read_int32(buffer, starts + SYS_FLAG)
    if not (sys_flags & (BORN_HOST_V6_FLAG | STORE_HOST_V6_FLAG)).any():
        times = starts + _STORE_TIMESTAMP
        return times, starts + (_STORE_TIMESTAMP + 16), starts + RECORD_HEAD.size
    times = starts + np.where(sys_flags & BORN_HOST_V6_FLAG, _STORE_TIMESTAMP + _MORE, _STORE_TIMESTAMP)
    after_host = times + np.where(sys_flags & STORE_HOST_V6_FLAG, 16 + _MORE, 16)
    return times, after_host, after_host + 16


def layout_of(buffer: Buffer, starts: Int64s, sizes: Int64s) -> Layout:
    """Return the layout of records that are known to be consistent."""
    times, reconsume_times, body_starts = head_positions(buffer, starts)
    body_ends = body_starts + read_int32(buffer, body_starts - 4)
    topic_starts = body_ends + 1
    topic_ends = topic_starts + read_uint8(buffer, body_ends)
    return Layout(
        starts,
        starts + sizes,
        times,
        reconsume_times,
        body_starts,
        body_ends,
        topic_starts,
        topic_ends,
        topic_ends + 2,
    )


def checked_layout(buffer: Buffer, starts: Int64s, sizes: Int64s) -> tuple[Layout, Bools]:
    """Return the layout of records of which nothing is known but their magic, and which of them are consistent.

    Consistent: the lengths add up to the size, as ``check_message`` demands. Each record is at least
    ``RECORD_SIZE_MIN`` bytes long and lies within the buffer. Parts of an inconsistent record lie within the buffer
    too, and say nothing.
    """
    ends = starts + sizes
    last = len(buffer) - 4
    times, reconsume_times, body_starts = head_positions(buffer, starts)
    body_sizes = read_int32(buffer, np.minimum(body_starts - 4, last))
    body_ends = body_starts + body_sizes
    consistent = (body_sizes >= 0) & (body_ends + 3 <= ends)
    body_ends = np.where(consistent, body_ends, 0)
    topic_sizes = read_uint8(buffer, body_ends)
    topic_starts = body_ends + 1
    topic_ends = topic_starts + topic_sizes
    consistent &= (topic_sizes < 128) & (topic_ends + 2 <= ends)
    topic_ends = np.where(consistent, topic_ends, 0)
    consistent &= topic_ends + 2 + read_int16(buffer, topic_ends) == ends
    layout = Layout(
        starts, ends, times, reconsume_times, body_starts, body_ends, topic_starts, topic_ends, topic_ends + 2
    )
    return layout, consistent
