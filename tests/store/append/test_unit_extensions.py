"""Units of accepted messages get extensions: of single messages, of batches, and not of what is refused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from rocketpy.protocol.java_hash import tags_code
from rocketpy.store.append.batch import MessageBatch
from rocketpy.store.append.unit_extensions import UnitExtensions
from rocketpy.store.queue.extension import BitMapOf, CqExtUnit, ExtLocation, is_ext_address
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import BORN_HOST, Parts, Place


def bit_map_of(topic: str, properties: Mapping[str, str]) -> bytes | None:
    return f"{topic}:{properties['a']}".encode() if "a" in properties else None


def parts_at(place: Place, *, has_multi_dispatch: bool = False, bit_map_of: BitMapOf = bit_map_of) -> Parts:
    return Parts(
        place,
        ext_location=ExtLocation(f"{place.root}/consumequeue_ext", 1 << 16, is_written=True),
        unit_extensions=UnitExtensions(bit_map_of=bit_map_of),
        has_multi_dispatch=has_multi_dispatch,
    )


def ext_units(parts: Parts, topic: str, queue_id: int = 0) -> list[CqExtUnit | int | None]:
    """The units of a queue: those at their addresses, or plain tags codes."""
    queue = parts.queues.find(topic, queue_id)
    codes = [queue.unit_at(number)[2] for number in range(queue.max_offset)]
    return [queue.ext_unit(code) if is_ext_address(code) else code for code in codes]


def test_single_messages_and_batches_are_extended(place: Place) -> None:
    parts = parts_at(place)
    code, timestamp_ms = tags_code("TagA"), parts.clock.timestamp_ms()
    assert parts.put(b"1", "T", properties=b"a\x01x")[0] is PutMessageStatus.PUT_OK
    assert parts.put(b"2", "T", properties=b"b\x01x")[0] is PutMessageStatus.PUT_OK
    records = [(0, b"3", b"a\x01y", 5, ()), (0, b"4", b"a\x01z", 6, ())]
    assert parts.appender.put_batch("T", 0, MessageBatch.of(records), 0, 1, BORN_HOST, 0)[0] is PutMessageStatus.PUT_OK
    parts.appender.end_burst()
    assert ext_units(parts, "T") == [
        CqExtUnit(code, timestamp_ms, b"T:x"),
        CqExtUnit(code, timestamp_ms),
        CqExtUnit(5, timestamp_ms, b"T:y"),
        CqExtUnit(6, timestamp_ms, b"T:z"),
    ]
    assert parts.bodies("T") == [b"1", b"2", b"3", b"4"]


def test_named_queues_hold_plain_tags_codes(place: Place) -> None:
    parts = parts_at(place, has_multi_dispatch=True)
    parts.put(b"1", "T", properties=b"a\x01x\x02INNER_MULTI_DISPATCH\x01%LMQ%l,Other")
    parts.appender.end_burst()
    code = tags_code("TagA")
    assert ext_units(parts, "T") == [CqExtUnit(code, parts.clock.timestamp_ms(), b"T:x")]
    assert ext_units(parts, "%LMQ%l") == ext_units(parts, "Other") == [code]


def test_what_is_refused_gets_no_extension(place: Place) -> None:
    parts = parts_at(place)
    assert parts.put(b"", "T", flag=1 << 40)[0] is PutMessageStatus.MESSAGE_ILLEGAL
    assert parts.put(b"", "T", queue_id=-1)[0] is PutMessageStatus.MESSAGE_ILLEGAL
    status, _, _ = parts.appender.put_batch("T", 0, MessageBatch.of([(1 << 40, b"", b"", 0, ())]), 0, 1, BORN_HOST, 0)
    assert status is PutMessageStatus.MESSAGE_ILLEGAL
    assert parts.put(b"", "T", sys_flag=0x4)[0] is PutMessageStatus.PUT_OK, "without a unit"
    parts.appender.end_burst()
    assert not place.disk.is_directory(f"{place.root}/consumequeue_ext/T")


def test_without_space_for_an_extension_the_tags_code_is_plain() -> None:
    disk = SimDisk()
    parts = parts_at(Place(disk, "/store"), bit_map_of=lambda topic, properties: bytes(4000))
    parts.put(b"", "T")
    parts.appender.end_burst()
    disk.capacity_bytes = 0
    for _ in range(19):
        assert parts.put(b"", "T")[0] is PutMessageStatus.PUT_OK
    parts.appender.end_burst()
    assert {type(each) for each in ext_units(parts, "T")} == {CqExtUnit, int}
    assert ext_units(parts, "T")[-1] == tags_code("TagA")


@pytest.mark.parametrize("is_batch", [False, True])
def test_a_failed_write_of_an_extension_is_final(is_batch: bool) -> None:
    """An extension file that is full is written when the next one begins, in the middle of a burst."""
    disk = SimDisk()
    place = Place(disk, "/store")
    parts = Parts(
        place,
        ext_location=ExtLocation(f"{place.root}/consumequeue_ext", 64, is_written=True),
        unit_extensions=UnitExtensions(bit_map_of=None),
    )
    parts.put(b"1", "T")
    disk.fail_call("write", 1)
    with pytest.raises(Exception, match="write"):
        for _ in range(5):
            if is_batch:
                parts.appender.put_batch("T", 0, MessageBatch.of([(0, b"", b"", 0, ())] * 2), 0, 1, BORN_HOST, 0)
            else:
                parts.put(b"2", "T")
    assert parts.put(b"3", "T")[0] is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert (parts.appender.writable_or_why() or "").startswith("a write failed: ")
