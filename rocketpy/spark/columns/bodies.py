"""Bodies of many messages. Only compressed ones cost a Python object each."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import attrs
import numpy as np
import numpy.typing as npt
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


class BadBodies(Enum):
    """What to do about a body that does not decompress."""

    RAISE = "raise"  # StoreError with file and position
    KEEP = "keep"  # as it is stored
    DROP = "drop"  # the message is no row


@attrs.frozen(eq=False)
class Bodies:
    """Bodies of the first records. ``bad``: rows whose body does not decompress, and stands as it is stored."""

    values: pa.BinaryArray
    bad: list[int] = attrs.field(factory=list)


def decompressed_bodies(
    records: WantedRecords, *, bytes_max: int | None = None, bad_bodies: BadBodies = BadBodies.RAISE
) -> Bodies:
    """Return the bodies as they were given to the producer.

    With ``bytes_max`` those of the first records only, at least one, so that little more than so many bytes are
    decompressed: a record of 64 KiB may grow to 64 MiB. :class:`StoreError` of ``RAISE`` names file and position of a
    body that does not decompress.
    """
    layout = records.layout
    rows = _compressed_rows(records)
    if not len(rows):
        return Bodies(stored_bodies(records))
    contents: list[bytes] = []
    bad: list[int] = []
    total, count = 0, len(layout.body_starts)
    for row in rows.tolist():
        if bytes_max is not None and total >= bytes_max:
            count = row
            break
        try:
            contents.append(_decompressed(records, row))
        except StoreError:
            if bad_bodies is BadBodies.RAISE:
                raise
            contents.append(_stored(records, row))
            bad.append(row)
        total += len(contents[-1])
    bodies = binary_parts(records.block.buffer, layout.body_starts[:count], layout.body_ends[:count])
    return Bodies(replaced(bodies, rows[: len(contents)], pa.array(contents, pa.binary())), bad)


def find_bad_bodies(records: WantedRecords) -> Iterator[tuple[int, str]]:
    """Yield row and reason of each body that does not decompress."""
    for row in _compressed_rows(records).tolist():
        try:
            _decompressed(records, row)
        except StoreError as error:
            yield row, str(error.__cause__)


def _compressed_rows(records: WantedRecords) -> npt.NDArray[np.int64]:
    sizes = records.layout.body_ends - records.layout.body_starts
    return np.flatnonzero((records.sys_flags & COMPRESSED_FLAG != 0) & (sizes > 0))


def _stored(records: WantedRecords, row: int) -> bytes:
    return bytes(records.block.buffer[records.layout.body_starts[row] : records.layout.body_ends[row]])


def _decompressed(records: WantedRecords, row: int) -> bytes:
    body = _stored(records, row)
    try:
        compression = compression_type(int(records.sys_flags[row]))
        assert compression is not None, "the caller has looked at the flag"
        return decompress_body(body, compression)
    except (RemoteProtocolError, LocalProtocolError) as error:
        path, position = records.place(row)
        hint = "the option decompress=false reads bodies as they are stored"
        raise StoreError(f"{error}; {hint}", path=path, position=position) from error
