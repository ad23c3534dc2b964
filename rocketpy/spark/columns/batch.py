"""Records as Arrow record batches: the columns that are wanted, of the messages that are wanted.

Rule: every column equals what :func:`~rocketpy.protocol.stored_message.decode_message` says of each record, and no
column costs a Python object per record, compressed bodies excepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketpy.protocol.properties import (
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
)
from rocketpy.spark.columns.arrow_parts import array_of, booleans, strings_of, text_of
from rocketpy.spark.columns.bodies import BadBodies, decompressed_bodies, stored_bodies
from rocketpy.spark.columns.hosts import host_column, message_id_column
from rocketpy.spark.columns.layout import (
    BORN_HOST,
    BORN_TIMESTAMP,
    FLAG,
    QUEUE_ID,
    QUEUE_OFFSET,
    Int64s,
    read_int32,
    read_int64,
)
from rocketpy.spark.columns.properties import properties_column, property_column
from rocketpy.spark.columns.records import RecordBlock
from rocketpy.spark.columns.variants import variant_column
from rocketpy.spark.columns.wanted import WantedRecords, select_wanted
from rocketpy.spark.filters import EVERYTHING, MessageFilter
from rocketpy.spark.schema import TIMESTAMP_MS_MAX, is_any_in

BATCH_ROWS_MAX = 16_384
BATCH_BYTES_MAX = 8 * 2**20
"""Of records, and of decompressed bodies: a batch is copied on its way to Spark."""


def record_batch(
    block: RecordBlock,
    columns: pa.Schema,
    *,
    wants: MessageFilter = EVERYTHING,
    decompress: bool = True,
    broker_name: str | None = None,
) -> pa.RecordBatch:
    """Return the wanted messages of a block in its order, with the columns of a schema (``schema.projection``).

    :class:`StoreError` names file and position of a body that does not decompress.
    """
    return _Columns(select_wanted(block, wants), decompress, broker_name).batch(columns)


def record_batches(
    block: RecordBlock,
    columns: pa.Schema,
    *,
    wants: MessageFilter = EVERYTHING,
    decompress: bool = True,
    bad_bodies: BadBodies = BadBodies.RAISE,
    broker_name: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield :func:`record_batch` in batches of bounded rows and bytes, none of them empty.

    ``bad_bodies`` says what to do about bodies that do not decompress; where no column needs bodies, none is tried.
    """
    records = select_wanted(block, wants)
    needs_bodies = decompress and is_any_in(("body", "body_size"), columns)
    for piece in _pieces(records):
        rest = piece
        while len(rest):
            made = _Columns(rest, decompress, broker_name)
            bad: list[int] = []
            if needs_bodies:
                bodies = decompressed_bodies(rest, bytes_max=BATCH_BYTES_MAX, bad_bodies=bad_bodies)
                made.bodies, bad = bodies.values, bodies.bad
                if len(made.bodies) < len(rest):
                    made.records = rest.select(slice(len(made.bodies)))
            batch = made.batch(columns)
            if bad and bad_bodies is BadBodies.DROP:
                batch = batch.filter(_all_but(bad, batch.num_rows))
            if batch.num_rows:
                yield batch
            rest = rest.select(slice(len(made.records), None))


def _all_but(rows: list[int], count: int) -> pa.BooleanArray:
    is_kept = np.ones(count, np.bool_)
    is_kept[rows] = False
    return booleans(is_kept)


def _pieces(records: WantedRecords) -> Iterator[WantedRecords]:
    """Cut records into pieces of at most so many rows and bytes; a larger record is a piece of its own."""
    ends = np.cumsum(records.block.sizes)
    start = 0
    while start < len(ends):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + BATCH_BYTES_MAX, "right"))
        stop = min(max(stop, start + 1), start + BATCH_ROWS_MAX)
        yield records.select(slice(start, stop))
        start = stop


@attrs.define(eq=False, slots=False)
class _Columns:
    """The columns of some records."""

    records: WantedRecords
    decompress: bool
    broker_name: str | None

    def batch(self, columns: pa.Schema) -> pa.RecordBatch:
        arrays = [_MAKERS[field.name.lower()](self, field.type) for field in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=columns)

    @cached_property
    def bodies(self) -> pa.BinaryArray:
        return decompressed_bodies(self.records).values if self.decompress else stored_bodies(self.records)

    def int32(self, position: int) -> pa.Array:
        return array_of(read_int32(self.records.block.buffer, self.records.block.starts + position))

    def int64(self, position: int) -> pa.Array:
        return array_of(read_int64(self.records.block.buffer, self.records.block.starts + position))

    def body(self, arrow_type: pa.DataType) -> pa.Array:
        if arrow_type == pa.string():
            return text_of(self.bodies)
        return self.bodies if arrow_type == pa.binary() else variant_column(self.bodies, arrow_type)

    def body_size(self) -> pa.Array:
        if self.decompress:
            return pc.binary_length(self.bodies)
        return array_of((self.records.layout.body_ends - self.records.layout.body_starts).astype(np.int32))

    def timestamp(self, positions: Int64s, arrow_type: pa.DataType) -> pa.Array:
        """Milliseconds as Spark's microseconds; what the calendar does not have is null, as a producer may write it."""
        times = read_int64(self.records.block.buffer, positions)
        is_odd = (times < 0) | (times > TIMESTAMP_MS_MAX)
        if is_odd.any():
            return array_of(np.where(is_odd, 0, times) * 1000, arrow_type, is_missing=is_odd)
        return array_of(times * 1000, arrow_type)

    def born_host(self) -> pa.Array:
        starts, layout = self.records.block.starts, self.records.layout
        return host_column(self.records.block.buffer, starts + BORN_HOST, layout.store_timestamps - starts - BORN_HOST)

    def store_host(self) -> pa.Array:
        return host_column(self.records.block.buffer, *self._store_hosts)

    def message_id(self) -> pa.Array:
        return message_id_column(self.records.block.buffer, *self._store_hosts, self.records.physical_offsets)

    @property
    def _store_hosts(self) -> tuple[Int64s, Int64s]:
        layout = self.records.layout
        starts = layout.store_timestamps + 8
        return starts, layout.reconsume_times - starts

    def prepared_transaction_offset(self) -> pa.Array:
        return array_of(read_int64(self.records.block.buffer, self.records.layout.reconsume_times + 4))

    def reconsume_times(self) -> pa.Array:
        return array_of(read_int32(self.records.block.buffer, self.records.layout.reconsume_times))

    def property(self, name: str) -> pa.Array:
        return property_column(self.records.entries, name)

    def constant(self, value: str | None) -> pa.Array:
        """One value for all rows, in C++."""
        count = len(self.records)
        return pa.nulls(count, pa.string()) if value is None else pa.repeat(strings_of([value])[0], count)

    def position(self) -> pa.Array:
        base = self.records.block.base_offset
        if base is None:
            return pa.nulls(len(self.records), pa.int64())
        return array_of(self.records.physical_offsets - base)


_MAKERS: dict[str, Callable[[_Columns, pa.DataType], pa.Array]] = {
    "topic": lambda made, _: made.records.topics,
    "queue_id": lambda made, _: made.int32(QUEUE_ID),
    "queue_offset": lambda made, _: made.int64(QUEUE_OFFSET),
    "physical_offset": lambda made, _: array_of(made.records.physical_offsets),
    "message_id": lambda made, _: made.message_id(),
    "unique_key": lambda made, _: made.property(PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX),
    "keys": lambda made, _: made.property(PROPERTY_KEYS),
    "tags": lambda made, _: made.property(PROPERTY_TAGS),
    "body": lambda made, arrow_type: made.body(arrow_type),
    "body_size": lambda made, _: made.body_size(),
    "properties": lambda made, arrow_type: properties_column(made.records.entries, arrow_type),
    "born_timestamp": lambda made, arrow_type: made.timestamp(made.records.block.starts + BORN_TIMESTAMP, arrow_type),
    "store_timestamp": lambda made, arrow_type: made.timestamp(made.records.layout.store_timestamps, arrow_type),
    "born_host": lambda made, _: made.born_host(),
    "store_host": lambda made, _: made.store_host(),
    "reconsume_times": lambda made, _: made.reconsume_times(),
    "sys_flag": lambda made, _: array_of(made.records.sys_flags),
    "flag": lambda made, _: made.int32(FLAG),
    "prepared_transaction_offset": lambda made, _: made.prepared_transaction_offset(),
    "stored_size": lambda made, _: array_of(made.records.block.sizes.astype(np.int32)),
    "broker_name": lambda made, _: made.constant(made.broker_name),
    "_file": lambda made, _: made.constant(made.records.block.path),
    "_offset": lambda made, _: made.position(),
}
