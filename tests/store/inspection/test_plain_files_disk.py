"""A hostile store cannot make a tool wait, fill memory, or change a file that is not the store's."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from rocketpy.errors import StartError, StoreError
from rocketpy.protocol.stored_message import MESSAGE_MAGIC_CODE
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.inspection.plain_files_disk import DirectoryBoundDisk, PlainFilesDisk
from rocketpy.store.inspection.repair.repair import repair_store
from rocketpy.store.inspection.verify.inventory import read_inventory
from rocketpy.store.inspection.verify.log_walk import LogWalk, read_record
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.store.inspection.verify.store_inspection import StoreInspection
from tests.store import broken_stores
from tests.store.broken_stores import BrokenStore, unpack


@pytest.fixture
def store(tmp_path: Path) -> BrokenStore:
    return unpack("store-clean", tmp_path / "store")


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    path = tmp_path / "foreign"
    path.write_bytes(b"not the store's" * 1000)
    return path


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for disk in (PlainFilesDisk(), DirectoryBoundDisk([str(tmp_path)])):
        with pytest.raises(StoreError, match="expected a regular file, found a pipe"):
            disk.open(str(tmp_path / "pipe"), read_only=True)


def test_looking_at_a_store_with_a_pipe_for_a_file_ends(store: BrokenStore) -> None:
    path = store.log_file(65536)
    path.unlink()
    os.mkfifo(path)
    inspection = StoreInspection(PlainFilesDisk(), str(store.root))
    for _ in inspection.run():
        pass
    inspection.close()
    assert inspection.is_severe


def test_links_are_read_and_never_written(tmp_path: Path, foreign: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(foreign)
    file = PlainFilesDisk().open(str(link), read_only=True)
    assert file.read(0, 3) == b"not"
    file.close()
    disk = DirectoryBoundDisk([str(tmp_path)])
    for read_only in (True, False):
        with pytest.raises(StoreError, match="found a symbolic link to"):
            disk.open(str(link), read_only=read_only)
    with pytest.raises(StartError, match="found a symbolic link to"):
        disk.lock(str(link))


def test_nothing_outside_the_directories_is_touched(tmp_path: Path, foreign: Path) -> None:
    inside = tmp_path / "store"
    inside.mkdir()
    (inside / "way-out").symlink_to(tmp_path, target_is_directory=True)
    (inside / "file").touch()
    disk = DirectoryBoundDisk([str(inside)])
    through_link, path = str(inside / "way-out" / "foreign"), str(inside / "file")
    for refused in (
        lambda: disk.open(through_link),
        lambda: disk.unlink(through_link),
        lambda: disk.rename(through_link, str(inside / "here")),
        lambda: disk.rename(path, str(inside / "way-out" / "there")),
        lambda: disk.make_directories(str(inside / "way-out" / "new")),
        lambda: disk.remove_directory(str(inside / "way-out" / "store")),
        lambda: disk.copy_mode(path, through_link),
        lambda: disk.unlink(str(foreign)),
    ):
        with pytest.raises(StoreError, match="expected a path below"):
            refused()
    assert foreign.stat().st_size == 15_000
    disk.unlink(str(inside / "way-out"))
    assert foreign.exists(), "of a link only the link goes"


def test_a_store_whose_own_directory_is_a_link_is_mended(store: BrokenStore, tmp_path: Path) -> None:
    broken_stores.flip_body(store)
    (tmp_path / "link").symlink_to(store.root, target_is_directory=True)
    root = str(tmp_path / "link")
    assert repair_store(DirectoryBoundDisk([root]), root, timestamp_ms=1).steps
    assert not store.severe()


@pytest.mark.parametrize("is_directory", [False, True])
def test_a_repair_changes_no_file_that_a_link_names(store: BrokenStore, tmp_path: Path, is_directory: bool) -> None:
    """Root mends a store that another user can write: a link to a file of root's must not be cut."""
    log = store.root / "commitlog"
    elsewhere = tmp_path / "elsewhere"
    if is_directory:
        log.rename(elsewhere)
        log.symlink_to(elsewhere, target_is_directory=True)
        target = elsewhere / f"{0:020}"
    else:
        target = elsewhere
        log.joinpath(f"{0:020}").rename(target)
        log.joinpath(f"{0:020}").symlink_to(target)
    with target.open("ab") as file:
        file.write(b"longer than a log file is meant to be")
    before = target.read_bytes()
    disk = DirectoryBoundDisk([str(store.root)])
    with pytest.raises(StoreError):
        repair_store(disk, str(store.root), timestamp_ms=1)
    assert target.read_bytes() == before
    if is_directory:  # named by --commitlog it is the operator's own choice
        assert repair_store(
            DirectoryBoundDisk([str(store.root), str(elsewhere)]),
            str(store.root),
            timestamp_ms=1,
            commit_log_paths=[str(elsewhere)],
        ).steps


CLAIM = 79 << 20


@pytest.fixture
def claiming(store: BrokenStore) -> BrokenStore:
    """A store whose second log file is sparse, and claims one record of 79 MiB in 36 bytes."""
    with store.log_file(65536).open("r+b") as file:
        file.truncate(0)
        file.write(struct.pack(">iiiiiqq", CLAIM, MESSAGE_MAGIC_CODE, 0, 0, 0, 0, 65536))
        file.truncate(80 << 20)
    return store


class BoundedFiles(ReadOnlyFiles):
    """Fails when more is read at once than a record may have."""

    def read(self, path: str, position: int, size: int) -> bytes:
        assert size <= 4 << 20, size
        return super().read(path, position, size)


def test_a_record_that_claims_more_than_there_can_be_is_not_read(claiming: BrokenStore) -> None:
    """A sparse file of 8 KB may claim 2 GiB: read whole it would be 2 GiB of memory."""
    files = read_inventory(OsDisk(), str(claiming.root)).log_files[:2]
    opened = BoundedFiles(PlainFilesDisk())
    assert read_record(files, opened, 65536) is None
    walk = LogWalk(files, opened)
    for found in walk.slices():
        if found.damage is not None:
            break
    assert walk.end_offset == 65536
    opened.close()
