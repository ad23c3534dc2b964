"""Files and the budget of descriptors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpy.errors import StoreError
from rocketpy.store.disk.interface import DiskFile
from rocketpy.store.files.mapped_file import MappedFile, OpenFiles
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import Place


def files_of(place: Place, count: int, open_max: int) -> tuple[OpenFiles, list[MappedFile]]:
    open_files = OpenFiles(disk=place.disk, open_max=open_max)
    files = []
    for number in range(count):
        mapped_file = MappedFile(directory=place.root, base_offset=number * 10, size=10, open_files=open_files)
        place.write(mapped_file.path, b"%d" % number)
        files.append(mapped_file)
    return open_files, files


def test_a_file_knows_its_path_and_offsets(place: Place) -> None:
    _, (_, second) = files_of(place, 2, 10)
    assert second.path == f"{place.root}/{10:020d}"
    assert second.end_offset == 20
    assert "10" in repr(second)


def test_idle_files_have_no_descriptor(place: Place) -> None:
    open_files, files = files_of(place, 20, 4)
    assert not files[0].is_open
    for number, mapped_file in enumerate(files):
        assert mapped_file.file().read(0, 10) == b"%d" % number
    assert len(open_files) == sum(each.is_open for each in files) == 4
    assert files[0].file().read(0, 10) == b"0", "opened again when it is wanted"


def test_held_files_stay_open_beyond_the_bound(place: Place) -> None:
    open_files, files = files_of(place, 10, 3)
    held = [each.hold() for each in files[:5]]
    assert len(open_files) == 5
    for mapped_file in files[5:]:
        mapped_file.file()
    assert all(each.is_open for each in files[:5])
    assert [file.read(0, 1) for file in held] == [b"0", b"1", b"2", b"3", b"4"]
    for mapped_file in files[:5]:
        mapped_file.release()
        assert not mapped_file.is_held


def test_a_file_that_was_used_has_a_second_chance(place: Place) -> None:
    _, files = files_of(place, 6, 3)
    for mapped_file in files[:3]:
        mapped_file.file()
    files[3].file()  # all were used: the first is closed
    assert [each.is_open for each in files[:4]] == [False, True, True, True]
    files[1].file()
    files[4].file()  # the second was used again: the third goes
    assert [each.is_open for each in files[:5]] == [False, True, False, True, True]


def test_a_removed_file_stays_readable_while_it_is_held(place: Place) -> None:
    open_files, (mapped_file,) = files_of(place, 1, 3)
    file = mapped_file.hold()
    mapped_file.hold()
    mapped_file.remove(place.disk)
    assert not place.disk.exists(mapped_file.path)
    mapped_file.release()
    assert file.read(0, 1) == b"0"
    mapped_file.release()
    assert len(open_files) == 0
    with pytest.raises(AssertionError):
        mapped_file.file()


def test_a_removed_file_that_is_not_held_is_closed_at_once(place: Place) -> None:
    open_files, (mapped_file,) = files_of(place, 1, 3)
    mapped_file.file()
    mapped_file.remove(place.disk)
    assert len(open_files) == 0


def test_a_retired_file_hands_over_its_descriptor_after_the_last_release(place: Place) -> None:
    """Closing frees the space, which takes long, so the last release must not do it."""
    open_files, (held, idle, closed) = files_of(place, 3, 3)
    to_close: list[DiskFile] = []
    file = held.hold()
    idle.file()
    for mapped_file in (held, idle, closed):
        mapped_file.retire(to_close.append)
        place.disk.unlink(mapped_file.path)
    assert len(to_close) == 1, "one was not open at all"
    assert file.read(0, 1) == b"0"
    held.release()
    assert to_close[1:] == [file]
    assert len(open_files) == 0
    for each in to_close:
        each.close()


def test_close_all_closes_held_files_too(place: Place) -> None:
    open_files, files = files_of(place, 3, 10)
    for mapped_file in files:
        mapped_file.hold()
    open_files.close_all()
    assert len(open_files) == 0


def test_a_missing_file_is_an_error_that_names_it(place: Place) -> None:
    open_files = OpenFiles(disk=place.disk, open_max=3)
    mapped_file = MappedFile(directory=place.root, base_offset=7, size=10, open_files=open_files)
    with pytest.raises(StoreError, match=f"{7:020d}"):
        mapped_file.file()
    assert len(open_files) == 0


# ---- bytes ahead ----------------------------------------------------------------------------------------------------


def file_of_pages(count: int) -> tuple[SimDisk, MappedFile, bytes]:
    content = b"".join(b"%08d" % number for number in range(count * 512))
    disk = SimDisk()
    mapped_file = MappedFile(
        directory="/store", base_offset=0, size=len(content), open_files=OpenFiles(disk=disk, open_max=4)
    )
    Place(disk, "/store").write(mapped_file.path, content)
    return disk, mapped_file, content


@pytest.mark.parametrize("size", [1, 100, 640, 4096, 5000])
@pytest.mark.parametrize("step", [1, 640, -640])
def test_bytes_ahead_are_those_of_the_file(size: int, step: int) -> None:
    _, mapped_file, content = file_of_pages(4)
    ends = [*range(3000, 16385, 61), 16384, 12000]
    for number, end in enumerate(ends):
        position = number * step % (end - size) if end > size else 0
        read = mapped_file.read_ahead_nowait(position, min(size, end), end)
        assert read == content[position : position + min(size, end)]


def test_a_page_is_read_once_by_reads_one_after_the_other() -> None:
    disk, mapped_file, content = file_of_pages(2)
    mapped_file.file()
    before = disk.calls["read_nowait"]
    found = b"".join(mapped_file.read_ahead_nowait(position, 512, 8192) or b"" for position in range(0, 8192, 512))
    assert found == content
    assert disk.calls["read_nowait"] == before + 2


def test_no_more_is_read_than_may_not_change_and_no_page_more() -> None:
    disk, mapped_file, content = file_of_pages(2)
    assert mapped_file.read_ahead_nowait(0, 100, 300) == content[:100]
    mapped_file.file().write(300, b"x" * 100)
    assert mapped_file.read_ahead_nowait(100, 200, 400) == content[100:300]
    assert mapped_file.read_ahead_nowait(300, 100, 400) == b"x" * 100
    mapped_file.file().write(4096, b"y" * 100)
    assert mapped_file.read_ahead_nowait(4000, 96, 8192) == content[4000:4096]
    disk.evict(mapped_file.path)
    assert mapped_file.read_ahead_nowait(4096, 10, 8192) is None, "the next page was not asked for"


def test_bytes_ahead_go_with_the_descriptor_and_when_they_are_forgotten() -> None:
    disk, mapped_file, content = file_of_pages(1)
    forget: list[Callable[[], None]] = [mapped_file.close, mapped_file.forget_ahead]
    for number, each in enumerate(forget):
        assert mapped_file.read_ahead_nowait(0, 8, 4096) == content[:8]
        each()
        Place(disk, "/store").write(mapped_file.path, b"changed%d" % number * 512)
        assert mapped_file.read_ahead_nowait(8, 8, 4096) == b"changed%d" % number
        assert mapped_file.read_ahead_nowait(4096, 8, 4104) == b"", "the end of the file"
        Place(disk, "/store").write(mapped_file.path, content)
        mapped_file.forget_ahead()
