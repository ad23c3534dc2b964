"""Contents of an open store, read through its public calls, as values of the reference model.

A queue is read by its units and the log by walking from record to record, so that the two can be held against each
other. A unit's tags code is read too, by a filter that takes everything and takes note. Nothing is judged here: what a
reader would get is shown, right or wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import attrs

from rocketpy.protocol.java_hash import tags_code as hash_of_tags
from rocketpy.protocol.properties import PROPERTY_DELAY_TIME_LEVEL, PROPERTY_TAGS
from rocketpy.protocol.stored_message import RecordStatus, check_message, decode_message
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC
from rocketpy.store.message_store import MessageStore
from rocketpy.testing.store_model import Sent

_READ_MAX = 32


def delay_ms(level: int) -> int:
    """Return how long a delayed message waits."""
    return 1000 * level


def tags_code_of(topic: str, properties: Mapping[str, str], store_timestamp_ms: int) -> int:
    """Return what a unit made from a record says: when it is to be delivered, or the hash of its tags."""
    if topic == SCHEDULE_TOPIC:
        return store_timestamp_ms + delay_ms(int(properties[PROPERTY_DELAY_TIME_LEVEL]))
    return hash_of_tags(properties.get(PROPERTY_TAGS))


async def read_contents(
    store: MessageStore, log_file_offsets: Sequence[int]
) -> tuple[dict[tuple[str, int], list[Sent]], list[Sent]]:
    """Return every queue and the log; ``log_file_offsets`` is where its files begin, in order."""
    tags_codes: dict[int, int] = {}
    queues = {key: await _read_queue(store, *key, tags_codes) for key in store.queues()}
    return queues, await _read_log(store, log_file_offsets, tags_codes)


async def _read_queue(store: MessageStore, topic: str, queue_id: int, tags_codes: dict[int, int]) -> list[Sent]:
    """Return the messages that a queue's units lead to; one that leads to no message is left out."""
    messages: list[Sent] = []
    queue_offset = store.min_offset_in_queue(topic, queue_id)
    max_msg_nums = _READ_MAX
    while queue_offset < store.max_offset_in_queue(topic, queue_id):
        notes = _TakesNote([])
        result = store.get_message_nowait(topic, queue_id, queue_offset, max_msg_nums, notes)
        if result is None:
            notes = _TakesNote([])
            result = await store.get_message(topic, queue_id, queue_offset, max_msg_nums, notes)
        records = _records(result.body)
        if records is None and max_msg_nums > 1:
            max_msg_nums = 1  # from here on one by one, to lose only those that lead to no message
            continue
        for record, tags_code in zip(records or (), notes.tags_codes, strict=False):
            messages.append(message := _sent(record, tags_code))
            tags_codes[message.physical_offset] = tags_code
        queue_offset = max(queue_offset + 1, result.next_begin_offset)
    return messages


async def _read_log(store: MessageStore, log_file_offsets: Sequence[int], tags_codes: Mapping[int, int]) -> list[Sent]:
    """Return the messages of the log, each with its unit's tags code, or the one that a unit would get."""
    messages: list[Sent] = []
    physical_offset, end = store.min_physical_offset, store.max_physical_offset
    while physical_offset < end:
        record = await store.record_at(physical_offset)
        if record is not None and _records(record) is not None:
            messages.append(_sent(record, tags_codes.get(physical_offset)))
            physical_offset += len(record)
        else:  # a BLANK, or no whole record: it goes on in the next file
            physical_offset = min((each for each in log_file_offsets if each > physical_offset), default=end)
    return messages


@attrs.frozen
class _TakesNote:
    """A filter that matches everything, and records the tags codes."""

    tags_codes: list[int]
    needs_record: bool = False

    def is_matched_by_consume_queue(self, tags_code: int, ext: object = None) -> bool:
        self.tags_codes.append(tags_code)
        return True

    def is_matched_by_commit_log(self, record: bytes) -> bool:
        raise AssertionError("it does not need the record")


def _records(body: bytes) -> list[bytes] | None:
    """Return the records that an answer is made of, None if it is not made of records."""
    records = []
    position = 0
    while position < len(body):
        checked = check_message(body, position, len(body) - position, check_crc=False)
        if checked.status is not RecordStatus.MESSAGE:
            return None
        records.append(body[position : position + checked.size])
        position += checked.size
    return records


@lru_cache(maxsize=10_000)  # most records are read in every life, through their queue and by walking the log
def _sent(record: bytes, tags_code: int | None) -> Sent:
    checked = check_message(record, 0, len(record), check_crc=False)
    message = decode_message(record, decompress=False)
    if tags_code is None:
        tags_code = tags_code_of(message.topic, checked.properties, message.store_timestamp)
    if message.topic == SCHEDULE_TOPIC:
        # A time of delivery counts from when the message was sent, or stored: what the model knows is the delay.
        delay = delay_ms(int(checked.properties[PROPERTY_DELAY_TIME_LEVEL]))
        if tags_code - delay in (message.born_timestamp, message.store_timestamp):
            tags_code = delay
    return Sent(
        message.topic,
        message.queue_id,
        message.queue_offset,
        message.physical_offset,
        message.body,
        checked.properties_text,
        message.flag,
        tags_code,
    )
