"""Rows in columns, encoded as a task does it, and decoded by the protocol's own codec."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

import pyarrow as pa

from rocketpy.protocol.batch import decode_batch_body
from rocketpy.protocol.properties import decode_properties
from rocketpy.spark.sink.encoding import EncodedRows, EncodingRules, encode_rows
from rocketpy.spark.sink.property_texts import PropertyRules
from rocketpy.spark.sink.row_keys import MessageKeys, RowKeyMode, TaskRows

TYPES = {
    "topic": pa.string(),
    "body": pa.binary(),
    "tags": pa.string(),
    "keys": pa.string(),
    "properties": pa.map_(pa.string(), pa.string()),
    "queue_id": pa.int32(),
    "sharding_key": pa.string(),
    "delay_level": pa.int32(),
}


def columns_of(types: Mapping[str, pa.DataType] | None = None, **values: list[Any]) -> dict[str, pa.Array]:
    """Return columns of these values."""
    return {name: pa.array(each, {**TYPES, **(types or {})}[name]) for name, each in values.items()}


def keys_of(mode: RowKeyMode = RowKeyMode.NONE) -> MessageKeys:
    """Return keys that count: U0, U1 ..."""
    numbers = count()
    return MessageKeys(TaskRows("write", 2), mode, lambda wanted: [f"U{next(numbers)}" for _ in range(wanted)])


def encoded(
    columns: Mapping[str, pa.Array],
    *,
    topic: str | None = "T",
    mode: RowKeyMode = RowKeyMode.NONE,
    max_message_size: int = 1000,
    drop_reserved: bool = False,
    namespace: str = "",
    first_row: int = 0,
) -> EncodedRows:
    """Return the rows of columns, encoded."""
    rules = EncodingRules(topic, max_message_size, PropertyRules(drop_reserved, namespace))
    return encode_rows(columns, len(columns["body"]), first_row, rules=rules, keys=keys_of(mode))


def messages(content: bytes) -> list[tuple[bytes, dict[str, str]]]:
    """Return body and properties of the messages of a batch."""
    return [(item.body, decode_properties(item.properties.decode())) for item in decode_batch_body(content)]


def rows_of(rows: EncodedRows) -> list[tuple[bytes, dict[str, str]]]:
    """Return body and properties of each row, as its item has them."""
    return messages(b"".join(rows.items.to_pylist()))
