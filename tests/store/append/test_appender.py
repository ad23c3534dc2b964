"""Append: bytes as Java writes them, bursts that are written once, nothing visible before its burst."""

from __future__ import annotations

from typing import Any

import pytest

from rocketpy.errors import StoreError
from rocketpy.protocol.stored_message import body_crc, pack_record_head
from rocketpy.store.layout import UNIT
from rocketpy.store.results import GetMessageStatus, PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.store.append.records import record_at
from tests.store.parts import BORN_HOST, STORE_HOST, Parts, Place

VECTOR = (
    "0000009cdaa320a777d18982000000030000000000000000000000070000000000000400000000000000018bcfe568000a0000010000c350"
    "0000018bcfe5687b0a00000200002a9f0000000000000000000000000000000548656c6c6f09546f706963546573740033554e49515f4b45"
    "590141433131303030313030303031384234414143323030303030303030303030300254414753015461674 1"
).replace(" ", "")
"""A record as Java's own encoder writes it: queue 3 of TopicTest, queue offset 7, physical offset 1024."""


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


def test_units_are_written_over_file_ends(place: Place) -> None:
    parts = Parts(place, log_file_size=1 << 16, queue_file_size=100)
    parts.put_all([b"x"] * 23)
    assert [place.disk.file_size(place.queue_file("TopicTest", 0, base)) for base in range(0, 500, 100)] == [100] * 5
    first = UNIT.unpack_from(place.read(place.queue_file("TopicTest", 0, 400)), 2 * 20)
    assert first[0] == parts.messages()[22].physical_offset


def test_the_kernel_writes_what_is_packed_without_it() -> None:
    """Equal statuses, logs, units and index work; a field that does not fit is refused by both."""
    numbers = (0, 1, -1, 2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**70)
    messages: list[dict[str, Any]] = [{"body": b"first"}]
    messages += [{"body": b"b" * size} for size in (0, 1, 4096, 4097, 6000)]
    messages += [{"body": b"", "keys": (b"k", b"l"), "properties": b"a" * size} for size in (0, 1, 255, 256, 5000)]
    for name in ("flag", "sys_flag", "born_timestamp", "reconsume_times", "prepared_transaction_offset"):
        messages += [{"body": b"x", name: number} for number in numbers]
    messages += [{"body": b"x", "properties": b"TAGS\x01Tag\0"}, {"body": b"x", "topic": "T" * 127}]
    seen: list[object] = []
    for has_kernels in (False, True):
        parts = Parts(
            Place(SimDisk(), "/store"), has_kernels=has_kernels, message_size_max=10_000, log_file_size=1 << 20
        )
        outcomes = []
        for message in messages:
            parts.put(b"makes room, after which the next takes the fast path")
            outcomes.append(parts.put(**message))
        parts.appender.end_burst()
        log = record_at(parts, 0, parts.commit_log.wrote_offset)
        queue = parts.queues.find("TopicTest", 0)
        units = [queue.unit_at(offset) for offset in range(queue.max_offset)]
        seen.append((outcomes, log, units, list(parts.index_work), parts.appender.refused_count))
    assert seen[0] == seen[1]
    outcomes = seen[0][0]  # type: ignore[index]
    assert {PutMessageStatus.PUT_OK, PutMessageStatus.MESSAGE_ILLEGAL} == {outcome[0] for outcome in outcomes}
    assert outcomes[-2][0] is PutMessageStatus.MESSAGE_ILLEGAL, "a NUL"


@pytest.mark.parametrize("has_kernels", [False, True])
@pytest.mark.parametrize("sys_flag", [0, 0x108, 0x4, 0x10])
def test_a_put_packs_the_head_that_the_protocol_packs(place: Place, sys_flag: int, has_kernels: bool) -> None:
    """Of a plain message the packing is inlined; another order of fields would be another format."""
    parts = Parts(place, has_kernels=has_kernels)
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
