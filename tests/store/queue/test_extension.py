"""ConsumeQueueExt: RocketMQ's bytes, addresses that never lead to another message, and what crashes leave."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.protocol.java_hash import tags_code
from rocketpy.store.append.unit_extensions import UnitExtensions
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.files.mapped_file import OpenFiles
from rocketpy.store.layout import EXT_ADDRESS_MAX, EXT_UNIT_SIZE_MAX, UNIT
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.queue.extension import (
    CqExtUnit,
    ExtLocation,
    is_ext_address,
    read_ext_unit,
)
from rocketpy.store.queue.table import ConsumeQueueTable
from rocketpy.testing.sim.disk import SimDisk
from tests.store.golden_store import expected, unpack_store
from tests.store.one_queue import recoveries_of, table_at
from tests.store.opened_store import opened, send
from tests.store.parts import QUEUE_FILE_SIZE, Parts, Place, flush_queues
from tests.store.queue_deletion import delete_expired_files

FILE_SIZE = 256
MIN_ADDRESS = -(1 << 63)
BITS = bytes(range(14))


def ext_location(place: Place, *, is_written: bool = True, file_size: int = FILE_SIZE) -> ExtLocation:
    return ExtLocation(f"{place.root}/consumequeue_ext", file_size, is_written)


def loaded(place: Place, *, is_written: bool = True, is_clean: bool = True) -> ConsumeQueueTable:
    """The queues that are on the disk, recovered."""
    table = table_at(place, ext_location=ext_location(place, is_written=is_written))
    for _ in table.load():
        pass
    for recovery in recoveries_of(table, place):
        recovery.recover(is_clean=is_clean, file_size=QUEUE_FILE_SIZE)
    return table


def new_table(place: Place) -> ConsumeQueueTable:
    return table_at(place, ext_location=ext_location(place))


def append(queue: ConsumeQueue, count: int, *, bit_map: bytes | None = BITS) -> list[int]:
    """Append units of 100-byte records stored at a millisecond each; return what their tagsCode fields hold."""
    queue.make_room(count)
    fields = []
    for _ in range(count):
        number = queue.next_offset
        fields.append(queue.extended_tags_code(1000 + number, 5000 + number, bit_map))
        queue.units.append(UNIT.pack(number * 100, 100, fields[-1]))
        queue.next_offset += 1
    queue.write_units()
    return fields


def seen(queue: ConsumeQueue) -> list[CqExtUnit | None]:
    return [queue.ext_unit(queue.unit_at(number)[2]) for number in range(queue.min_offset, queue.max_offset)]


def wanted(count: int, first: int = 0, bit_map: bytes = BITS) -> list[CqExtUnit]:
    return [CqExtUnit(1000 + number, 5000 + number, bit_map) for number in range(first, count)]


def ext_files(place: Place) -> list[str]:
    return place.disk.list_directory(f"{place.root}/consumequeue_ext/T/0")


# ---- the bytes ------------------------------------------------------------------------------------------------------


@given(st.integers(EXT_ADDRESS_MAX, (1 << 63) - 1), st.integers(0, 1 << 62), st.binary(max_size=200))
def test_units_read_as_they_were_written(tags_code: int, store_timestamp_ms: int, bit_map: bytes) -> None:
    unit = CqExtUnit(tags_code, store_timestamp_ms, bit_map)
    content = unit.packed()
    assert len(content) == unit.size
    assert read_ext_unit(b"before" + content + b"after", 6) == unit
    for cut in range(len(content)):
        assert read_ext_unit(content[:cut]) is None


def test_units_that_lead_nowhere_are_cleared_durably() -> None:
    """One that came back would be taken for that of another message, stored in the same millisecond."""
    disk = SimDisk()
    place = Place(disk, "/store")
    queue = new_table(place).find("T", 0)
    fields = append(queue, 3)
    assert queue.ext is not None
    (mapped_file,) = queue.ext.files
    mapped_file.file().sync()
    disk.sync_directory(queue.ext.files.path)
    queue.ext.begin(fields[0])
    syncs = disk.calls["sync"]
    queue.ext.begin(fields[0])
    assert disk.calls["sync"] == syncs, "there is nothing left to clear"
    disk.lose_power(lambda count: 0)
    content = place.read(mapped_file.path)
    assert len(content) == FILE_SIZE
    assert read_ext_unit(content) is not None
    assert not any(content[20 + len(BITS) :])


def test_what_does_not_add_up_is_no_unit() -> None:
    assert read_ext_unit(bytes(64)) is None
    assert read_ext_unit(b"\xff\xff" + bytes(62)) is None
    content = bytearray(CqExtUnit(1, 2, BITS).packed())
    content[19] += 1
    assert read_ext_unit(bytes(content) + bytes(64)) is None


def test_only_what_no_hash_and_no_time_can_be_is_an_address() -> None:
    assert is_ext_address(MIN_ADDRESS)
    assert is_ext_address(-(1 << 31) - 1)
    assert not is_ext_address(-(1 << 31))
    assert not is_ext_address(1_700_000_000_000)


def golden_lines() -> list[dict[str, Any]]:
    return expected("store-ext")["ext_units"]


@pytest.mark.parametrize("line", golden_lines(), ids=lambda line: f"{line['topic']}-{line['queueId']}")
def test_java_units_are_read_and_written_byte_for_byte(line: dict[str, Any], tmp_path: Path) -> None:
    root = unpack_store("store-ext", tmp_path)
    place = Place(OsDisk(), str(root))
    units = [CqExtUnit(each["tagsCode"], each["msgStoreTime"], bytes.fromhex(each["bitMap"])) for each in line["units"]]

    table = loaded(place, is_written=False)
    assert seen(table.find(line["topic"], line["queueId"])) == units

    before = {
        name: content
        for name, content in place.files(f"{root}/consumequeue_ext").items()
        if name.startswith(f"{line['topic']}/{line['queueId']}/")
    }
    java_fields = [unit[2] for each in _units_of(line) for unit in each["units"]]
    for directory in ("consumequeue", "consumequeue_ext"):
        shutil.rmtree(root / directory)
    table = table_at(place, file_size=6000, ext_location=ext_location(place, file_size=4096))
    queue = table.find(line["topic"], line["queueId"])
    fields = []
    for unit in units:
        fields.append(queue.extended_tags_code(unit.tags_code, unit.store_timestamp_ms, unit.bit_map or None))
        queue.write_units()
    assert fields == java_fields
    assert place.files(f"{root}/consumequeue_ext") == before


def _units_of(line: dict[str, Any]) -> list[dict[str, Any]]:
    queue = line["topic"], line["queueId"]
    return [each for each in expected("store-ext")["units"] if (each["topic"], each["queueId"]) == queue]


# ---- writing --------------------------------------------------------------------------------------------------------


def test_addresses_are_offsets_with_the_sign_bit(place: Place) -> None:
    queue = new_table(place).find("T", 0)
    assert append(queue, 3) == [MIN_ADDRESS, MIN_ADDRESS + 34, MIN_ADDRESS + 68]
    assert seen(queue) == wanted(3)
    assert queue.ext_unit(7) is None
    assert queue.ext_unit(MIN_ADDRESS + 102) is None
    assert queue.ext_unit(MIN_ADDRESS + 10_000) is None


def test_no_unit_crosses_a_file_and_four_bytes_stay_free(place: Place) -> None:
    """7 units of 34 bytes would leave 18 of 256 bytes, 8 would not fit; 252 of them leave exactly 4."""
    queue = new_table(place).find("T", 0)
    fields = append(queue, 8)
    assert fields[7] == MIN_ADDRESS + FILE_SIZE
    assert ext_files(place) == [f"{0:020d}", f"{FILE_SIZE:020d}"]
    content = place.read(f"{place.root}/consumequeue_ext/T/0/{0:020d}")
    assert content[238:240] == b"\xff\xff"
    assert not any(content[240:])
    append(queue, 5)
    exact = queue.extended_tags_code(1, 2, bytes(FILE_SIZE - 6 * 34 - 4 - 20))
    assert exact == MIN_ADDRESS + FILE_SIZE + 6 * 34
    assert queue.extended_tags_code(1, 2, None) == MIN_ADDRESS + 2 * FILE_SIZE
    queue.write_units()
    assert place.read(f"{place.root}/consumequeue_ext/T/0/{FILE_SIZE:020d}")[-4:-2] == b"\xff\xff"


def test_what_cannot_be_stored_leaves_the_plain_tags_code(place: Place) -> None:
    queue = new_table(place).find("T", 0)
    append(queue, 1)
    assert queue.extended_tags_code(1, 2, bytes(EXT_UNIT_SIZE_MAX)) == 1, "too long for any file"
    assert queue.extended_tags_code(1, 2, bytes(FILE_SIZE)) == 1, "three files were too short"
    assert queue.ext is not None
    queue.ext.begin(EXT_ADDRESS_MAX)  # the queue's last unit leads there, so the next one goes after it
    assert queue.extended_tags_code(1, 2, None) == 1, "no addresses left"


def test_space_is_reserved_in_steps_and_a_full_disk_costs_the_extension_only() -> None:
    disk = SimDisk(capacity_bytes=8192)
    place = Place(disk, "/store")
    queue = ConsumeQueue(
        "T",
        0,
        tails={},
        path=f"{place.consume_queue}/T/0",
        disk=disk,
        open_files=OpenFiles(disk=disk, open_max=8),
        file_size=4000,
        ext_location=ext_location(place, file_size=1 << 20),
    )
    append(queue, 4096 // 34)
    assert queue.extended_tags_code(7, 8, BITS) == 7
    disk.capacity_bytes *= 2
    assert is_ext_address(queue.extended_tags_code(7, 8, BITS))
    assert disk.calls["reserve"] < 20


# ---- durability -----------------------------------------------------------------------------------------------------


def test_a_flush_of_a_queue_makes_its_extension_durable() -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    table = new_table(place)
    queue = table.find("T", 0)
    append(queue, 10)
    table.unflushed[queue] = None
    flush_queues(table)
    append(queue, 3)
    disk.lose_power(lambda count: 0)
    again = loaded(place, is_clean=False).find("T", 0)
    assert seen(again) == wanted(10)


# ---- ends -----------------------------------------------------------------------------------------------------------


def test_a_new_run_continues_after_the_last_address(place: Place) -> None:
    append(new_table(place).find("T", 0), 9)
    queue = loaded(place).find("T", 0)
    assert append(queue, 2) == [MIN_ADDRESS + FILE_SIZE + 68, MIN_ADDRESS + FILE_SIZE + 102]
    assert seen(queue) == wanted(11)


def test_bytes_after_the_last_address_are_cleared(place: Place) -> None:
    table = new_table(place)
    append(table.find("T", 0), 12)
    table = loaded(place, is_clean=False)
    queue = table.find("T", 0)
    recoveries_of(table, place).find("T", 0).truncate(3)
    assert ext_files(place) == [f"{0:020d}"]
    assert not any(place.read(f"{place.root}/consumequeue_ext/T/0/{0:020d}")[102:])
    assert append(queue, 1) == [MIN_ADDRESS + 102]
    assert seen(queue) == wanted(4)


@pytest.mark.parametrize("lost", ["first", "last", "all"])
def test_no_address_is_given_twice_when_files_are_lost(place: Place, lost: str) -> None:
    """Else old units would lead to the tags of new messages."""
    first = append(new_table(place).find("T", 0), 20)
    files = ext_files(place)
    for name in {"first": files[:1], "last": files[-1:], "all": files}[lost]:
        place.disk.unlink(f"{place.root}/consumequeue_ext/T/0/{name}")
    queue = loaded(place).find("T", 0)
    second = append(queue, 3)
    assert not {*first} & {*second}
    found = seen(queue)
    assert found[20:] == wanted(23, first=20)
    assert all(unit in (None, right) for unit, right in zip(found, wanted(23), strict=True))


def test_no_address_is_given_twice_after_units_without_one(place: Place) -> None:
    first = append(new_table(place).find("T", 0), 3)
    append(loaded(place, is_written=False).find("T", 0), 3)
    queue = loaded(place).find("T", 0)
    second = append(queue, 2)
    assert not {*first} & {*second}
    assert seen(queue) == [*wanted(3), None, None, None, *wanted(8, first=6)]
    place.remove_tree(f"{place.root}/consumequeue_ext")
    append(loaded(place, is_written=False).find("T", 0), 1)
    third = append(loaded(place).find("T", 0), 2)
    assert not {*first, *second} & {*third}


def test_files_are_deleted_when_the_queue_begins_after_them(place: Place) -> None:
    queue = new_table(place).find("T", 0)
    append(queue, 60)
    assert len(ext_files(place)) == 9
    assert delete_expired_files(queue, place.disk, 4000) == 7, "two of the queue, five of the extension"
    assert queue.min_offset == 40
    assert ext_files(place)[0] == f"{5 * FILE_SIZE:020d}"
    assert seen(queue) == wanted(60, first=40)


def test_an_extension_without_a_queue_goes(place: Place) -> None:
    append(new_table(place).find("T", 0), 10)
    place.remove_tree(place.consume_queue)
    parts = parts_with_ext(place)
    assert ext_files(place) == []
    assert append(parts.queues.find("T", 0), 1) == [MIN_ADDRESS]


# ---- recovery -------------------------------------------------------------------------------------------------------


def parts_with_ext(
    place: Place, *, is_written: bool = True, is_clean: bool = False, bit_map: bytes | None = None
) -> Parts:
    """A store that gives every unit an extension with this bit map, if it writes any."""

    def bit_map_of(topic: str, properties: Mapping[str, str]) -> bytes | None:
        return bit_map

    return Parts(
        place,
        ext_location=ext_location(place, is_written=is_written),
        unit_extensions=UnitExtensions(bit_map_of=bit_map_of) if is_written else None,
        bit_map_of=bit_map_of,
        queue_file_size=6000,
        log_file_size=1 << 16,
        is_clean=is_clean,
    )


def put_tagged(parts: Parts, count: int) -> None:
    """Put messages of the same millisecond and size, each with tags of its own."""
    begin = parts.queues.find("TopicTest", 0).next_offset
    for number in range(begin, begin + count):
        tags = f"Tag{number:03d}"
        parts.put(b"body", properties=b"TAGS\x01" + tags.encode(), tags=tags)
    parts.appender.end_burst()


def tags_codes(parts: Parts) -> list[int | None]:
    """The tags code of each unit of the queue, None if it is not known."""
    queue = parts.queues.find("TopicTest", 0)
    codes: list[int | None] = []
    for number in range(queue.min_offset, queue.max_offset):
        code = queue.unit_at(number)[2]
        unit = queue.ext_unit(code)
        codes.append((None if unit is None else unit.tags_code) if is_ext_address(code) else code)
    return codes


def right(count: int) -> list[int]:
    return [tags_code(f"Tag{number:03d}") for number in range(count)]


@pytest.mark.parametrize("bit_map", [None, BITS])
def test_recovery_keeps_what_surely_is_the_records(place: Place, bit_map: bytes | None) -> None:
    parts = parts_with_ext(place, bit_map=bit_map)
    put_tagged(parts, 20)
    files = place.files(place.root)
    parts.kill()
    again = parts_with_ext(place, bit_map=bit_map)
    assert tags_codes(again) == right(20)
    if bit_map is None:
        assert place.files(place.root) == files
    again.kill()
    third = parts_with_ext(place, bit_map=bit_map)
    put_tagged(third, 3)
    assert tags_codes(third) == right(23)


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize("damaged", range(0, 12 * 34, 13))
def test_recovery_never_serves_a_tags_code_of_a_torn_extension(place: Place, damaged: int, is_written: bool) -> None:
    """Whatever part of the extension a crash has zeroed, tags are right: rebuilt from the log, or kept."""
    parts = parts_with_ext(place, bit_map=BITS)
    put_tagged(parts, 12)
    parts.kill()
    file, position = divmod(damaged, 238)
    place.write(f"{place.root}/consumequeue_ext/TopicTest/0/{file * FILE_SIZE:020d}", bytes(20), position)
    again = parts_with_ext(place, is_written=is_written, bit_map=BITS)
    assert tags_codes(again) == right(12)
    put_tagged(again, 5)
    assert tags_codes(again) == right(17)


def test_an_address_that_a_sector_cuts_is_not_trusted(place: Place) -> None:
    """Half of it would lead to the first unit, whose message may be of the same millisecond."""
    parts = parts_with_ext(place)
    put_tagged(parts, 30)
    parts.kill()
    place.write(place.queue_file("TopicTest", 0), bytes(8), 512)
    assert tags_codes(parts_with_ext(place)) == right(30)
    parts = parts_with_ext(place)
    parts.kill()
    code = UNIT.unpack(place.read(place.queue_file("TopicTest", 0))[500:520])[2]
    place.write(place.queue_file("TopicTest", 0), (code & ~0xFFFF_FFFF).to_bytes(8, "big", signed=True), 512)
    assert tags_codes(parts_with_ext(place)) == right(30)


def test_a_stale_unit_of_another_run_is_not_trusted(place: Place) -> None:
    parts = parts_with_ext(place)
    put_tagged(parts, 4)
    stale = place.read(f"{place.root}/consumequeue_ext/TopicTest/0/{0:020d}")
    parts.kill()
    for path in (place.log_file(), place.queue_file("TopicTest", 0)):
        place.write(path, bytes(4096))
    parts = parts_with_ext(place)
    parts.clock.advance_ms(60_000)
    put_tagged(parts, 2)
    parts.kill()
    place.write(f"{place.root}/consumequeue_ext/TopicTest/0/{0:020d}", stale)
    assert tags_codes(parts_with_ext(place)) == right(2)


def test_bit_maps_are_rebuilt_with_the_units(place: Place) -> None:
    parts = parts_with_ext(place, bit_map=BITS)
    put_tagged(parts, 3)
    parts.kill()
    place.remove_tree(place.consume_queue)
    again = parts_with_ext(place, bit_map=BITS)
    timestamp_ms = again.clock.timestamp_ms()
    assert seen(again.queues.find("TopicTest", 0)) == [CqExtUnit(code, timestamp_ms, BITS) for code in right(3)]


# ---- reads ----------------------------------------------------------------------------------------------------------


class TagsFilter:
    """Wants some tags codes, and keeps what it was shown."""

    needs_record = False

    def __init__(self, *wanted_codes: int) -> None:
        self._wanted = wanted_codes
        self.shown: list[tuple[int, CqExtUnit | None]] = []

    def is_matched_by_consume_queue(self, tags_code: int, ext: CqExtUnit | None) -> bool:
        self.shown.append((tags_code, ext))
        return tags_code in self._wanted

    def is_matched_by_commit_log(self, record: bytes) -> bool:
        raise AssertionError("it needs no record")


def test_extensions_of_neighbours_are_read_in_one_go() -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    parts = Parts(
        place,
        ext_location=ext_location(place, file_size=1 << 20),
        unit_extensions=UnitExtensions(bit_map_of=None),
        queue_file_size=60_000,
        log_file_size=1 << 20,
    )
    put_tagged(parts, 800)
    before = disk.calls["read"]
    parts.get(0, message_filter=TagsFilter())
    assert disk.calls["read"] == before + 2, "units, extensions"


# ---- whole stores ---------------------------------------------------------------------------------------------------


async def test_a_configured_store_writes_extensions_and_reads_them_after_restarts(place: Place) -> None:
    settings = {"enable_consume_queue_ext": True, "mapped_file_size_consume_queue_ext": FILE_SIZE}
    async with opened(place, **settings) as store:
        for _ in range(20):
            send(store, b"one")
    assert len(ext_files(place)) == 2
    for is_written in (False, True):
        async with opened(place, enable_consume_queue_ext=is_written) as store:
            wanted_filter, other_filter = TagsFilter(tags_code("A")), TagsFilter(tags_code("B"))
            found = store.get_message_nowait("T", 0, 0, 32, wanted_filter)
            assert found is not None
            assert found.message_count == 20
            assert {ext is not None for _, ext in wanted_filter.shown} == {True}
            nothing = store.get_message_nowait("T", 0, 0, 32, other_filter)
            assert nothing is not None
            assert (nothing.message_count, nothing.next_begin_offset) == (0, 20)
    async with opened(place) as store:
        send(store, b"plain")
        listing = await store.list_units("T", 0, 19, 2)
        assert listing is not None
        assert [is_ext_address(unit.tags_code) for unit in listing.units] == [True, False]


@pytest.mark.parametrize("was_written", [False, True])
@pytest.mark.parametrize("is_clean", [False, True])
async def test_the_first_message_after_a_start_waits_for_no_disk(was_written: bool, is_clean: bool) -> None:
    """Where the next unit goes is looked up, and what a crash has left there is cleared, before the store is open."""
    place = Place(SimDisk(), "/store")
    disk = place.disk
    assert isinstance(disk, SimDisk)
    queues = [(topic, queue_id) for topic in "AB" for queue_id in range(3)]
    async with opened(place, enable_consume_queue_ext=was_written) as store:
        for topic, queue_id in queues:
            send(store, b"one", topic, queue_id)
        store.end_burst()
    if not is_clean:
        disk.open("/store/abort", create=True).close()
        for topic, queue_id in queues if was_written else ():
            file = disk.open(f"/store/consumequeue_ext/{topic}/{queue_id}/{0:020d}")
            file.write(500, b"left by a crash")
            file.close()
    async with opened(place, enable_consume_queue_ext=True) as store:
        before = {method: disk.calls[method] for method in ("read", "sync", "reads_zero_from")}
        for topic, queue_id in queues:
            send(store, b"two", topic, queue_id)
        store.end_burst()
        assert {method: disk.calls[method] for method in before} == before
        for topic, queue_id in queues:
            assert store.max_offset_in_queue(topic, queue_id) == 2
