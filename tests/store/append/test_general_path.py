"""General path: every kind of message and batch, with RocketMQ's limits under RocketMQ's statuses."""

from __future__ import annotations

import pytest

from rocketpy.protocol.stored_message import encode_message
from rocketpy.store.append.batch import MessageBatch
from rocketpy.store.results import PutMessageStatus
from tests.store.append.records import record_at, stored
from tests.store.parts import BORN_HOST, BORN_HOST_V6, LOG_FILE_SIZE, STORE_HOST, STORE_HOST_V6, Parts, Place


@pytest.mark.parametrize("born_host", [BORN_HOST, BORN_HOST_V6])
@pytest.mark.parametrize("store_host", [STORE_HOST, STORE_HOST_V6])
@pytest.mark.parametrize("is_batch", [False, True])
def test_every_field_arrives_with_either_address_family(
    place: Place, born_host: bytes, store_host: bytes, is_batch: bool
) -> None:
    parts = Parts(place, store_host=store_host)
    if is_batch:
        record = (7, b"body", b"A\x01b", 5, ())
        status, offsets, queue_offset = parts.appender.put_batch(
            "T", 2, MessageBatch.of([record]), 0x131, 1234, born_host, 3
        )
        physical_offset = offsets[0]
    else:
        status, physical_offset, queue_offset = parts.appender.put(
            "T", 2, b"body", b"A\x01b", 5, (), 7, 0x131, 1234, born_host, 3, 99
        )
    parts.appender.end_burst()
    assert (status, queue_offset) == (PutMessageStatus.PUT_OK, 0)
    message = stored(parts, physical_offset)
    assert (message.topic, message.queue_id, message.flag, message.reconsume_times) == ("T", 2, 7, 3)
    assert (message.born_timestamp, message.store_timestamp) == (1234, parts.clock.timestamp_ms())
    assert message.prepared_transaction_offset == (0 if is_batch else 99)
    flags = (0x10 if born_host is BORN_HOST_V6 else 0) | (0x20 if store_host is STORE_HOST_V6 else 0)
    assert message.sys_flag == 0x101 | flags, "the address bits are ours to set, whatever a client sends"
    size = int.from_bytes(record_at(parts, physical_offset, 4), "big")
    assert encode_message(message) == record_at(parts, physical_offset, size)
    assert parts.queues.find("T", 2).unit_at(0) == (physical_offset, size, 5)


def test_a_store_with_an_ipv6_address_stores_all_of_it(place: Place) -> None:
    """Every message, not only those that look unusual themselves."""
    parts = Parts(place, store_host=STORE_HOST_V6)
    parts.put_all([b"one", b"two", b"three"])
    assert len({message.store_host for message in parts.messages()}) == 1
    assert {message.sys_flag for message in parts.messages()} == {0x20}


def test_a_batch_goes_into_one_file_as_a_whole(place: Place) -> None:
    parts = Parts(place)
    parts.put_all([b"x" * 4000])
    records = [(0, b"y" * 1000, b"KEYS\x01k", 0, (b"k",)) for _ in range(4)]
    status, offsets, queue_offset = parts.appender.put_batch(
        "TopicTest", 0, MessageBatch.of(records), 0, 1, BORN_HOST, 0
    )
    parts.appender.end_burst()
    assert (status, queue_offset) == (PutMessageStatus.PUT_OK, 1)
    assert offsets[0] == LOG_FILE_SIZE
    assert [stored(parts, each).queue_offset for each in offsets] == [1, 2, 3, 4]
    assert [work[2] for work in parts.index_work] == offsets
    assert len({stored(parts, each).store_timestamp for each in offsets}) == 1


def test_a_batch_that_fits_into_no_file_stores_nothing(place: Place) -> None:
    parts = Parts(place, message_size_max=1 << 20)
    records = [(0, b"y" * 1000, b"", 0, ())] * 9
    status, offsets, _ = parts.appender.put_batch("TopicTest", 0, MessageBatch.of(records), 0, 1, BORN_HOST, 0)
    assert (status, offsets) == (PutMessageStatus.MESSAGE_ILLEGAL, [])
    assert parts.appender.wrote_offset == 0


def test_batches_have_the_same_limits(place: Place) -> None:
    parts = Parts(place, message_size_max=1000, log_file_size=1 << 17)
    ok, illegal = PutMessageStatus.PUT_OK, PutMessageStatus.MESSAGE_ILLEGAL
    cases: list[tuple[PutMessageStatus, str, bytes, bytes]] = [
        (ok, "t" * 127, b"", b""),
        (illegal, "t" * 128, b"", b""),
        (ok, "T", b"x" * 500, b""),
        (illegal, "T", b"x" * 501, b""),  # together 1002
        (ok, "T", b"", b"p" * 32767),
        (illegal, "T", b"", b"p" * 32768),  # RocketMQ does not look, and damages the log
        (PutMessageStatus.PROPERTIES_SIZE_EXCEEDED, "T", b"", "ü".encode() * 20_000),
        (illegal, "T", b"", b"A\x01b\0"),
    ]
    for expected, topic, body, properties in cases:
        records = [(0, body, b"", 0, ()), (0, body, properties, 0, ())]
        before = parts.appender.wrote_offset
        status, offsets, _ = parts.appender.put_batch(topic, 0, MessageBatch.of(records), 0, 1, BORN_HOST, 0)
        assert status is expected, (topic, len(body), len(properties))
        assert (offsets == []) is (status is not ok)
        assert (parts.appender.wrote_offset == before) is (status is not ok)
    assert parts.appender.put_batch("T", 0, MessageBatch.of([]), 0, 1, BORN_HOST, 0)[0] is illegal


def test_a_store_that_takes_nothing_says_so_before_it_looks_at_a_message(place: Place) -> None:
    """RocketMQ's first check is the store's own state, whatever is wrong with the message."""
    parts = Parts(place)
    parts.appender.refuse_all("the message store is shutting down")
    for topic, properties in (("", b""), ("T" * 128, b""), ("T", b"p" * 40_000), ("T", b"\0")):
        assert parts.put(b"", topic, properties=properties)[0] is PutMessageStatus.SERVICE_NOT_AVAILABLE


def test_batches_of_transactions_are_illegal(place: Place) -> None:
    parts = Parts(place)
    for sys_flag in (0x4, 0x8, 0xC):
        status, _, _ = parts.appender.put_batch(
            "T", 0, MessageBatch.of([(0, b"", b"", 0, ())]), sys_flag, 1, BORN_HOST, 0
        )
        assert status is PutMessageStatus.MESSAGE_ILLEGAL
