"""The units of ConsumeQueues as a DataFrame, and the offsets between them that have none.

One task reads whole files of one queue, 300,000 units at a time in a usual store, into numpy arrays; no Python object
is made for a unit. A unit counts if its physical offset is not negative and its size is positive; pre-blank units,
which fill the space before a queue's first message, do not. Where a tagsCode field is an address of a ConsumeQueueExt
file, the tag code is read from there.

Rule: the functions that executors run know paths and numbers only, and import nothing of the broker.

Compatibility: ``ConsumeQueue`` and ``ConsumeQueueExt`` (4.9.8). What a start would cut from the end of a queue is shown
as it is on the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rocketpy.spark.columns.layout import UNIT_TYPE
from rocketpy.spark.pipelines.local_rows import local_frame, spread
from rocketpy.store.layout import EXT_ADDRESS_MAX, EXT_UNIT, PRE_BLANK_SIZE, UNIT_SIZE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rocketpy.spark.pipelines.audit.store_files import StoreFiles

UNIT_SCHEMA = (
    "topic string, queue_id int, queue_offset bigint, physical_offset bigint, size int, tags_code bigint, "
    "ext_store_timestamp_ms bigint"
)
"""``tags_code`` is null where an address of an extension leads nowhere, the last column where there is no extension."""

GAP_SCHEMA = "topic string, queue_id int, first_queue_offset bigint, last_queue_offset bigint"
_QUEUE_SCHEMA = "topic string, queue_id int, paths array<string>, ext_paths array<string>"
_BATCH_ROWS = 1 << 16
_PIECE_SIZE = 32 << 20

Units = npt.NDArray[np.void]


def queue_units(spark: SparkSession, files: StoreFiles) -> DataFrame:
    """Return every unit of a store's queues; columns: ``UNIT_SCHEMA``."""
    rows = [
        (queue.topic, queue.queue_id, [file.path], _ext_paths(files, queue.topic, queue.queue_id))
        for queue in files.queues
        for file in queue.files
    ]
    return _spread(spark, rows, files).mapInArrow(unit_batches, UNIT_SCHEMA)


def queue_gaps(spark: SparkSession, files: StoreFiles) -> DataFrame:
    """Return the ranges between the first and last unit of a queue without valid units; columns: ``GAP_SCHEMA``."""
    rows: list[tuple[str, int, list[str], list[str]]] = [
        (queue.topic, queue.queue_id, [file.path for file in queue.files], []) for queue in files.queues
    ]
    return _spread(spark, rows, files).mapInArrow(gap_batches, GAP_SCHEMA)


def _spread(spark: SparkSession, rows: list[tuple[str, int, list[str], list[str]]], files: StoreFiles) -> DataFrame:
    """Return the rows in as many partitions as there are pieces of work."""
    size = sum(file.length for queue in files.queues for file in queue.files)
    return spread(local_frame(spark, rows, _QUEUE_SCHEMA), size // _PIECE_SIZE)


def _ext_paths(files: StoreFiles, topic: str, queue_id: int) -> list[str]:
    extension = files.extensions.get((topic, queue_id))
    return [] if extension is None else [file.path for file in extension.files]


# ---- on executors ---------------------------------------------------------------------------------------------------


def unit_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the units of files, with the columns of ``UNIT_SCHEMA``."""
    for topic, queue_id, paths, ext_paths in _queues_in(batches):
        extension = _Extension(ext_paths)
        for path in paths:
            units = _read_units(path)
            numbers = np.flatnonzero(is_valid(units))
            first = _base_offset(path) // UNIT_SIZE
            for begin in range(0, len(numbers), _BATCH_ROWS):
                part = numbers[begin : begin + _BATCH_ROWS]
                yield _batch(topic, queue_id, first + part, units[part], extension)


def gap_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the gaps of queues, with the columns of ``GAP_SCHEMA``."""
    for topic, queue_id, paths, _ in _queues_in(batches):
        gaps = list(_gaps(paths))
        if gaps:
            yield pa.record_batch(
                {
                    "topic": pa.array([topic] * len(gaps), pa.string()),
                    "queue_id": pa.array([queue_id] * len(gaps), pa.int32()),
                    "first_queue_offset": pa.array([first for first, _ in gaps], pa.int64()),
                    "last_queue_offset": pa.array([last for _, last in gaps], pa.int64()),
                }
            )


def is_valid(units: Units) -> npt.NDArray[np.bool_]:
    """Return which units are of a message."""
    offsets, sizes = units["physical_offset"], units["size"]
    is_pre_blank = (offsets == 0) & (sizes == PRE_BLANK_SIZE) & (units["tags_code"] == 0)
    valid: npt.NDArray[np.bool_] = (offsets >= 0) & (sizes > 0) & ~is_pre_blank
    return valid


def _queues_in(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, int, list[str], list[str]]]:
    for batch in batches:
        for row in batch.to_pylist():
            yield row["topic"], row["queue_id"], row["paths"], row["ext_paths"]


def _read_units(path: str) -> Units:
    """Return the units of a file; none of one that a live broker has deleted meanwhile."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        content = b""
    return np.frombuffer(content, UNIT_TYPE, count=len(content) // UNIT_SIZE)


def _base_offset(path: str) -> int:
    return int(os.path.basename(path))


def _batch(
    topic: str, queue_id: int, queue_offsets: npt.NDArray[np.int64], units: Units, extension: _Extension
) -> pa.RecordBatch:
    count = len(units)
    tags_codes, timestamps_ms = extension.resolve(units["tags_code"].astype(np.int64))
    return pa.record_batch(
        {
            "topic": pa.repeat(pa.scalar(topic, pa.string()), count),
            "queue_id": pa.repeat(pa.scalar(queue_id, pa.int32()), count),
            "queue_offset": pa.array(queue_offsets, pa.int64()),
            "physical_offset": pa.array(units["physical_offset"].astype(np.int64)),
            "size": pa.array(units["size"].astype(np.int32)),
            "tags_code": tags_codes,
            "ext_store_timestamp_ms": timestamps_ms,
        }
    )


def _gaps(paths: list[str]) -> Iterator[tuple[int, int]]:
    """Yield first and last queue offset of each range between valid units that has none."""
    previous = -1  # the last valid unit so far
    for path in paths:
        numbers = np.flatnonzero(is_valid(_read_units(path))) + _base_offset(path) // UNIT_SIZE
        if not len(numbers):
            continue
        before = np.concatenate([[previous if previous >= 0 else numbers[0] - 1], numbers[:-1]])
        for at in np.flatnonzero(numbers - before > 1):
            yield int(before[at]) + 1, int(numbers[at]) - 1
        previous = int(numbers[-1])


class _Extension:
    """The ConsumeQueueExt files of one queue.

    ::

        0 size i16 (20 + bitMapSize) | 2 tagsCode i64 | 10 msgStoreTime i64 | 18 bitMapSize i16 | 20 bitMap
    """

    def __init__(self, paths: list[str]) -> None:
        self._paths = sorted(paths, key=_base_offset)
        self._bases = np.array([_base_offset(path) for path in self._paths], np.int64)

    def resolve(self, tags_codes: npt.NDArray[np.int64]) -> tuple[pa.Array, pa.Array]:
        """Return the tag codes, and the store times in milliseconds that extensions give for the same messages."""
        is_address = tags_codes <= EXT_ADDRESS_MAX
        if not is_address.any():
            return pa.array(tags_codes), pa.nulls(len(tags_codes), pa.int64())
        codes, timestamps_ms, found = tags_codes.copy(), np.zeros_like(tags_codes), ~is_address
        # The address is the offset with the sign bit set: without it, the offset is left.
        offsets = np.where(is_address, tags_codes & np.int64(2**63 - 1), -1)
        file_of = np.searchsorted(self._bases, offsets, side="right") - 1
        for number, path in enumerate(self._paths):
            rows = np.flatnonzero(is_address & (file_of == number))
            if len(rows):
                _read_ext_units(path, rows, offsets[rows] - self._bases[number], codes, timestamps_ms, found)
        return pa.array(codes, mask=~found), pa.array(timestamps_ms, mask=~(found & is_address))


def _read_ext_units(
    path: str,
    rows: npt.NDArray[np.int64],
    positions: npt.NDArray[np.int64],
    codes: npt.NDArray[np.int64],
    timestamps_ms: npt.NDArray[np.int64],
    found: npt.NDArray[np.bool_],
) -> None:
    """Set what the extensions at these positions of a file say, where a whole one is."""
    content = np.fromfile(path, np.uint8)
    fits = positions + EXT_UNIT.size <= len(content)
    rows, positions = rows[fits], positions[fits]
    heads = np.dtype([("size", ">i2"), ("tags_code", ">i8"), ("timestamp_ms", ">i8"), ("bit_map_size", ">i2")])
    units = content[positions[:, None] + np.arange(EXT_UNIT.size)].reshape(-1).view(heads)
    is_whole = (units["size"] >= EXT_UNIT.size) & (units["size"] == EXT_UNIT.size + units["bit_map_size"])
    rows, units = rows[is_whole], units[is_whole]
    codes[rows], timestamps_ms[rows], found[rows] = units["tags_code"], units["timestamp_ms"], True
