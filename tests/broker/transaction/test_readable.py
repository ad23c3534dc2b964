"""Records that cannot be read are skipped one by one: what lies beside them is found."""

from __future__ import annotations

import logging

import pytest

from rocketpy.broker.transaction.readable import readable_messages
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import encode_message


def record(body: bytes, topic: str = "T", physical_offset: int = 7) -> bytes:
    return encode_message(MessageExt(topic, body, {"a": "b"}, physical_offset=physical_offset))


@pytest.mark.parametrize("position", range(84, 96))
@pytest.mark.parametrize("value", [0x00, 0x7F, 0xFF])
def test_one_with_any_length_damaged_hides_no_other(
    position: int, value: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Body, topic, properties: from the first length to the end of the record. Never an exception."""
    first, last = record(b"1"), record(b"3")
    damaged = bytearray(record(b"2", physical_offset=1234))
    damaged[position] = value
    with caplog.at_level(logging.ERROR):
        found = readable_messages(first + bytes(damaged) + last)
    assert (found[0].body, found[-1].body, len(found) in (2, 3)) == (b"1", b"3", True)
    lines = [each.getMessage() for each in caplog.records]
    assert len(lines) == 3 - len(found)
    assert all(line.startswith("the record at physical offset 1234 is skipped: record at ") for line in lines)


def test_one_of_another_topic_is_none_of_the_queue(caplog: pytest.LogCaptureFixture) -> None:
    records = record(b"1") + record(b"2", "Other") + record(b"3")
    assert [each.body for each in readable_messages(records, "T")] == [b"1", b"3"]
    assert [each.getMessage() for each in caplog.records] == [
        "the record at physical offset 7 is skipped: expected a record of T, found one of 'Other'"
    ]
    assert len(readable_messages(records)) == 3


@pytest.mark.parametrize("size", [0, -1, 5, 1 << 30])
def test_a_size_that_leads_nowhere_ends_in_time(size: int) -> None:
    damaged = (size & 0xFFFFFFFF).to_bytes(4, "big") + record(b"1")[4:]
    assert readable_messages(damaged * 3) == []


def test_what_is_shorter_than_a_head_is_nothing() -> None:
    for end in range(36):
        assert readable_messages(record(b"1")[:end]) == []


def test_compressed_bodies_stay_as_they_are_stored() -> None:
    stored = encode_message(MessageExt("T", b"not really compressed", {}, sys_flag=1))
    assert readable_messages(stored)[0].body == b"not really compressed"
