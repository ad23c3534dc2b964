"""Rows of a record batch as encoded messages: the items of SEND_BATCH_MESSAGE, made by columns.

There is no object per row: head, body and properties are Arrow columns that are joined into one (the layout is
drawn in :mod:`rocketpy.protocol.batch`), and consecutive items of it are the body of a request. What the client checks
of single messages is checked here by columns, with the same rules. The first fault is raised as a
:class:`~rocketpy.spark.sink.failures.RowFault`.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rocketpy.protocol.properties import PROPERTIES_SIZE_MAX
from rocketpy.spark.sink.column_checks import null_mask, refuse
from rocketpy.spark.sink.property_texts import PropertyRules, property_texts
from rocketpy.spark.sink.row_keys import MessageKeys

_HEAD_SIZE = 20
_OVERHEAD_SIZE = _HEAD_SIZE + 2


@attrs.frozen(eq=False)
class EncodedRows:
    """Rows of one record batch; row N is at position N of every column."""

    topics: pa.StringArray
    bodies: pa.BinaryArray
    properties: pa.BinaryArray
    """The text of the properties, as a record has it."""
    items: pa.BinaryArray
    """The messages as items of a batch."""
    delay_levels: npt.NDArray[np.int64]
    """0: none."""


@attrs.frozen
class EncodingRules:
    """What holds for all rows of a write. Sizes in bytes."""

    topic: str | None
    """Topic of the rows that name none."""
    max_message_size: int
    properties: PropertyRules


def encode_rows(
    columns: Mapping[str, pa.Array], count: int, first_row: int, *, rules: EncodingRules, keys: MessageKeys
) -> EncodedRows:
    """Return ``count`` rows as messages. ``first_row`` is the position of the first one in its partition."""
    topics = _topics(columns.get("topic"), rules.topic, count)
    bodies = _bodies(columns["body"], rules.max_message_size)
    properties = property_texts(columns, count, first_row, rules=rules.properties, keys=keys)
    sizes = pc.binary_length(properties).to_numpy()
    refuse(
        sizes > PROPERTIES_SIZE_MAX,
        lambda row: f"the properties have {sizes[row]} bytes, the limit is {PROPERTIES_SIZE_MAX}",
    )
    return EncodedRows(
        topics=topics,
        bodies=bodies,
        properties=properties,
        items=_items(bodies, properties, sizes),
        delay_levels=_delay_levels(columns.get("delay_level"), count),
    )


def _topics(column: pa.Array | None, default: str | None, count: int) -> pa.StringArray:
    if column is None:
        return pa.array([default] * count, pa.string())
    topics = column.cast(pa.string())
    if default is not None:
        return pc.fill_null(topics, default)
    refuse(null_mask(topics), "the topic is null, and the option topic names no other")
    return topics


def _bodies(column: pa.Array, max_message_size: int) -> pa.BinaryArray:
    bodies = column.cast(pa.string()).cast(pa.binary()) if not _is_binary(column.type) else column.cast(pa.binary())
    refuse(null_mask(bodies), "the body is null")
    sizes = pc.binary_length(bodies).to_numpy(zero_copy_only=False)
    refuse(sizes == 0, "the body is empty, which RocketMQ refuses")
    refuse(
        sizes > max_message_size,
        lambda row: f"the body has {sizes[row]} bytes, the limit (option maxMessageSize) is {max_message_size}",
    )
    return bodies


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _items(
    bodies: pa.BinaryArray, properties: pa.BinaryArray, properties_sizes: npt.NDArray[np.int32]
) -> pa.BinaryArray:
    """Join head, body, size of the properties and properties of each row."""
    count = len(bodies)
    body_sizes = pc.binary_length(bodies).to_numpy()
    heads = np.zeros((count, 5), dtype=">i4")  # total size, magic, CRC, flag, body size
    heads[:, 0] = _OVERHEAD_SIZE + body_sizes + properties_sizes
    heads[:, 4] = body_sizes
    return pc.binary_join_element_wise(
        _fixed_size(heads.tobytes(), _HEAD_SIZE, count),
        bodies,
        _fixed_size(properties_sizes.astype(">i2").tobytes(), 2, count),
        properties,
        b"",
    )


def _fixed_size(content: bytes, size: int, count: int) -> pa.BinaryArray:
    offsets = np.arange(0, (count + 1) * size, size, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(content)])


def _delay_levels(column: pa.Array | None, count: int) -> npt.NDArray[np.int64]:
    if column is None:
        return np.zeros(count, dtype=np.int64)
    levels = np.asarray(pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False))
    refuse(levels < 0, lambda row: f"the delay level is {levels[row]}, expected 0 (no delay) or a level from 1 on")
    return levels
