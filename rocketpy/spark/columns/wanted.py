"""The records of a block that a filter wants, found with as little decoding as the filter allows.

Conditions are checked from cheap to dear, each on the records that the ones before have left: numbers at fixed
positions, then topics, then properties.
"""

from __future__ import annotations

from functools import cached_property

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rocketpy.protocol.properties import (
    KEY_SEPARATOR,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
)
from rocketpy.spark.columns.arrow_parts import binary_parts, strings_of, text_of, values_of
from rocketpy.spark.columns.layout import (
    BORN_TIMESTAMP,
    PHYSICAL_OFFSET,
    QUEUE_ID,
    QUEUE_OFFSET,
    SYS_FLAG,
    Bools,
    Int64s,
    Layout,
    head_positions,
    read_int32,
    read_int64,
)
from rocketpy.spark.columns.properties import PropertyEntries, property_column, read_entries
from rocketpy.spark.columns.records import RecordBlock
from rocketpy.spark.filters import ALL, MessageFilter, Range
from rocketpy.spark.schema import TIMESTAMP_MS_MAX


@attrs.frozen(eq=False, slots=False)
class WantedRecords:
    """Records with their layout; what several columns need is computed once."""

    block: RecordBlock

    def __len__(self) -> int:
        return len(self.block)

    def select(self, rows: slice | Bools) -> WantedRecords:
        """Return some of the records."""
        return WantedRecords(self.block.select(rows))

    @cached_property
    def layout(self) -> Layout:
        """Where the parts of the records are."""
        return self.block.layout

    @cached_property
    def sys_flags(self) -> npt.NDArray[np.int32]:
        """The sysFlag of each record."""
        return read_int32(self.block.buffer, self.block.starts + SYS_FLAG)

    @cached_property
    def physical_offsets(self) -> Int64s:
        """The physical offset that each record names."""
        return read_int64(self.block.buffer, self.block.starts + PHYSICAL_OFFSET)

    @cached_property
    def topics(self) -> pa.StringArray:
        """The topic of each record."""
        layout = self.layout
        return text_of(binary_parts(self.block.buffer, layout.topic_starts, layout.topic_ends))

    @cached_property
    def entries(self) -> PropertyEntries:
        """The entries of the properties of each record."""
        return read_entries(self.block.buffer, self.layout.properties_starts, self.layout.ends)

    def place(self, row: int) -> tuple[str, int]:
        """Return file and position of a record, for an error."""
        offset = int(self.physical_offsets[row])
        return self.block.path or "a pulled record", offset - (self.block.base_offset or 0)


def select_wanted(block: RecordBlock, wants: MessageFilter) -> WantedRecords:
    """Return the records of a block that are wanted, in its order."""
    records = WantedRecords(_with_wanted_numbers(block, wants))
    if wants.topics is not None and len(records):
        records = _kept(records, _is_in(records.topics, wants.topics))
    if wants.without_topics and len(records):
        records = _kept(records, ~_is_in(records.topics, wants.without_topics))
    if wants.tags is not None and len(records):
        records = _kept(records, _is_in(property_column(records.entries, PROPERTY_TAGS), wants.tags))
    if wants.keys is not None and len(records):
        records = _kept(records, _has_key(records.entries, wants.keys))
    return records


def _kept(records: WantedRecords, is_wanted: Bools) -> WantedRecords:
    return records if is_wanted.all() else records.select(is_wanted)


def _with_wanted_numbers(block: RecordBlock, wants: MessageFilter) -> RecordBlock:
    buffer, starts = block.buffer, block.starts
    masks: list[Bools] = []
    if wants.queue_ids is not None:
        masks.append(np.isin(read_int32(buffer, starts + QUEUE_ID), list(wants.queue_ids)))
    for range_wanted, position in ((wants.queue_offsets, QUEUE_OFFSET), (wants.physical_offsets, PHYSICAL_OFFSET)):
        if range_wanted != ALL:
            masks.append(_in_range(read_int64(buffer, starts + position), range_wanted))
    calendar = Range(0, TIMESTAMP_MS_MAX + 1)
    if wants.born_timestamps_ms != ALL:
        times = read_int64(buffer, starts + BORN_TIMESTAMP)
        masks.append(_in_range(times, wants.born_timestamps_ms.intersect(calendar)))
    if wants.store_timestamps_ms != ALL:
        times = read_int64(buffer, head_positions(buffer, starts)[0])
        masks.append(_in_range(times, wants.store_timestamps_ms.intersect(calendar)))
    is_wanted = np.logical_and.reduce(masks) if masks else np.True_
    return block if is_wanted.all() else block.select(is_wanted)


def _in_range(values: Int64s, wanted: Range) -> Bools:
    """Compare with bounds that may be beyond 64 bits, as Python compares."""
    is_in = np.ones(len(values), np.bool_)
    if wanted.start is not None:
        is_in &= values >= wanted.start
    if wanted.end is not None:
        is_in &= values < wanted.end
    return is_in


def _is_in(texts: pa.StringArray, wanted: frozenset[str]) -> Bools:
    """Return which texts are wanted; a null is not."""
    found = pc.is_in(texts, strings_of(sorted(wanted)))
    is_in: Bools = values_of(found)
    return is_in


def _has_key(entries: PropertyEntries, wanted: frozenset[str]) -> Bools:
    """Return which messages have one of the keys, as their unique key or as a part of KEYS."""
    wanted = wanted - {""}
    is_wanted = _is_in(property_column(entries, PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX), wanted)
    lists = pc.split_pattern(property_column(entries, PROPERTY_KEYS), KEY_SEPARATOR)
    owners = values_of(pc.list_parent_indices(lists))
    is_wanted = is_wanted.copy()
    is_wanted[owners[_is_in(pc.list_flatten(lists), wanted)]] = True
    return is_wanted
