"""Java's ``String.hashCode`` of whole Arrow columns: tag codes of ConsumeQueue units, hashes of index keys.

The rows are sorted by length, longest first, and hashed side by side: step j multiplies the hashes of all rows that
have a character j. So a batch costs as many steps as its longest row has characters, whatever its number of rows. Rows
that are not ASCII, where Java counts UTF-16 units, and very long ones take the way of single strings.

Nothing here imports Spark: executors call it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rocketpy.protocol.java_hash import java_hash

_SIDE_BY_SIDE_MAX = 1024
_INT_MIN = np.int32(-(2**31))


def java_hashes(strings: pa.StringArray) -> npt.NDArray[np.int32]:
    """Return ``hashCode()`` of each string; 0, that of the empty string, for null."""
    strings = pc.fill_null(strings, "")
    count = len(strings)
    if not count:
        return np.zeros(0, np.int32)
    _, positions, content = strings.buffers()
    bounds = np.frombuffer(positions, np.int32)[strings.offset : strings.offset + count + 1].astype(np.int64)
    units = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    lengths = np.diff(bounds)
    hashes = np.zeros(count, np.uint32)
    alone = (lengths > _SIDE_BY_SIDE_MAX) | _has_wide(units, bounds)
    _hash_side_by_side(hashes, units, bounds[:-1], np.where(alone, 0, lengths))
    for row in np.flatnonzero(alone):
        hashes[row] = java_hash(strings[int(row)].as_py()) & 0xFFFF_FFFF
    return hashes.view(np.int32)


def tags_codes(tags: pa.StringArray) -> npt.NDArray[np.int64]:
    """Return the tag code of each TAGS property as a ConsumeQueue unit has it: 0 without tags."""
    different = pc.dictionary_encode(tags)  # tags are few
    codes = np.append(java_hashes(different.dictionary), np.int32(0)).astype(np.int64)
    indices = pc.fill_null(different.indices, len(different.dictionary)).to_numpy(zero_copy_only=False)
    row_codes: npt.NDArray[np.int64] = codes[indices]
    return row_codes


def index_key_hashes(topics: pa.StringArray, keys: pa.StringArray) -> npt.NDArray[np.int32]:
    """Return the IndexFile hash of each ``topic#key``: never negative, and 0 where Java's ``abs`` overflows."""
    hashes = java_hashes(pc.binary_join_element_wise(topics, keys, "#"))
    return np.abs(np.where(hashes == _INT_MIN, np.int32(0), hashes))


def _has_wide(units: npt.NDArray[np.uint8], bounds: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which rows have a byte that is not ASCII."""
    wide = units[bounds[0] : bounds[-1]] >= 0x80
    if not wide.any():
        return np.zeros(len(bounds) - 1, np.bool_)
    before = np.concatenate([[0], np.cumsum(wide)])[bounds - bounds[0]]
    has_wide: npt.NDArray[np.bool_] = np.diff(before) > 0
    return has_wide


def _hash_side_by_side(
    hashes: npt.NDArray[np.uint32],
    units: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
) -> None:
    order = np.argsort(-lengths, kind="stable")
    sorted_lengths, sorted_starts = lengths[order], starts[order]
    sorted_hashes = np.zeros(len(order), np.uint32)
    active = len(order)
    for position in range(int(sorted_lengths[0])):
        active = int(np.searchsorted(-sorted_lengths[:active], -position, side="left"))
        part = sorted_hashes[:active]
        part *= np.uint32(31)
        part += units[sorted_starts[:active] + position]
    hashes[order] = sorted_hashes
