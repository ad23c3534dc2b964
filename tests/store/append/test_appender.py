"""Append: bytes as Java writes them, limits and statuses as RocketMQ means them, nothing visible before its burst."""

from __future__ import annotations

import pytest

from rocketpy.errors import StoreError
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import body_crc, decode_message, encode_message, pack_record_head
from rocketpy.store.append.batch import MessageBatch
from rocketpy.store.layout import UNIT
from rocketpy.store.results import GetMessageStatus, PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import (
    BORN_HOST,
    BORN_HOST_V6,
    LOG_FILE_SIZE,
    STORE_HOST,
    STORE_HOST_V6,
    Parts,
    Place,
)

VECTOR = (
    "0000009cdaa320a777d18982000000030000000000000000000000070000000000000400000000000000018bcfe568000a0000010000c350"
    "0000018bcfe5687b0a00000200002a9f0000000000000000000000000000000548656c6c6f09546f706963546573740033554e49515f4b45"
    "590141433131303030313030303031384234414143323030303030303030303030300254414753015461674 1"
).replace(" ", "")
"""A record as Java's own encoder writes it: queue 3 of TopicTest, queue offset 7, physical offset 1024."""


def record_at(parts: Parts, physical_offset: int, size: int) -> bytes:
    located = parts.commit_log.locate(physical_offset, size)
    assert located is not None
    mapped_file, position = located
    return mapped_file.file().read(position, size)


def stored(parts: Parts, physical_offset: int) -> MessageExt:
    size = int.from_bytes(record_at(parts, physical_offset, 4), "big")
    return decode_message(record_at(parts, physical_offset, size), check_crc=True, decompress=False)


def test_a_record_has_the_bytes_of_java_s(place: Place) -> None:
    parts = Parts(place)
    parts.clock.advance_ms(1_700_000_000_123 - parts.clock.timestamp_ms())
    properties = b"UNIQ_KEY\x01AC110001000018B4AAC2000000000000\x02TAGS\x01TagA"
    for _ in range(7):
        parts.put(b"", queue_id=3, properties=b"")
    filler = 1024 - parts.appender.wrote_offset - 91 - len("Other")
    parts.put(bytes(filler), "Other", properties=b"")
    _, physical_offset, queue_offset = parts.put(
        b"Hello", queue_id=3, properties=properties, born_timestamp=1_700_000_000_000
    )
    parts.appender.end_burst()
    assert (physical_offset, queue_offset) == (1024, 7)
    assert record_at(parts, 1024, 156).hex() == VECTOR


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


def test_nothing_is_visible_before_the_burst_ends(place: Place) -> None:
    parts = Parts(place)
    parts.put(b"one")
    assert parts.appender.has_pending
    assert parts.get().status is GetMessageStatus.NO_MESSAGE_IN_QUEUE
    assert parts.commit_log.wrote_offset == 0 < parts.appender.wrote_offset
    assert parts.arrivals == []
    parts.put(b"two")
    parts.put(b"three", "Other", 1)
    parts.appender.end_burst()
    assert parts.bodies() == [b"one", b"two"]
    assert parts.arrivals == [("TopicTest", 0, 2), ("Other", 1, 1)], "one note for each queue"
    parts.appender.end_burst()
    assert len(parts.arrivals) == 2


def test_a_burst_is_one_write_per_file(place: Place) -> None:
    if not isinstance(place.disk, SimDisk):
        pytest.skip("only the simulated disk counts")
    parts = Parts(place)
    parts.put_all([b"first"])
    before = place.disk.calls["write"]
    parts.put_all([b"body"] * 10)
    assert place.disk.calls["write"] == before + 2


def test_append_rolls_to_the_next_file_when_the_tail_is_too_small(place: Place) -> None:
    parts = Parts(place)
    size = 91 + len("TopicTest") + len("TAGS\x01TagA") + 100
    fitting = (LOG_FILE_SIZE - 8) // size
    places = parts.put_all([b"x" * 100] * (fitting + 1))
    assert places[-1] == LOG_FILE_SIZE
    assert parts.bodies() == [b"x" * 100] * (fitting + 1)
    end = fitting * size
    blank = record_at(parts, end, 8)
    assert int.from_bytes(blank[:4], "big") == LOG_FILE_SIZE - end
    assert blank[4:].hex() == "cbd43194"
    assert parts.allocator.prepared == [place.log_file(LOG_FILE_SIZE), place.log_file(2 * LOG_FILE_SIZE)]


def test_a_store_with_an_ipv6_address_stores_all_of_it(place: Place) -> None:
    """Every message, not only those that look unusual themselves."""
    parts = Parts(place, store_host=STORE_HOST_V6)
    parts.put_all([b"one", b"two", b"three"])
    assert len({message.store_host for message in parts.messages()}) == 1
    assert {message.sys_flag for message in parts.messages()} == {0x20}


@pytest.mark.parametrize("left", range(14))
def test_a_record_needs_eight_bytes_after_it(place: Place, left: int) -> None:
    parts = Parts(place)
    first = LOG_FILE_SIZE // 2
    parts.put_all([b"x" * (first - 91 - 9 - 9)])
    second = LOG_FILE_SIZE - first - left
    (physical_offset,) = parts.put_all([b"x" * (second - 91 - 9 - 9)])
    assert physical_offset == (first if left >= 8 else LOG_FILE_SIZE)
    parts.kill()
    assert Parts(place, is_clean=False).commit_log.wrote_offset == physical_offset + second


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


def test_limits_and_what_they_are_called(place: Place) -> None:
    parts = Parts(place, message_size_max=1000, log_file_size=1 << 17)
    ok, illegal = PutMessageStatus.PUT_OK, PutMessageStatus.MESSAGE_ILLEGAL
    cases: list[tuple[PutMessageStatus, str, bytes, bytes]] = [
        (ok, "t" * 127, b"", b""),
        (illegal, "t" * 128, b"", b""),
        (ok, "ü" * 63, b"", b""),
        (illegal, "ü" * 64, b"", b""),
        (illegal, "", b"", b""),
        (illegal, "..", b"", b""),
        (illegal, "a/b", b"", b""),
        (illegal, "a\0b", b"", b""),
        (ok, "T", b"x" * 1000, b""),
        (illegal, "T", b"x" * 1001, b""),
        (ok, "T", b"", b"p" * 32767),
        (illegal, "T", b"", b"p" * 32768),
        (PutMessageStatus.PROPERTIES_SIZE_EXCEEDED, "T", b"", "ü".encode() * 20_000),
        (illegal, "T", b"", b"A\x01b\0"),
    ]
    accepted = 0
    for expected, topic, body, properties in cases:
        status, physical_offset, _ = parts.put(body, topic, properties=properties)
        assert status is expected, (topic, len(body), len(properties))
        assert (physical_offset == -1) is (status is not ok)
        accepted += status is ok
    assert parts.appender.refused_count == len(cases) - accepted
    assert parts.put(b"", queue_id=-1)[0] is illegal
    assert parts.put(b"", queue_id=1 << 31)[0] is illegal
    assert parts.put(b"")[0] is ok
    for field in ("flag", "born_timestamp", "reconsume_times", "prepared_transaction_offset"):
        assert parts.put(b"", **{field: 1 << 63})[0] is illegal, field  # type: ignore[arg-type]
    parts.appender.end_burst()
    assert parts.put(b"last")[2] == 1
    parts.appender.end_burst()
    parts.kill()
    assert Parts(place, is_clean=False, log_file_size=1 << 17).report.why == ""


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


def test_a_record_larger_than_a_file_is_illegal(place: Place) -> None:
    parts = Parts(place, message_size_max=1 << 20)
    assert parts.put(b"x" * LOG_FILE_SIZE)[0] is PutMessageStatus.MESSAGE_ILLEGAL
    assert parts.put(b"x" * (LOG_FILE_SIZE - 8 - 91 - 18))[0] is PutMessageStatus.PUT_OK


def test_a_transaction_s_prepared_and_rolled_back_records_have_no_queue_offset(place: Place) -> None:
    parts = Parts(place)
    assert parts.put(b"plain")[2] == 0
    status, physical_offset, queue_offset = parts.put(b"half", sys_flag=0x4, keys=(b"k1",))
    assert (status, queue_offset) == (PutMessageStatus.PUT_OK, 0)
    parts.put(b"gone", sys_flag=0xC, keys=(b"k2",))
    assert parts.put(b"done", sys_flag=0x8, keys=(b"k3",), prepared_transaction_offset=physical_offset)[2] == 1
    parts.appender.end_burst()
    assert parts.bodies() == [b"plain", b"done"]
    assert [work[1] for work in parts.index_work] == [(b"k1",), (b"k3",)], "a rollback is not indexed"


def test_batches_of_transactions_are_illegal(place: Place) -> None:
    parts = Parts(place)
    for sys_flag in (0x4, 0x8, 0xC):
        status, _, _ = parts.appender.put_batch(
            "T", 0, MessageBatch.of([(0, b"", b"", 0, ())]), sys_flag, 1, BORN_HOST, 0
        )
        assert status is PutMessageStatus.MESSAGE_ILLEGAL


def test_a_burst_s_pending_bytes_are_bounded(place: Place) -> None:
    """An endless burst must not fill the memory: at a bound the log is written, still invisible to readers."""
    parts = Parts(place, log_file_size=16 << 20, message_size_max=1 << 20)
    for _ in range(10):
        parts.put(b"x" * (1 << 20))
    assert parts.appender.wrote_offset - parts.commit_log.wrote_offset <= 5 << 20
    assert parts.queues.find("TopicTest", 0).max_offset == 0
    parts.appender.end_burst()
    assert len(parts.messages()) == 10


def test_index_work_names_what_was_stored(place: Place) -> None:
    parts = Parts(place)
    _, physical_offset, _ = parts.put(b"body", keys=(b"u", b"k"))
    parts.put(b"body")
    assert parts.index_work == [("TopicTest", (b"u", b"k"), physical_offset, parts.clock.timestamp_ms())]


def test_messages_are_refused_while_the_index_has_no_space(place: Place) -> None:
    parts = Parts(place)
    parts.put_all([b"one"])
    assert parts.index.burst_count == 1
    parts.index.no_space = "the index has no space"
    parts.put(b"two")
    parts.appender.end_burst()
    assert parts.put(b"three")[0] is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert parts.appender.writable_or_why() == "the index has no space"
    parts.index.no_space = None
    assert parts.put(b"four")[0] is PutMessageStatus.PUT_OK
    parts.appender.end_burst()
    assert parts.bodies() == [b"one", b"two", b"four"]


def test_messages_are_refused_while_a_refusal_is_set(place: Place) -> None:
    parts = Parts(place)
    parts.put(b"before")
    parts.appender.refuse_while("the disk is 91% full")
    assert parts.put(b"no")[0] is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert (
        parts.appender.put_batch("TopicTest", 0, MessageBatch.of([(0, b"no", b"", 0, ())]), 0, 1, BORN_HOST, 0)[2] == -1
    )
    assert parts.appender.writable_or_why() == "the disk is 91% full"
    parts.appender.end_burst()
    assert parts.put(b"still not")[0] is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert parts.bodies() == [b"before"], "what was accepted is there"
    parts.appender.refuse_while(None)
    parts.put_all([b"after"])
    assert parts.bodies() == [b"before", b"after"]


def test_a_full_disk_refuses_and_takes_messages_again_when_there_is_space() -> None:
    """Sends are refused with path and free space, reads go on, and space is looked for at most once a second."""
    disk = SimDisk(capacity_bytes=5 * LOG_FILE_SIZE)
    parts = Parts(Place(disk, "/store"))
    accepted = []
    status = PutMessageStatus.PUT_OK
    while status is PutMessageStatus.PUT_OK:
        body = b"%06d" % len(accepted) * 20
        status, _, _ = parts.put(body)
        if status is PutMessageStatus.PUT_OK:
            accepted.append(body)
        assert len(accepted) < 1000
    parts.appender.end_burst()
    assert status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    why = parts.appender.writable_or_why()
    assert why is not None
    assert "/store/" in why
    assert "bytes free" in why
    assert parts.bodies() == accepted

    calls = disk.calls["reserve"]
    assert parts.put(b"again")[0] is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert disk.calls["reserve"] == calls, "not asked again so soon"
    disk.capacity_bytes *= 2
    assert parts.put(b"again")[0] is PutMessageStatus.SERVICE_NOT_AVAILABLE
    parts.clock.advance_ms(1000)
    assert parts.put(b"again")[0] is PutMessageStatus.PUT_OK
    assert parts.appender.writable_or_why() is None
    parts.appender.end_burst()
    assert parts.bodies() == [*accepted, b"again"]
    parts.kill()
    assert Parts(Place(disk, "/store"), is_clean=False).bodies() == [*accepted, b"again"]


def test_a_queue_without_space_for_its_units_refuses_too() -> None:
    disk = SimDisk(capacity_bytes=LOG_FILE_SIZE + 3 * 4096)
    parts = Parts(Place(disk, "/store"))
    assert parts.put(b"one", queue_id=0)[0] is PutMessageStatus.PUT_OK
    status = PutMessageStatus.PUT_OK
    for queue_id in range(1, 10):
        status, _, _ = parts.put(b"other", queue_id=queue_id)
        if status is not PutMessageStatus.PUT_OK:
            break
    assert status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    parts.appender.end_burst()
    assert parts.bodies() == [b"one"]


@pytest.mark.parametrize("call", [1, 2])
def test_a_write_that_fails_is_final(call: int) -> None:
    """Log, then units: neither may be lost without the store coming to an end."""
    disk = SimDisk()
    parts = Parts(Place(disk, "/store"))
    parts.put_all([b"one"])
    disk.fail_call("write", call)
    parts.put(b"two")
    with pytest.raises(StoreError):
        parts.appender.end_burst()
    assert parts.put(b"three")[0] is PutMessageStatus.SERVICE_NOT_AVAILABLE
    why = parts.appender.writable_or_why()
    assert why is not None
    assert "write failed" in why


def test_after_refuse_all_nothing_is_taken(place: Place) -> None:
    parts = Parts(place)
    parts.put_all([b"one"])
    parts.appender.refuse_all("the message store is shutting down")
    assert parts.put(b"two")[0] is PutMessageStatus.SERVICE_NOT_AVAILABLE
    status, _, _ = parts.appender.put_batch("T", 0, MessageBatch.of([(0, b"", b"", 0, ())]), 0, 1, BORN_HOST, 0)
    assert status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert parts.appender.writable_or_why() == "the message store is shutting down"
    parts.appender.end_burst()
    assert parts.bodies() == [b"one"]


def test_units_are_written_over_file_ends(place: Place) -> None:
    parts = Parts(place, log_file_size=1 << 16, queue_file_size=100)
    parts.put_all([b"x"] * 23)
    assert [place.disk.file_size(place.queue_file("TopicTest", 0, base)) for base in range(0, 500, 100)] == [100] * 5
    first = UNIT.unpack_from(place.read(place.queue_file("TopicTest", 0, 400)), 2 * 20)
    assert first[0] == parts.messages()[22].physical_offset


@pytest.mark.parametrize("sys_flag", [0, 0x108, 0x4, 0x10])
def test_a_put_packs_the_head_that_the_protocol_packs(place: Place, sys_flag: int) -> None:
    """Of a plain message the packing is inlined; another order of fields would be another format."""
    parts = Parts(place)
    parts.put(b"makes room", queue_id=3)
    body, properties = b"a body", b""
    _, physical_offset, queue_offset = parts.appender.put(
        "TopicTest", 3, body, properties, 1, (), -2, sys_flag, 5, BORN_HOST, 6, 7
    )
    parts.appender.end_burst()
    size = 88 + len(body) + 1 + len("TopicTest") + 2 + len(properties)
    crc, timestamp_ms = body_crc(body), parts.clock.timestamp_ms()
    assert record_at(parts, physical_offset, 88) == pack_record_head(
        size, crc, 3, -2, queue_offset, physical_offset, sys_flag, 5, BORN_HOST, timestamp_ms, STORE_HOST, 6, 7, 6
    )
