"""Units as an inspection reads them: by number, over file ends and gaps, whatever is missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketpy.store.files.mapped_file import OpenFiles
from rocketpy.store.files.mapped_file_queue import MappedFileQueue
from rocketpy.store.inspection.verify.inventory import QueueFiles, StoreFile
from rocketpy.store.inspection.verify.queue_units import (
    ext_unit_at,
    file_of_unit,
    is_pre_blank,
    read_units,
    unit_files,
    units_between,
)
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.store.layout import PRE_BLANK_UNIT, UNIT, UNIT_SIZE
from rocketpy.store.queue.end import find_end, is_unit
from rocketpy.store.queue.extension import CqExtUnit
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import Place

NOTHING = (0, 0, 0)


def unit(number: int) -> tuple[int, int, int]:
    return (100 * number, 100, -number)


@pytest.fixture
def place() -> Place:
    return Place(SimDisk(), "/store")


@pytest.fixture
def opened(place: Place) -> Iterator[ReadOnlyFiles]:
    files = ReadOnlyFiles(place.disk)
    yield files
    files.close()


def queue_of(place: Place, *files: range, cut: int = 0) -> QueueFiles:
    """A queue whose files hold these units; ``cut`` bytes are missing at the end of each."""
    found = []
    for units in files:
        path = place.queue_file("T", 0, units.start * UNIT_SIZE)
        content = b"".join(UNIT.pack(*unit(number)) for number in units)
        place.write(path, content[: len(content) - cut])
        found.append(StoreFile(path, units.start * UNIT_SIZE, len(content), len(content) - cut))
    return QueueFiles("T", 0, f"{place.consume_queue}/T/0", tuple(found))


def test_a_filler_is_a_unit_and_known_as_one() -> None:
    filler = UNIT.unpack(PRE_BLANK_UNIT)
    assert is_unit(filler)
    assert is_pre_blank(filler)
    assert not is_pre_blank(unit(0))
    assert not is_pre_blank((1, *filler[1:]))


def test_a_unit_is_in_the_file_that_has_room_for_it(place: Place) -> None:
    queue = queue_of(place, range(5, 10), range(20, 30))
    bases = [None if (file := file_of_unit(queue, number)) is None else file.base_offset for number in range(32)]
    assert bases == [None] * 5 + [5 * UNIT_SIZE] * 5 + [None] * 10 + [20 * UNIT_SIZE] * 10 + [None] * 2
    assert file_of_unit(QueueFiles("T", 0, "/q", ()), 0) is None


@pytest.mark.parametrize(("begin", "count", "wanted"), [(0, 3, 3), (8, 5, 2), (9, 1, 1), (10, 5, 5), (30, 1, 0)])
def test_units_are_read_whole_up_to_the_end_of_their_file(
    place: Place, opened: ReadOnlyFiles, begin: int, count: int, wanted: int
) -> None:
    queue = queue_of(place, range(10), range(10, 30))
    expected = b"".join(UNIT.pack(*unit(number)) for number in range(begin, begin + wanted))
    assert read_units(opened, queue, begin, count) == expected


@pytest.mark.parametrize("cut", [1, UNIT_SIZE - 1, UNIT_SIZE])
def test_a_unit_that_is_cut_is_not_read_in_part(place: Place, opened: ReadOnlyFiles, cut: int) -> None:
    queue = queue_of(place, range(10), cut=cut)
    assert len(read_units(opened, queue, 0, 10)) == 9 * UNIT_SIZE


@pytest.mark.parametrize("chunk", [1, 3, 4096])
def test_every_number_comes_once_and_what_is_missing_is_nothing(
    place: Place, opened: ReadOnlyFiles, chunk: int
) -> None:
    queue = queue_of(place, range(5, 10), range(20, 30), cut=2 * UNIT_SIZE)
    there = {*range(5, 8), *range(20, 28)}
    expected = [(number, unit(number) if number in there else NOTHING) for number in range(35)]
    assert list(units_between(opened, queue, 0, 35, chunk_units=chunk)) == expected
    assert list(units_between(opened, queue, 6, 22, chunk_units=chunk)) == expected[6:22]
    assert list(units_between(opened, queue, 7, 7, chunk_units=chunk)) == []


def test_a_file_that_is_gone_since_holds_nothing(place: Place, opened: ReadOnlyFiles) -> None:
    queue = queue_of(place, range(10), range(10, 20))
    place.disk.unlink(queue.files[0].path)
    assert list(units_between(opened, queue, 8, 12)) == [(8, NOTHING), (9, NOTHING), (10, unit(10)), (11, unit(11))]


# ---- extensions -----------------------------------------------------------------------------------------------------

SIGN = 1 << 63


def extension_of(place: Place, *units: CqExtUnit, base_offset: int = 0) -> QueueFiles:
    path = f"/store/ext/{base_offset:020d}"
    content = b"".join(unit.packed() for unit in units)
    place.write(path, content.ljust(4096, b"\0"))
    return QueueFiles("T", 0, "/store/ext", (StoreFile(path, base_offset, 4096, 4096),))


def test_the_unit_at_an_address_is_found_in_its_file(place: Place, opened: ReadOnlyFiles) -> None:
    first, second = CqExtUnit(1, 2, b"bits"), CqExtUnit(3, 4, b"")
    extension = extension_of(place, first, second, base_offset=8192)
    assert ext_unit_at(opened, extension, 8192 - SIGN) == first
    assert ext_unit_at(opened, extension, 8192 + first.size - SIGN) == second


@pytest.mark.parametrize("offset", [0, 8191, 8192 + 4000, 8192 + 4096])
def test_an_address_that_leads_nowhere_is_nothing(place: Place, opened: ReadOnlyFiles, offset: int) -> None:
    assert ext_unit_at(opened, extension_of(place, CqExtUnit(1, 2, b""), base_offset=8192), offset - SIGN) is None


def test_a_queue_without_extensions_has_none(opened: ReadOnlyFiles) -> None:
    assert ext_unit_at(opened, None, -SIGN) is None


# ---- the end --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("counts", [(0,), (3,), (10,), (10, 10, 10, 10, 4), (10, 0, 0, 0, 0), (10, 10, 3, 0)])
def test_a_queue_ends_where_a_start_finds_its_end(place: Place, counts: tuple[int, ...], is_clean: bool) -> None:
    files = []
    for number, count in enumerate(counts):
        path, begin = place.queue_file("T", 0, 10 * number * UNIT_SIZE), 10 * number
        units = b"".join(UNIT.pack(*unit(each)) for each in range(begin, begin + count))
        place.write(path, units.ljust(10 * UNIT_SIZE, b"\0"))
        files.append(StoreFile(path, begin * UNIT_SIZE, 10 * UNIT_SIZE, 10 * UNIT_SIZE))
    queue = QueueFiles("T", 0, f"{place.consume_queue}/T/0", tuple(files))
    end, last_units, is_clear = find_end(unit_files(ReadOnlyFiles(place.disk), queue), is_clean=is_clean)
    of_a_start = MappedFileQueue(path=queue.path, disk=place.disk, open_files=OpenFiles(disk=place.disk, open_max=8))
    of_a_start.load()
    assert (end, last_units) == find_end(list(of_a_start), is_clean=is_clean)[:2]
    assert end == sum(counts) * UNIT_SIZE
    assert is_clean or counts[-1] == 10 or not is_clear, "an inspection does not look"
