"""The slow way from bytes to records to rows, one after the other: what the columns are compared with."""

from __future__ import annotations

from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.properties import index_keys_of
from rocketpy.protocol.stored_message import (
    BLANK_SIZE_MIN,
    MESSAGE_MAGIC_CODE,
    RECORD_SIZE_MAX,
    RECORD_SIZE_MIN,
    TOTAL_AND_MAGIC,
    RecordStatus,
    check_message,
    decode_message,
)
from rocketpy.spark.columns.records import RecordBlock, Stop
from rocketpy.spark.filters import ALL, EVERYTHING, MessageFilter, Range
from rocketpy.spark.schema import TIMESTAMP_MS_MAX
from rocketpy.store.log.scanner import objection


def rows_of(
    block: RecordBlock,
    names: list[str],
    *,
    wants: MessageFilter = EVERYTHING,
    decompress: bool = True,
    broker_name: str | None = None,
) -> list[dict[str, object]]:
    """Return what ``record_batch(...).to_pylist()`` must be."""
    starts = block.starts.tolist()
    wanted = [start for start in starts if is_wanted(wants, decode_message(block.buffer, start, decompress=False))]
    rows = [_row(block, decode_message(block.buffer, start, decompress=decompress), broker_name) for start in wanted]
    return [{name: row[name] for name in names} for row in rows]


def is_wanted(wants: MessageFilter, message: MessageExt) -> bool:
    """Whether a message meets all conditions."""
    keys = {each.decode() for each in index_keys_of(message.properties, 2**31)}
    return (
        (wants.topics is None or message.topic in wants.topics)
        and message.topic not in wants.without_topics
        and (wants.queue_ids is None or message.queue_id in wants.queue_ids)
        and (wants.tags is None or message.tags in wants.tags)
        and (wants.keys is None or not wants.keys.isdisjoint(keys))
        and _in_time(wants.store_timestamps_ms, message.store_timestamp)
        and _in_time(wants.born_timestamps_ms, message.born_timestamp)
        and wants.queue_offsets.holds(message.queue_offset)
        and wants.physical_offsets.holds(message.physical_offset)
    )


def _in_time(times: Range, timestamp_ms: int) -> bool:
    return times == ALL or (0 <= timestamp_ms <= TIMESTAMP_MS_MAX and times.holds(timestamp_ms))


def _microseconds(timestamp_ms: int) -> int | None:
    return timestamp_ms * 1000 if 0 <= timestamp_ms <= TIMESTAMP_MS_MAX else None


def _row(block: RecordBlock, message: MessageExt, broker_name: str | None) -> dict[str, object]:
    properties = message.properties
    return {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "physical_offset": message.physical_offset,
        "message_id": message.offset_msg_id,
        "unique_key": properties.get("UNIQ_KEY"),
        "keys": properties.get("KEYS"),
        "tags": properties.get("TAGS"),
        "body": message.body,
        "body_size": len(message.body),
        "properties": list(properties.items()),
        "born_timestamp": _microseconds(message.born_timestamp),
        "store_timestamp": _microseconds(message.store_timestamp),
        "born_host": message.born_host,
        "store_host": message.store_host,
        "reconsume_times": message.reconsume_times,
        "sys_flag": message.sys_flag,
        "flag": message.flag,
        "prepared_transaction_offset": message.prepared_transaction_offset,
        "stored_size": message.store_size,
        "broker_name": broker_name,
        "_file": block.path,
        "_offset": None if block.base_offset is None else message.physical_offset - block.base_offset,
    }


def find_slowly(
    buffer: bytes, start: int, end: int, base_offset: int | None, *, check_crc: bool
) -> tuple[list[int], int, Stop]:
    """Return what ``find_records`` must find: the starts, where it stops and why, one record after the other."""
    starts: list[int] = []
    position = start
    while position < end:
        left = len(buffer) - position
        if left < BLANK_SIZE_MIN:
            return starts, position, Stop.INCOMPLETE
        size, magic = TOTAL_AND_MAGIC.unpack_from(buffer, position)
        record = check_message(buffer, position, left, check_crc=check_crc)
        if record.status is RecordStatus.BLANK:
            return starts, position, Stop.BLANK
        if record.status is RecordStatus.NOTHING:
            return starts, position, Stop.NOTHING
        if magic == MESSAGE_MAGIC_CODE and RECORD_SIZE_MIN <= size <= RECORD_SIZE_MAX and size > left:
            return starts, position, Stop.INCOMPLETE
        if record.status is RecordStatus.DAMAGED:
            return starts, position, Stop.DAMAGED
        if objection(record, record.physical_offset if base_offset is None else base_offset + position):
            return starts, position, Stop.DAMAGED
        starts.append(position)
        position += size
    return starts, position, Stop.END
