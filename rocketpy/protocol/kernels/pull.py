"""The units of a pull, those with a tag, and the records that they name, in one read of the log.

A unit of a queue, and the fields in which its record must agree with it, big-endian:

    | physical offset i64 | size i32 | tags code i64 |
    | 0                   | 8        | 12            |

    | total size i32 | magic i32 | ... | physical offset i64 | ...
    | 0              | 4         |     | 28                  |

Units that are not in the order of the log, far apart, or too small for a record are declined: the general path finds
out what is wrong with them, and reads records that lie apart one by one.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be
from mypy_extensions import i64

_MAGIC: Final = -626843481  # 0xDAA320A7, of a record
_UNIT_SIZE: Final = 20
_HEAD_SIZE: Final = 36
_OFFSET_MAX: Final = 1 << 62
"""A unit beyond it is damaged; below it no sum here overflows."""


def span_of(units: bytes, gap_max: int) -> tuple[int, int, int, int] | None:
    """Return where the records of units begin, how many bytes they span and have, and the size of the last one.

    None unless each begins at the end of the one before, or at most ``gap_max`` bytes after it.
    """
    end = i64(len(units))
    if end < _UNIT_SIZE:
        return None
    gap_most = i64(gap_max)
    begin = read_i64_be(units, 0)
    if begin < 0 or begin > _OFFSET_MAX:
        return None
    record_end = begin
    size: i64 = 0
    records_size: i64 = 0
    at: i64 = 0
    while at + _UNIT_SIZE <= end:
        gap = read_i64_be(units, at) - record_end
        size = i64(read_i32_be(units, at + 8))
        if gap < 0 or gap > gap_most or size < _HEAD_SIZE:
            return None
        record_end += gap + size
        records_size += size
        at += _UNIT_SIZE
    return begin, record_end - begin, records_size, size


def tagged_units(units: bytes, codes: bytes, count_max: int, address_max: int) -> tuple[bytes, int, int, int]:
    """Return the units with one of some tags codes, up to ``count_max``.

    And of all units that were looked at for them the number, the least physical offset and the largest size.
    ``codes`` are i64, big-endian. A code up to ``address_max`` is the address of an extension that is lost: the unit
    is wanted, as its tags are unknown.
    """
    found = BytesWriter()
    end, codes_end = i64(len(units)), i64(len(codes))
    left, lost = i64(count_max), i64(address_max)
    least_offset: i64 = _OFFSET_MAX
    largest_size: i64 = 0
    at: i64 = 0
    run_at: i64 = 0  # the units from here on are wanted, and not written yet
    while at + _UNIT_SIZE <= end and left > 0:
        offset, size, code = read_i64_be(units, at), i64(read_i32_be(units, at + 8)), read_i64_be(units, at + 12)
        if offset < least_offset:
            least_offset = offset
        if size > largest_size:
            largest_size = size
        is_wanted = code <= lost
        code_at: i64 = 0
        while code_at + 8 <= codes_end and not is_wanted:
            is_wanted = read_i64_be(codes, code_at) == code
            code_at += 8
        if is_wanted:
            left -= 1
        else:
            if run_at < at:
                found.write(units[run_at:at])
            run_at = at + _UNIT_SIZE
        at += _UNIT_SIZE
    if run_at == 0 and at == end:
        return units, int(at // _UNIT_SIZE), int(least_offset), int(largest_size)
    if run_at < at:
        found.write(units[run_at:at])
    return found.getvalue(), int(at // _UNIT_SIZE), int(least_offset), int(largest_size)


def are_records(units: bytes, content: bytes, begin: int) -> bool:
    """Return whether the bytes of the log from an offset on hold the records that units name."""
    first = i64(begin)
    end = i64(len(units))
    content_size = i64(len(content))
    at: i64 = 0
    while at + _UNIT_SIZE <= end:
        physical_offset = read_i64_be(units, at)
        size = read_i32_be(units, at + 8)
        position = physical_offset - first
        if physical_offset < first or position < 0 or i64(size) < _HEAD_SIZE or position > content_size - i64(size):
            return False
        if (
            read_i32_be(content, position) != size
            or read_i32_be(content, position + 4) != _MAGIC
            or read_i64_be(content, position + 28) != physical_offset
        ):
            return False
        at += _UNIT_SIZE
    return True


def records_of(units: bytes, content: bytes, begin: int, verdicts: bytes) -> bytes:
    """Return the records back to back for which the verdict is 1; :func:`are_records` has found all of them."""
    found = BytesWriter()
    first = i64(begin)
    number: i64 = 0
    count = i64(len(verdicts))
    while number < count:
        if verdicts[number] == 1:
            position = read_i64_be(units, number * _UNIT_SIZE) - first
            found.write(content[position : position + i64(read_i32_be(units, number * _UNIT_SIZE + 8))])
        number += 1
    return found.getvalue()
