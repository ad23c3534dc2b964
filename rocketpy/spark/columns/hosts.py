"""Addresses and the broker's message ids of many records."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rocketpy.protocol.host import HOST_V4_SIZE, HOST_V6_SIZE, decode_host
from rocketpy.protocol.stored_message import Buffer
from rocketpy.spark.columns.arrow_parts import array_of, binary_parts, replaced, strings_of
from rocketpy.spark.columns.layout import Int64s, read_int64

_HEX = np.frombuffer("".join(f"{byte:02X}" for byte in range(256)).encode(), np.uint16)
"""The two digits of each byte."""
_OFFSET_SIZE = 8


def host_column(buffer: Buffer, starts: Int64s, sizes: Int64s) -> pa.StringArray:
    """Return addresses of 8 or 20 bytes as text. A log knows few of them, so each distinct one is decoded once."""
    if (sizes == HOST_V4_SIZE).all():
        encoded = array_of(read_int64(buffer, starts)).dictionary_encode()
        hosts = [each.to_bytes(HOST_V4_SIZE, "big", signed=True) for each in encoded.dictionary.to_pylist()]
    else:
        encoded = binary_parts(buffer, starts, starts + sizes).dictionary_encode()
        hosts = encoded.dictionary.to_pylist()
    return strings_of(list(map(decode_host, hosts))).take(encoded.indices)


def message_id_column(
    buffer: Buffer, host_starts: Int64s, host_sizes: Int64s, physical_offsets: Int64s
) -> pa.StringArray:
    """Return the offsetMsgIds: store host and physical offset in hexadecimal."""
    is_v6 = host_sizes != HOST_V4_SIZE
    if not is_v6.any():
        return _message_ids(buffer, host_starts, HOST_V4_SIZE, physical_offsets)
    rows = np.flatnonzero(is_v6)
    ids = _message_ids(buffer, host_starts, HOST_V4_SIZE, physical_offsets)
    return replaced(ids, rows, _message_ids(buffer, host_starts[rows], HOST_V6_SIZE, physical_offsets[rows]))


def _message_ids(
    buffer: Buffer, host_starts: Int64s, host_size: int, physical_offsets: npt.NDArray[np.int64]
) -> pa.StringArray:
    """Return ids of one length."""
    size, count = host_size + _OFFSET_SIZE, len(host_starts)
    content = np.empty((count, size), np.uint8)
    bytes_at = np.ndarray((max(len(buffer) - host_size + 1, 0), host_size), np.uint8, buffer, strides=(1, 1))
    content[:, :host_size] = bytes_at[host_starts]
    content[:, host_size:] = physical_offsets.astype(">i8").view(np.uint8).reshape(count, _OFFSET_SIZE)
    digits = _HEX.take(content.reshape(-1), mode="wrap")  # a byte never wraps; the other modes copy through a buffer
    offsets = np.arange(count + 1, dtype=np.int32) * (2 * size)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(digits))
