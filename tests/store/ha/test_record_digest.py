"""Comparisons of records by their digests: what is equal, what is not, and what a caller cannot learn."""

from __future__ import annotations

import pytest

from rocketpy.protocol.stored_message import RECORD_SIZE_MAX
from rocketpy.store.ha.record_digest import RecordDigests, digest_of
from rocketpy.testing.sim.disk import SimDisk
from tests.store.ha.records import FILE, a_log, a_record
from tests.store.ha.test_log_source import run_now
from tests.store.ha.test_recorded_log import ranges, stored
from tests.store.log.test_commit_log import log_at
from tests.store.parts import Place


async def test_each_record_and_blank_is_known_by_its_digest(place: Place) -> None:
    content = a_log(20)
    digests = RecordDigests(stored(place, content), run_blocking=run_now)
    for each in ranges(content):
        own = content[each.offset : each.offset + each.compared_size]
        assert await digests.has(each.offset, len(own), digest_of(own))
        assert await digests.has(each.offset, len(own), digest_of(own).upper())
        assert not await digests.has(each.offset, len(own), digest_of(own[:-1] + bytes([own[-1] ^ 1])))


@pytest.mark.parametrize("offset", [-1, -(2**63), 1, len(a_log(20)), 2**63 - 1])
async def test_nothing_is_known_of_other_offsets(offset: int, place: Place) -> None:
    content = a_log(20)
    digests = RecordDigests(stored(place, content), run_blocking=run_now)
    for size in (8, 91, ranges(content)[0].size):
        inside = content[offset : offset + size] if 0 <= offset < len(content) else b"?"
        assert not await digests.has(offset, size, digest_of(inside))
        assert not await digests.has(offset, size, "")


async def test_a_part_of_a_record_cannot_be_guessed(place: Place) -> None:
    """Otherwise a caller would learn the log byte by byte, with 256 questions for each."""
    content = a_log(20)
    digests = RecordDigests(stored(place, content), run_blocking=run_now)
    for first, second in zip(ranges(content), ranges(content)[1:], strict=False):
        for size in {*range(1, 12), 91, 92, first.size - 1, first.size + 1, first.size + second.size}:
            if size == first.compared_size:
                continue
            part = content[first.offset : first.offset + size]
            assert not await digests.has(first.offset, size, digest_of(part)), (first, size)


@pytest.mark.parametrize("size", [0, -1, -(2**31), 90, RECORD_SIZE_MAX + 1, 2**31 - 1])
async def test_a_size_of_no_record_reads_nothing(size: int, place: Place) -> None:
    async def run(function, /, *arguments):  # type: ignore[no-untyped-def]
        raise AssertionError("nothing is read")

    digests = RecordDigests(stored(place, a_log(20)), run_blocking=run)
    assert not await digests.has(0, size, digest_of(b""))


async def test_a_long_record_is_read_in_pieces_and_a_wrong_size_costs_its_head() -> None:
    disk = SimDisk()
    disk.make_directories("/store")
    place = Place(disk, "/store")
    log = log_at(place, file_size=8 << 20)
    log.add_file()
    record = a_record(0, body=b"x" * (2 << 20))
    log.write(record, 1)
    reads: list[int] = []

    async def run(function, reading):  # type: ignore[no-untyped-def]
        reads.append(sum(size for _, _, size in reading))
        return await run_now(function, reading)

    digests = RecordDigests(log, run_blocking=run)
    assert await digests.has(0, len(record), digest_of(record))
    assert sum(reads) == len(record) + reads[0]
    assert max(reads) <= 256 << 10
    reads.clear()
    assert not await digests.has(0, len(record) - 1, digest_of(record[:-1]))
    assert sum(reads) < 100


async def test_bytes_of_deleted_files_are_not_there(place: Place) -> None:
    content = a_log(20)
    log = stored(place, content)
    digests = RecordDigests(log, run_blocking=run_now)
    first = ranges(content)[0]
    log.files.remove_first(lambda file: file.close())
    assert not await digests.has(0, first.size, digest_of(content[: first.size]))
    assert (log.min_offset, await digests.has(FILE, *_asked(content, FILE))) == (FILE, True)


def _asked(content: bytes, offset: int) -> tuple[int, str]:
    (record,) = (each for each in ranges(content) if each.offset == offset)
    return record.size, digest_of(content[offset : record.end_offset])
