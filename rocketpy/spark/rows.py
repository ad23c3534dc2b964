"""Decoded messages as Arrow record batches, row by row; the columns are :mod:`rocketpy.spark.schema`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.properties import PROPERTY_KEYS, PROPERTY_TAGS, PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX
from rocketpy.spark.schema import ARROW_SCHEMA, TIMESTAMP_MS_MAX

BATCH_ROWS_MAX = 4096
BATCH_BODY_BYTES_MAX = 8 * 2**20


def record_batches(messages: Iterable[MessageExt]) -> Iterator[pa.RecordBatch]:
    """Yield the messages in order as batches of bounded rows and bytes."""
    batch: list[MessageExt] = []
    body_bytes = 0
    for message in messages:
        batch.append(message)
        body_bytes += len(message.body)
        if len(batch) == BATCH_ROWS_MAX or body_bytes >= BATCH_BODY_BYTES_MAX:
            yield _record_batch(batch)
            batch, body_bytes = [], 0
    if batch:
        yield _record_batch(batch)


def _record_batch(messages: list[MessageExt]) -> pa.RecordBatch:
    columns = zip(*map(_row, messages), strict=True)
    arrays = [pa.array(values, type=field.type) for values, field in zip(columns, ARROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def _row(message: MessageExt) -> tuple[object, ...]:
    properties = message.properties
    return (
        message.topic,
        message.queue_id,
        message.queue_offset,
        message.physical_offset,
        message.offset_msg_id,
        properties.get(PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX),
        properties.get(PROPERTY_KEYS),
        properties.get(PROPERTY_TAGS),
        message.body,
        len(message.body),
        list(properties.items()),
        _microseconds(message.born_timestamp),
        _microseconds(message.store_timestamp),
        message.born_host,
        message.store_host,
        message.reconsume_times,
        message.sys_flag,
        message.flag,
        message.prepared_transaction_offset,
        message.store_size,
        message.broker_name or None,
    )


def _microseconds(timestamp_ms: int) -> int | None:
    """Convert a timestamp; one outside the calendar becomes null, because a producer may write any number."""
    return timestamp_ms * 1000 if 0 <= timestamp_ms <= TIMESTAMP_MS_MAX else None
