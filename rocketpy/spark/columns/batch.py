"""Records as Arrow record batches: the columns that are wanted, of the messages that are wanted."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from rocketpy.errors import LocalProtocolError, RemoteProtocolError, StoreError
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.properties import (
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
    index_keys_of,
)
from rocketpy.protocol.stored_message import decode_message
from rocketpy.spark.columns.records import RecordBlock
from rocketpy.spark.filters import ALL, EVERYTHING, MessageFilter, Range
from rocketpy.spark.schema import TIMESTAMP_MS_MAX


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
    needs_bodies = decompress and not {"body", "body_size"}.isdisjoint(columns.names)
    messages = []
    for start in block.starts.tolist():
        try:
            message = decode_message(block.buffer, start, decompress=False)
            if _wants(wants, message):
                messages.append(decode_message(block.buffer, start, decompress=needs_bodies))
        except (RemoteProtocolError, LocalProtocolError) as error:
            raise StoreError(
                f"{error}; the option decompress=false reads bodies as they are stored",
                path=block.path or f"broker {broker_name}",
                position=message.physical_offset - (block.base_offset or 0),
            ) from error
    arrays = [
        pa.array([_VALUES[field.name](block, broker_name, each) for each in messages], type=field.type)
        for field in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def _wants(wants: MessageFilter, message: MessageExt) -> bool:
    if wants.topics is not None and message.topic not in wants.topics:
        return False
    if wants.queue_ids is not None and message.queue_id not in wants.queue_ids:
        return False
    if wants.tags is not None and message.tags not in wants.tags:
        return False
    if wants.keys is not None and wants.keys.isdisjoint(each.decode() for each in index_keys_of(message.properties)):
        return False
    return (
        _in_time(wants.store_timestamps_ms, message.store_timestamp)
        and _in_time(wants.born_timestamps_ms, message.born_timestamp)
        and wants.queue_offsets.holds(message.queue_offset)
        and wants.physical_offsets.holds(message.physical_offset)
    )


def _in_time(range: Range, timestamp_ms: int) -> bool:
    return range == ALL or (0 <= timestamp_ms <= TIMESTAMP_MS_MAX and range.holds(timestamp_ms))


def _microseconds(timestamp_ms: int) -> int | None:
    return timestamp_ms * 1000 if 0 <= timestamp_ms <= TIMESTAMP_MS_MAX else None


_VALUES: dict[str, Callable[[RecordBlock, str | None, MessageExt], object]] = {
    "topic": lambda _, __, message: message.topic,
    "queue_id": lambda _, __, message: message.queue_id,
    "queue_offset": lambda _, __, message: message.queue_offset,
    "physical_offset": lambda _, __, message: message.physical_offset,
    "message_id": lambda _, __, message: message.offset_msg_id,
    "unique_key": lambda _, __, message: message.properties.get(PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX),
    "keys": lambda _, __, message: message.properties.get(PROPERTY_KEYS),
    "tags": lambda _, __, message: message.properties.get(PROPERTY_TAGS),
    "body": lambda _, __, message: message.body,
    "body_size": lambda _, __, message: len(message.body),
    "properties": lambda _, __, message: list(message.properties.items()),
    "born_timestamp": lambda _, __, message: _microseconds(message.born_timestamp),
    "store_timestamp": lambda _, __, message: _microseconds(message.store_timestamp),
    "born_host": lambda _, __, message: message.born_host,
    "store_host": lambda _, __, message: message.store_host,
    "reconsume_times": lambda _, __, message: message.reconsume_times,
    "sys_flag": lambda _, __, message: message.sys_flag,
    "flag": lambda _, __, message: message.flag,
    "prepared_transaction_offset": lambda _, __, message: message.prepared_transaction_offset,
    "stored_size": lambda _, __, message: message.store_size,
    "broker_name": lambda _, broker_name, __: broker_name,
    "_file": lambda block, _, __: block.path,
    "_offset": lambda block, _, message: (
        None if block.base_offset is None else message.physical_offset - block.base_offset
    ),
}
