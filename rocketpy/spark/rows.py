"""Schema of a message in a DataFrame, and the conversion of messages into Arrow record batches.

Rule: the two schemas below are the same schema twice; ``tests/spark/test_rows.py`` compares them using the
installed PySpark's own conversion, because Spark refuses a batch whose Arrow schema differs in any detail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.properties import PROPERTY_KEYS, PROPERTY_TAGS, PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX

BATCH_ROWS_MAX = 4096
BATCH_BODY_BYTES_MAX = 8 * 2**20
TIMESTAMP_MS_MAX = 253_402_300_799_999  # the end of the year 9999, where Python's and Spark's calendars end

_TIMESTAMP = pa.timestamp("us", tz="UTC")
_PROPERTIES = pa.map_(pa.string(), pa.field("value", pa.string(), nullable=False))

# name, Spark type, Arrow type, nullable. A null broker_name: files do not know it.
_COLUMNS: tuple[tuple[str, DataType, pa.DataType, bool], ...] = (
    ("topic", StringType(), pa.string(), False),
    ("queue_id", IntegerType(), pa.int32(), False),
    ("queue_offset", LongType(), pa.int64(), False),
    ("physical_offset", LongType(), pa.int64(), False),
    ("message_id", StringType(), pa.string(), False),
    ("unique_key", StringType(), pa.string(), True),
    ("keys", StringType(), pa.string(), True),
    ("tags", StringType(), pa.string(), True),
    ("body", BinaryType(), pa.binary(), False),
    ("body_size", IntegerType(), pa.int32(), False),
    ("properties", MapType(StringType(), StringType(), valueContainsNull=False), _PROPERTIES, False),
    ("born_timestamp", TimestampType(), _TIMESTAMP, True),
    ("store_timestamp", TimestampType(), _TIMESTAMP, True),
    ("born_host", StringType(), pa.string(), False),
    ("store_host", StringType(), pa.string(), False),
    ("reconsume_times", IntegerType(), pa.int32(), False),
    ("sys_flag", IntegerType(), pa.int32(), False),
    ("flag", IntegerType(), pa.int32(), False),
    ("prepared_transaction_offset", LongType(), pa.int64(), False),
    ("stored_size", IntegerType(), pa.int32(), False),
    ("broker_name", StringType(), pa.string(), True),
)

SPARK_SCHEMA = StructType([StructField(name, spark, nullable) for name, spark, _, nullable in _COLUMNS])
ARROW_SCHEMA = pa.schema([pa.field(name, arrow, nullable=nullable) for name, _, arrow, nullable in _COLUMNS])


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
