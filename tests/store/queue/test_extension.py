"""ConsumeQueueExt: RocketMQ's bytes, addresses that never lead to another message, and what crashes leave."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.files.mapped_file import OpenFiles
from rocketpy.store.layout import EXT_ADDRESS_MAX, EXT_UNIT_SIZE_MAX, UNIT
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.log.directories import LogDirectories
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.queue.extension import (
    CqExtUnit,
    ExtLocation,
    is_ext_address,
    read_ext_unit,
)
from rocketpy.store.queue.table import ConsumeQueueTable
from rocketpy.store.recovery.last_stop import LastStop
from rocketpy.store.recovery.marker_files import RecoveryMark
from rocketpy.store.recovery.queue_recovery import QueueRecoveries
from rocketpy.store.recovery.recovery import StoreRecovery
from rocketpy.testing.sim.disk import SimDisk
from tests.store.golden_store import expected, unpack_store
from tests.store.opened_store import opened, send
from tests.store.parts import Parts, Place
from tests.store.queue_deletion import delete_expired_files
from tests.store.whole.test_golden_stores import open_golden

FILE_SIZE = 256
MIN_ADDRESS = -(1 << 63)
BITS = bytes(range(14))


def ext_location(place: Place, *, is_written: bool = True, file_size: int = FILE_SIZE) -> ExtLocation:
    return ExtLocation(f"{place.root}/consumequeue_ext", file_size, is_written)


def table_at(place: Place, *, is_written: bool = True, load: bool = False, is_clean: bool = True) -> ConsumeQueueTable:
    table = ConsumeQueueTable(
        path=place.consume_queue,
        disk=place.disk,
        open_files=OpenFiles(disk=place.disk, open_max=16),
        file_size=400,
        ext_location=ext_location(place, is_written=is_written),
    )
    if load:
        for _ in table.load():
            pass
        for recovery in recoveries_of(table, place):
            recovery.recover(is_clean=is_clean, file_size=400)
    return table


def recoveries_of(table: ConsumeQueueTable, place: Place) -> QueueRecoveries:
    return QueueRecoveries(table, disk=place.disk, before_clearing=lambda: None)


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
    queue = table_at(place).find("T", 0)
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

    table = table_at(place, is_written=False, load=True)
    assert seen(table.find(line["topic"], line["queueId"])) == units

    before = {
        name: content
        for name, content in place.files(f"{root}/consumequeue_ext").items()
        if name.startswith(f"{line['topic']}/{line['queueId']}/")
    }
    java_fields = [unit[2] for each in _units_of(line) for unit in each["units"]]
    for directory in ("consumequeue", "consumequeue_ext"):
        shutil.rmtree(root / directory)
    queue = ConsumeQueueTable(
        path=place.consume_queue,
        disk=place.disk,
        open_files=OpenFiles(disk=place.disk, open_max=16),
        file_size=6000,
        ext_location=ext_location(place, file_size=4096),
    ).find(line["topic"], line["queueId"])
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


def test_a_queue_has_no_extension_unless_configured(place: Place) -> None:
    queue = table_at(place, is_written=False).find("T", 0)
    assert append(queue, 2) == [1000, 1001]
    assert not queue.writes_ext
    assert ext_files(place) == []


def test_addresses_are_offsets_with_the_sign_bit(place: Place) -> None:
    queue = table_at(place).find("T", 0)
    assert append(queue, 3) == [MIN_ADDRESS, MIN_ADDRESS + 34, MIN_ADDRESS + 68]
    assert seen(queue) == wanted(3)
    assert queue.ext_unit(7) is None
    assert queue.ext_unit(MIN_ADDRESS + 102) is None
    assert queue.ext_unit(MIN_ADDRESS + 10_000) is None


def test_units_are_not_in_the_file_before_the_burst_ends(place: Place) -> None:
    queue = table_at(place).find("T", 0)
    append(queue, 1)
    queue.make_room(1)
    address = queue.extended_tags_code(5, 6, None)
    assert queue.ext_unit(address) is None
    queue.write_units()
    assert queue.ext_unit(address) == CqExtUnit(5, 6)


def test_no_unit_crosses_a_file_and_four_bytes_stay_free(place: Place) -> None:
    """7 units of 34 bytes would leave 18 of 256 bytes, 8 would not fit; 252 of them leave exactly 4."""
    queue = table_at(place).find("T", 0)
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
    queue = table_at(place).find("T", 0)
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


def flush(table: ConsumeQueueTable) -> None:
    while (flush_range := table.begin_flush()) is not None:
        flush_range.sync()
        table.end_flush(flush_range, is_synced=True)


def test_a_flush_of_a_queue_makes_its_extension_durable() -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    table = table_at(place)
    queue = table.find("T", 0)
    append(queue, 10)
    table.unflushed[queue] = None
    flush(table)
    append(queue, 3)
    disk.lose_power(lambda count: 0)
    again = table_at(place, load=True, is_clean=False).find("T", 0)
    assert seen(again) == wanted(10)


def test_what_a_kill_left_in_memory_is_synced_with_the_next_flush() -> None:
    disk = SimDisk()
    place = Place(disk, "/store")
    append(table_at(place).find("T", 0), 10)
    disk.kill_process()
    table = table_at(place, load=True, is_clean=False)
    queue = table.find("T", 0)
    recovery = recoveries_of(table, place).find("T", 0)
    recovery.rewind(0)
    assert recovery.adopt_units([100 * number for number in range(10)], [100] * 10) == 0
    recovery.truncate(10)
    table.unflushed[queue] = None
    flush(table)
    disk.lose_power(lambda count: 0)
    assert seen(table_at(place, load=True, is_clean=False).find("T", 0)) == wanted(10)


# ---- ends -----------------------------------------------------------------------------------------------------------


def test_a_new_run_continues_after_the_last_address(place: Place) -> None:
    append(table_at(place).find("T", 0), 9)
    queue = table_at(place, load=True).find("T", 0)
    assert append(queue, 2) == [MIN_ADDRESS + FILE_SIZE + 68, MIN_ADDRESS + FILE_SIZE + 102]
    assert seen(queue) == wanted(11)


def test_bytes_after_the_last_address_are_cleared(place: Place) -> None:
    table = table_at(place)
    append(table.find("T", 0), 12)
    table = table_at(place, load=True, is_clean=False)
    queue = table.find("T", 0)
    recoveries_of(table, place).find("T", 0).truncate(3)
    assert ext_files(place) == [f"{0:020d}"]
    assert not any(place.read(f"{place.root}/consumequeue_ext/T/0/{0:020d}")[102:])
    assert append(queue, 1) == [MIN_ADDRESS + 102]
    assert seen(queue) == wanted(4)


@pytest.mark.parametrize("lost", ["first", "last", "all"])
def test_no_address_is_given_twice_when_files_are_lost(place: Place, lost: str) -> None:
    """Else old units would lead to the tags of new messages."""
    first = append(table_at(place).find("T", 0), 20)
    files = ext_files(place)
    for name in {"first": files[:1], "last": files[-1:], "all": files}[lost]:
        place.disk.unlink(f"{place.root}/consumequeue_ext/T/0/{name}")
    queue = table_at(place, load=True).find("T", 0)
    second = append(queue, 3)
    assert not {*first} & {*second}
    found = seen(queue)
    assert found[20:] == wanted(23, first=20)
    assert all(unit in (None, right) for unit, right in zip(found, wanted(23), strict=True))


def test_no_address_is_given_twice_after_units_without_one(place: Place) -> None:
    first = append(table_at(place).find("T", 0), 3)
    append(table_at(place, is_written=False, load=True).find("T", 0), 3)
    queue = table_at(place, load=True).find("T", 0)
    second = append(queue, 2)
    assert not {*first} & {*second}
    assert seen(queue) == [*wanted(3), None, None, None, *wanted(8, first=6)]
    place.remove_tree(f"{place.root}/consumequeue_ext")
    append(table_at(place, is_written=False, load=True).find("T", 0), 1)
    third = append(table_at(place, load=True).find("T", 0), 2)
    assert not {*first, *second} & {*third}


def test_files_are_deleted_when_the_queue_begins_after_them(place: Place) -> None:
    queue = table_at(place).find("T", 0)
    append(queue, 60)
    assert len(ext_files(place)) == 9
    assert delete_expired_files(queue, place.disk, 4000) == 7, "two of the queue, five of the extension"
    assert queue.min_offset == 40
    assert ext_files(place)[0] == f"{5 * FILE_SIZE:020d}"
    assert seen(queue) == wanted(60, first=40)


def test_a_deleted_queue_takes_its_extension_along(place: Place) -> None:
    table = table_at(place)
    append(table.find("T", 0), 10)
    table.remove_topic("T", 1000)
    assert not place.disk.is_directory(f"{place.root}/consumequeue_ext/T")
    assert append(table.find("T", 0), 1) == [MIN_ADDRESS]


def test_an_extension_without_a_queue_goes(place: Place) -> None:
    append(table_at(place).find("T", 0), 10)
    place.remove_tree(place.consume_queue)
    parts = parts_with_ext(place)
    assert ext_files(place) == []
    assert append(parts.queues.find("T", 0), 1) == [MIN_ADDRESS]


# ---- recovery -------------------------------------------------------------------------------------------------------


def parts_with_ext(place: Place, *, is_written: bool = True, is_clean: bool = False) -> Parts:
    return Parts(
        place, ext_location=ext_location(place, is_written=is_written), queue_file_size=6000, log_file_size=1 << 16,
        is_clean=is_clean,
    )  # fmt: skip


def put_with_ext(parts: Parts, count: int, bit_map: bytes = b"") -> None:
    """Put messages of the same millisecond and size, each with tags of its own."""
    queue = parts.queues.find("TopicTest", 0)
    for number in range(queue.next_offset, queue.next_offset + count):
        tags = f"Tag{number:03d}"
        parts.put(b"body", properties=b"TAGS\x01" + tags.encode(), tags=tags)
        physical_offset, size, tags_code = UNIT.unpack(queue.units.pop())
        if not is_ext_address(tags_code):
            queue.next_offset -= 1
            tags_code = queue.extended_tags_code(tags_code, parts.clock.timestamp_ms(), bit_map)
            queue.next_offset += 1
        queue.units.append(UNIT.pack(physical_offset, size, tags_code))
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


@pytest.mark.parametrize("bit_map", [b"", BITS])
def test_recovery_keeps_what_surely_is_the_records(place: Place, bit_map: bytes) -> None:
    parts = parts_with_ext(place)
    put_with_ext(parts, 20, bit_map)
    files = place.files(place.root)
    parts.kill()
    again = parts_with_ext(place)
    assert tags_codes(again) == right(20)
    if not bit_map:
        assert place.files(place.root) == files
    again.kill()
    third = parts_with_ext(place)
    put_with_ext(third, 3, bit_map)
    assert tags_codes(third) == right(23)


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize("damaged", range(0, 12 * 34, 7))
def test_recovery_never_serves_a_tags_code_of_a_torn_extension(place: Place, damaged: int, is_written: bool) -> None:
    """Whatever part of the extension a crash has zeroed, tags are right: rebuilt from the log, or kept."""
    parts = parts_with_ext(place)
    put_with_ext(parts, 12, BITS)
    parts.kill()
    file, position = divmod(damaged, 238)
    place.write(f"{place.root}/consumequeue_ext/TopicTest/0/{file * FILE_SIZE:020d}", bytes(20), position)
    again = parts_with_ext(place, is_written=is_written)
    assert tags_codes(again) == right(12)
    put_with_ext(again, 5, BITS)
    assert tags_codes(again) == right(17)


def test_an_address_that_a_sector_cuts_is_not_trusted(place: Place) -> None:
    """Half of it would lead to the first unit, whose message may be of the same millisecond."""
    parts = parts_with_ext(place)
    put_with_ext(parts, 30)
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
    put_with_ext(parts, 4)
    stale = place.read(f"{place.root}/consumequeue_ext/TopicTest/0/{0:020d}")
    parts.kill()
    for path in (place.log_file(), place.queue_file("TopicTest", 0)):
        place.write(path, bytes(4096))
    parts = parts_with_ext(place)
    parts.clock.advance_ms(60_000)
    put_with_ext(parts, 2)
    parts.kill()
    place.write(f"{place.root}/consumequeue_ext/TopicTest/0/{0:020d}", stale)
    assert tags_codes(parts_with_ext(place)) == right(2)


def test_power_lost_at_any_time_leaves_right_tags() -> None:
    for seed in range(60):
        disk = SimDisk(choose=random.Random(seed).randrange)
        place = Place(disk, "/store")
        parts = parts_with_ext(place)
        disk.sync_directory("/store/commitlog")
        put_with_ext(parts, 9, BITS)
        if seed % 3:
            parts.close()
            parts = parts_with_ext(place)
        put_with_ext(parts, 150, BITS)
        disk.lose_power()
        again = parts_with_ext(place)
        count = again.queues.find("TopicTest", 0).max_offset
        assert all(code in (None, right) for code, right in zip(tags_codes(again), right(count), strict=True))
        put_with_ext(again, 7, BITS)
        disk.lose_power()
        third = parts_with_ext(place)
        count = third.queues.find("TopicTest", 0).max_offset
        assert tags_codes(third)[-count:] == right(count)


def test_bit_maps_are_rebuilt_with_the_units(place: Place) -> None:
    parts = parts_with_ext(place)
    put_with_ext(parts, 3, BITS)
    parts.kill()
    place.remove_tree(place.consume_queue)
    table = table_at(place, load=True)
    recovery = StoreRecovery(
        disk=place.disk, commit_log=CommitLog(
            directories=LogDirectories([place.commit_log]), disk=place.disk,
            open_files=OpenFiles(disk=place.disk, open_max=9), file_size=1 << 16,
        ), queues=table, tags_code=lambda topic, properties, _: tags_code(properties["TAGS"]),
        last_stop=LastStop(seems_clean=False, durable_before_ms=0, ends=None, note=None),
        check_crc=True, rewrite=False, bit_map_of=lambda topic, properties: BITS,
        mark=RecoveryMark(place.disk, f"{place.root}/recovering"),
    )  # fmt: skip
    for _ in recovery.run():
        pass
    assert [unit and (unit.tags_code, unit.bit_map) for unit in seen(table.find("TopicTest", 0))] == [
        (code, BITS) for code in right(3)
    ]


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


def test_reads_filter_by_the_tags_at_the_addresses(place: Place) -> None:
    parts = parts_with_ext(place)
    put_with_ext(parts, 30, BITS)
    message_filter = TagsFilter(tags_code("Tag007"), tags_code("Tag029"))
    found = decode_messages(parts.get(0, message_filter=message_filter).body)
    assert [message.queue_offset for message in found] == [7, 29]
    timestamp_ms = parts.clock.timestamp_ms()
    assert message_filter.shown == [(code, CqExtUnit(code, timestamp_ms, BITS)) for code in right(30)]


def test_what_an_address_no_longer_says_the_client_decides(place: Place) -> None:
    parts = parts_with_ext(place)
    put_with_ext(parts, 10, BITS)
    parts.close()
    place.write(f"{place.root}/consumequeue_ext/TopicTest/0/{0:020d}", bytes(34 * 3))
    again = parts_with_ext(place, is_clean=True)
    found = decode_messages(again.get(0, message_filter=TagsFilter(tags_code("Tag008"))).body)
    assert [message.queue_offset for message in found] == [0, 1, 2, 8]


def test_extensions_of_neighbours_are_read_in_one_go() -> None:
    disk = SimDisk()
    parts = Parts(
        Place(disk, "/store"), ext_location=ext_location(Place(disk, "/store"), file_size=1 << 20),
        queue_file_size=60_000, log_file_size=1 << 20,
    )  # fmt: skip
    put_with_ext(parts, 800, BITS)
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


async def test_listed_units_show_the_units_at_their_addresses(place: Place) -> None:
    async with opened(place, enable_consume_queue_ext=True) as store:
        for _ in range(3):
            send(store, b"one")
        listing = await store.list_units("T", 0, 1, 5)
        assert listing is not None
        assert (listing.min_offset, listing.max_offset) == (0, 3)
        assert [unit.ext is not None and unit.ext.tags_code for unit in listing.units] == [tags_code("A")] * 2
        assert all(is_ext_address(unit.tags_code) for unit in listing.units)


async def test_a_java_store_is_filtered_by_its_real_tags(tmp_path: Path) -> None:
    async with open_golden("store-ext", tmp_path) as store:
        for line in golden_lines():
            queue = line["topic"], line["queueId"]
            codes = [each["tagsCode"] for each in line["units"]]
            for code in {*codes, 12345}:
                found, offset = 0, 0
                while offset < len(codes):
                    result = await store.get_message(*queue, offset, 32, TagsFilter(code))
                    found, offset = found + result.message_count, result.next_begin_offset
                assert found == codes.count(code), (queue, code)


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
