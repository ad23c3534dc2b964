"""Placeholders and fillers are valid records of exactly the size that is wanted."""

from __future__ import annotations

import pytest

from rocketpy.protocol.stored_message import (
    RECORD_SIZE_MIN,
    CheckedMessage,
    RecordStatus,
    check_message,
    decode_message,
)
from rocketpy.store.inspection.repair.placeholders import (
    FILLER_SIZE_MIN,
    PROPERTY_DAMAGED,
    filler,
    is_placeholder,
    placeholder,
    placeholder_size,
    placeholder_size_min,
)

NOW = 1_700_000_000_000


def checked(parts: tuple[bytes, int, bytes]) -> tuple[CheckedMessage, bytes]:
    head, zero_size, tail = parts
    content = head + bytes(zero_size) + tail
    record = check_message(content, 0, len(content))
    assert (record.status, record.size) == (RecordStatus.MESSAGE, len(content)), record.why
    return record, content


@pytest.mark.parametrize("more", [0, 1, 20, 21, 22, 23, 24, 25, 100, 3_000_000])
@pytest.mark.parametrize("topic", ["T", "%RETRY%g", "ö" * 60])
def test_a_placeholder_has_the_place_and_size_of_what_is_gone(topic: str, more: int) -> None:
    size = placeholder_size_min(topic) + more
    record, content = checked(placeholder(topic, 3, 9, 4096, size, NOW))
    assert len(content) == size
    assert (record.topic, record.queue_id, record.queue_offset, record.physical_offset) == (topic, 3, 9, 4096)
    assert record.store_timestamp == NOW
    has_room = more >= placeholder_size(topic, 4096) - placeholder_size_min(topic) - 1
    assert record.properties == ({PROPERTY_DAMAGED: "4096"} if has_room else {})
    assert is_placeholder(record) is has_room
    assert decode_message(content, check_crc=True).body.strip(b"\0") == b""


def test_more_properties_only_if_there_is_room() -> None:
    record, _ = checked(placeholder("T", 0, 0, 0, 300, NOW, {"INNER_MULTI_DISPATCH": "a"}))
    assert record.properties == {PROPERTY_DAMAGED: "0", "INNER_MULTI_DISPATCH": "a"}
    record, _ = checked(placeholder("T", 0, 0, 0, 115, NOW, {"INNER_MULTI_DISPATCH": "a"}))
    assert record.properties == {PROPERTY_DAMAGED: "0"}


@pytest.mark.parametrize("size", [FILLER_SIZE_MIN, *range(100, 140), 1_000_000])
def test_a_filler_has_no_queue(size: int) -> None:
    record, content = checked(filler(512, size, NOW))
    assert len(content) == size
    assert record.sys_flag & 0xC == 0x4
    assert record.physical_offset == 512


def test_the_smallest_sizes() -> None:
    assert placeholder_size_min("T") == FILLER_SIZE_MIN == RECORD_SIZE_MIN + 1
