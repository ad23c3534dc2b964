"""Reading goes on where a disk does not."""

from __future__ import annotations

import attrs

from rocketpy.errors import StoreError
from rocketpy.store.disk.interface import DiskFile
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import Place


@attrs.frozen
class BadPage:
    """A file whose second page cannot be read."""

    file: DiskFile

    @property
    def path(self) -> str:
        return self.file.path

    def size(self) -> int:
        return self.file.size()

    def read(self, position: int, size: int) -> bytes:
        if position < 8192 and position + size > 4096:
            raise StoreError("cannot read", path=self.path, position=position)
        return self.file.read(position, size)

    def close(self) -> None:
        self.file.close()


class BadDisk(SimDisk):
    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> DiskFile:
        file = super().open(path, create=create, read_only=read_only)
        return BadPage(file) if read_only else file  # type: ignore[return-value]


def test_pages_that_cannot_be_read_are_zeros_and_noted() -> None:
    disk = BadDisk()
    Place(disk, "/s").write("/s/file", b"a" * 10_000)
    opened = ReadOnlyFiles(disk)
    assert opened.read("/s/file", 4000, 6000) == b"a" * 96 + bytes(4096) + b"a" * (10_000 - 8192)
    assert [(each.path, each.position) for each in opened.unreadable] == [("/s/file", 4096)]
    assert opened.read("/s/file", 0, 100) == b"a" * 100


def test_a_file_that_cannot_be_opened_reads_as_nothing_and_is_noted() -> None:
    opened = ReadOnlyFiles(SimDisk())
    assert (opened.read("/s/none", 0, 10), opened.size("/s/none")) == (b"", 0)
    assert [(each.path, each.position) for each in opened.unreadable] == [("/s/none", None)]


def test_few_files_are_open_at_once() -> None:
    disk = SimDisk()
    place = Place(disk, "/s")
    for number in range(5):
        place.write(f"/s/{number}", b"%d" % number)
    opened = ReadOnlyFiles(disk, open_max=2)
    assert [opened.read(f"/s/{number}", 0, 1) for number in (0, 1, 2, 0, 3, 4)] == [b"0", b"1", b"2", b"0", b"3", b"4"]
    assert disk.descriptor_count == 2
    opened.close()
    assert disk.descriptor_count == 0
