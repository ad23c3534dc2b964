"""Parts of a buffer as Arrow arrays, without a Python object for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rocketpy.protocol.stored_message import Buffer
from rocketpy.spark.columns.layout import Bools, Int64s

Bytes = npt.NDArray[np.uint8]


def binary_parts(buffer: Buffer | Bytes, starts: Int64s, ends: Int64s) -> pa.BinaryArray:
    """Return the bytes from each start to its end, copied into one array; parts are ascending and do not overlap.

    The buffer as an array with the offsets start, end, start, end, ... has the parts as every other element, and what
    is between them as the others. ``take`` copies the parts in C++, one memcpy for each.
    """
    if not len(starts):
        return pa.nulls(0, pa.binary())
    offsets = np.empty(2 * len(starts), np.int32)
    offsets[0::2] = starts
    offsets[1::2] = ends
    assert (offsets[1:] >= offsets[:-1]).all(), "parts overlap"
    between = pa.BinaryArray.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(buffer)]
    )
    return between.take(array_of(np.arange(0, len(offsets) - 1, 2)))


def bytes_of(array: pa.BinaryArray) -> Bytes:
    """Return the bytes of all elements, back to back; of an array as :func:`binary_parts` returns it."""
    offsets = offsets_of(array)
    content = array.buffers()[2]
    size = int(offsets[-1])
    return np.frombuffer(content, np.uint8, size) if size else np.empty(0, np.uint8)


def offsets_of(array: pa.BinaryArray) -> npt.NDArray[np.int32]:
    """Return where each element begins in :func:`bytes_of`, and at last where the last one ends."""
    assert array.offset == 0, array.offset
    offsets = array.buffers()[1]
    return np.frombuffer(offsets, np.int32, len(array) + 1) if len(array) else np.zeros(1, np.int32)


def text_of(array: pa.BinaryArray) -> pa.StringArray:
    """Return bytes as text. Malformed UTF-8 is replaced, as everywhere in records; one such element slows down all."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [each if each is None else each.decode("utf-8", "replace") for each in array.to_pylist()]
        return pa.array(texts, pa.string())


def spread(array: pa.Array, rows: npt.NDArray[np.intp] | Bools, count: int) -> pa.Array:
    """Return an array of ``count`` rows with these elements at ``rows``, and null elsewhere."""
    places = np.zeros(count, np.int64)
    places[rows] = np.arange(len(array))
    is_missing = np.ones(count, np.bool_)
    is_missing[rows] = False
    return array.take(array_of(places, is_missing=is_missing))


def replaced(array: pa.Array, rows: npt.NDArray[np.intp], others: pa.Array) -> pa.Array:
    """Return an array with the elements at ``rows`` replaced by ``others``."""
    places = np.arange(len(array))
    places[rows] = len(array) + np.arange(len(rows))
    return pa.concat_arrays([array, others]).take(array_of(places))


def array_of(
    values: npt.NDArray[Any], arrow_type: pa.DataType | None = None, *, is_missing: Bools | None = None
) -> pa.Array:
    """Return numbers as an array of a type that is as wide, by default their own, with null where one is missing.

    ``pa.array`` and ``to_numpy`` import pandas where it is installed. A worker of Spark's would pay for that when it
    starts, and again after each task, when it looks for garbage.
    """
    validity = None if is_missing is None else _bits(~is_missing)
    arrow_type = pa.from_numpy_dtype(values.dtype) if arrow_type is None else arrow_type
    assert arrow_type.bit_width == 8 * values.dtype.itemsize, (arrow_type, values.dtype)
    return pa.Array.from_buffers(arrow_type, len(values), [validity, pa.py_buffer(np.ascontiguousarray(values))])


def strings_of(values: Sequence[str]) -> pa.StringArray:
    """Return a few strings as an array."""
    encoded = [value.encode() for value in values]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded)))


def booleans(values: Bools) -> pa.BooleanArray:
    """Return booleans as an array."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])


def values_of(array: pa.Array) -> npt.NDArray[Any]:
    """Return the numbers or booleans of an array without nulls."""
    assert not array.null_count, array.null_count
    dtype = np.dtype(array.type.to_pandas_dtype())
    if not len(array):
        return np.empty(0, dtype)
    content, end = array.buffers()[1], array.offset + len(array)
    if array.type == pa.bool_():
        bits = np.unpackbits(np.frombuffer(content, np.uint8), bitorder="little")
        return bits[array.offset : end].view(np.bool_)
    return np.frombuffer(content, dtype, end)[array.offset :]


def _bits(values: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))
