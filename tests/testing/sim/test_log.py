"""The log on a simulated disk, read from outside."""

from __future__ import annotations

import pytest

from rocketpy.store.config import MessageStoreConfig
from rocketpy.testing.sim.disk import SimDisk
from rocketpy.testing.sim.log import SimLog, read_log
from rocketpy.testing.store_world import StoreWorld

CONFIG = MessageStoreConfig(
    store_path_root_dir="/store",
    mapped_file_size_commit_log=1 << 12,
    mapped_file_size_consume_queue=20 * 10,
    max_hash_slot_num=8,
    max_index_num=40,
)


def written(*bodies: bytes) -> SimDisk:
    """Return a disk whose log has these messages."""
    with StoreWorld(CONFIG) as world:
        world.open()
        for body in bodies:
            world.put("T", 0, body)
            world.end_burst()
        return world.disk


def test_a_disk_without_a_log_has_an_empty_one() -> None:
    assert read_log(SimDisk(), CONFIG) == SimLog()
    log = read_log(written(), CONFIG)
    assert (log.begin_offset, log.end_offset) == (0, 0)


def test_the_log_ends_with_its_last_record_and_goes_over_the_ends_of_files() -> None:
    with StoreWorld(CONFIG) as world:
        world.open()
        for number in range(20):
            world.put("T", 0, b"%d" % number * 300)
            world.end_burst()
        log = read_log(world.disk, CONFIG)
        assert log.end_offset == world.store.wrote_offset > 2 * 4096
        assert b"1919" in log.content


def test_reading_is_no_call_of_the_program() -> None:
    disk = written(b"body")
    calls = dict(disk.calls)
    assert read_log(disk, CONFIG).end_offset > 0
    assert disk.calls == calls


def test_a_gap_between_files_ends_it() -> None:
    with StoreWorld(CONFIG) as world:
        world.open()
        for _ in range(20):
            world.put("T", 0, b"x" * 500)
            world.end_burst()
        disk = world.disk
    disk.unlink("/store/commitlog/00000000000000004096")
    assert read_log(disk, CONFIG).end_offset == 4096
    disk.unlink("/store/commitlog/00000000000000000000")
    log = read_log(disk, CONFIG)
    assert log.begin_offset == 8192
    assert log.end_offset > 8192


def test_bytes_are_found_by_their_physical_offset() -> None:
    log = SimLog(100, b"0123456789")
    assert log.at(103, 4) == b"3456"
    assert log.at(108, 4) == b"89"
    assert log.at(99, 4) == log.at(110, 4) == b""


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (SimLog(100, b"0123456789"), None),
        (SimLog(100, b"0123"), None),
        (SimLog(104, b"456789abc"), None),
        (SimLog(200, b"xyz"), None),
        (SimLog(), None),
        (SimLog(100, b"01x3"), 102),
        (SimLog(105, b"56x"), 107),
    ],
)
def test_logs_part_where_both_have_other_bytes(other: SimLog, expected: int | None) -> None:
    log = SimLog(100, b"0123456789")
    assert log.parts_from(other) == other.parts_from(log) == expected


def test_bytes_that_are_no_record_end_it() -> None:
    disk = written(b"body")
    end = read_log(disk, CONFIG).end_offset
    file = disk.open("/store/commitlog/00000000000000000000")
    file.write(end, b"\xff" * 100)
    file.close()
    assert read_log(disk, CONFIG).end_offset == end
