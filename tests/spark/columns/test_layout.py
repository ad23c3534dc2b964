"""Unaligned reads, and the positions of the parts of records."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import numpy as np

from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import RecordStatus, check_message, encode_message
from rocketpy.spark.columns.layout import (
    checked_layout,
    head_positions,
    layout_of,
    read_int16,
    read_int32,
    read_int64,
    read_uint8,
)

BUFFER = bytes(range(200, 250))


@pytest.mark.parametrize(
    ("read", "size", "is_signed"),
    [(read_uint8, 1, False), (read_int16, 2, True), (read_int32, 4, True), (read_int64, 8, True)],
)
def test_numbers_are_read_at_any_position_as_python_reads_them(read, size: int, is_signed: bool) -> None:
    positions = np.arange(len(BUFFER) - size + 1)
    expected = [int.from_bytes(BUFFER[each : each + size], "big", signed=is_signed) for each in positions]
    assert read(BUFFER, positions).tolist() == expected
    assert read(memoryview(BUFFER), positions[::-3]).tolist() == expected[::-3]


def test_no_position_reads_nothing_of_any_buffer() -> None:
    for buffer in (b"", b"abc", BUFFER):
        assert read_int64(buffer, np.array([], np.int64)).tolist() == []


@pytest.mark.parametrize("born", ["1.2.3.4:5", "[2001:db8::1]:5"])
@pytest.mark.parametrize("store", ["5.6.7.8:9", "[2001:db8::2]:9"])
def test_parts_are_where_the_encoder_puts_them(born: str, store: str) -> None:
    message = MessageExt(
        "topic",
        b"the body",
        {"k": "v"},
        born_host=born,
        store_host=store,
        store_timestamp=0x1234567890,
        reconsume_times=77,
    )
    plain = encode_message(MessageExt("t", b""))
    record = encode_message(message)
    buffer = plain + record + plain
    starts, sizes = np.array([0, len(plain), len(plain + record)]), np.array([len(plain), len(record), len(plain)])
    layout, consistent = checked_layout(buffer, starts, sizes)
    assert consistent.all()
    trusted = layout_of(buffer, starts, sizes)
    for name in ("ends", "store_timestamps", "reconsume_times", "body_starts", "body_ends", "topic_starts"):
        assert getattr(layout, name).tolist() == getattr(trusted, name).tolist()
    assert buffer[trusted.body_starts[1] : trusted.body_ends[1]] == b"the body"
    assert buffer[trusted.topic_starts[1] : trusted.topic_ends[1]] == b"topic"
    assert buffer[trusted.properties_starts[1] : trusted.ends[1]] == b"k\1v"
    assert read_int64(buffer, trusted.store_timestamps).tolist() == [0, 0x1234567890, 0]
    assert read_int32(buffer, trusted.reconsume_times).tolist() == [0, 77, 0]
    assert head_positions(buffer, starts)[2].tolist() == trusted.body_starts.tolist()
    assert trusted.select(np.array([False, True, False])).topic_ends.tolist() == [trusted.topic_ends[1]]


def test_lengths_that_lead_out_of_the_buffer_are_inconsistent_and_read_nothing_there() -> None:
    record = bytearray(encode_message(MessageExt("t", b"")))
    for position in (36, 84, 88, 89, 90):
        for byte in (0x7F, 0x80, 0xFF):
            broken = bytes(record[:position]) + bytes([byte, 0xFF, 0xFF, 0xFF]) + bytes(record[position + 4 :])
            broken = broken[: len(record)]
            layout, consistent = checked_layout(broken, np.array([0]), np.array([len(broken)]))
            assert not consistent.any()
            assert layout.topic_ends[0] <= len(broken)


def is_consistent(record: bytes) -> bool:
    status = check_message(record, 0, len(record), check_crc=False).status
    _, consistent = checked_layout(record, np.array([0]), np.array([len(record)]))
    assert consistent.tolist() == [status is RecordStatus.MESSAGE]
    return status is RecordStatus.MESSAGE


@pytest.mark.parametrize("size", [126, 127, 128, 200, 255])
def test_a_topic_longer_than_a_signed_byte_is_inconsistent(size: int) -> None:
    record = encode_message(MessageExt("t", b"body"))
    record = record[:92] + bytes([size]) + b"t" * size + record[94:]
    assert is_consistent((len(record)).to_bytes(4, "big") + record[4:]) == (size < 128)


@pytest.mark.parametrize("body_size", [-5, 1])
def test_lengths_that_add_up_with_a_negative_one_are_inconsistent(body_size: int) -> None:
    """A body that ends before it begins, where the number before it happens to be the size of a topic."""
    properties = b"k\1" + b"v" * 50
    topic_end = 88 + body_size + 1 + 10
    record = bytearray(encode_message(MessageExt("t", b"x" * 100, prepared_transaction_offset=10)))
    record[84:88] = body_size.to_bytes(4, "big", signed=True)
    record[88 + body_size] = 10
    record[topic_end : topic_end + 2] = len(properties).to_bytes(2, "big")
    record[topic_end + 2 :] = properties
    record[:4] = len(record).to_bytes(4, "big")
    assert is_consistent(bytes(record)) == (body_size > 0)
