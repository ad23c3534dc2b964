"""Bodies of many messages. Only compressed ones cost a Python object each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rocketpy.errors import LocalProtocolError, RemoteProtocolError, StoreError
from rocketpy.protocol.compression import compression_type
from rocketpy.protocol.compression import decompress as decompress_body
from rocketpy.protocol.sysflag import COMPRESSED_FLAG
from rocketpy.spark.columns.arrow_parts import binary_parts, replaced
from rocketpy.spark.columns.wanted import WantedRecords


def stored_bodies(records: WantedRecords) -> pa.BinaryArray:
    """Return the bodies as they are stored."""
    return binary_parts(records.block.buffer, records.layout.body_starts, records.layout.body_ends)


def decompressed_bodies(records: WantedRecords, *, bytes_max: int | None = None) -> pa.BinaryArray:
    """Return the bodies as they were given to the producer.

    With ``bytes_max`` those of the first records only, at least one, so that little more than so many bytes are
    decompressed: a record of 64 KiB may grow to 64 MiB. :class:`StoreError` names file and position of a body that
    does not decompress.
    """
    layout = records.layout
    sizes = layout.body_ends - layout.body_starts
    rows = np.flatnonzero((records.sys_flags & COMPRESSED_FLAG != 0) & (sizes > 0))
    if not len(rows):
        return stored_bodies(records)
    contents: list[bytes] = []
    total, count = 0, len(sizes)
    for row in rows.tolist():
        if bytes_max is not None and total >= bytes_max:
            count = row
            break
        contents.append(_decompressed(records, row))
        total += len(contents[-1])
    bodies = binary_parts(records.block.buffer, layout.body_starts[:count], layout.body_ends[:count])
    return replaced(bodies, rows[: len(contents)], pa.array(contents, pa.binary()))


def _decompressed(records: WantedRecords, row: int) -> bytes:
    body = bytes(records.block.buffer[records.layout.body_starts[row] : records.layout.body_ends[row]])
    try:
        compression = compression_type(int(records.sys_flags[row]))
        assert compression is not None, "the caller has looked at the flag"
        return decompress_body(body, compression)
    except (RemoteProtocolError, LocalProtocolError) as error:
        path, position = records.place(row)
        hint = "the option decompress=false reads bodies as they are stored"
        raise StoreError(f"{error}; {hint}", path=path, position=position) from error
