"""The operating system's disk, where a simulation cannot follow: other processes, permissions, failing system calls."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable

import pytest

from rocketpy.errors import DiskFullError, StartError, StoreError
from rocketpy.store.disk.interface import Disk
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.disk.text_files import persist_text


@pytest.fixture
def disk() -> Disk:
    return OsDisk()


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600), (0, 0o644)])
def test_other_files_have_the_mode_that_the_umask_leaves(disk: Disk, root: str, umask: int, mode: int) -> None:
    """As RocketMQ's. Messages are for the users whom the umask lets read them."""
    before = os.umask(umask)
    try:
        disk.open(f"{root}/log", create=True).close()
        persist_text(disk, f"{root}/topics.json", "{}")
    finally:
        os.umask(before)
    assert [os.stat(f"{root}/{name}").st_mode & 0o777 for name in ("log", "topics.json")] == [mode, mode]


@pytest.mark.parametrize(
    ("number", "error"),
    [(errno.EACCES, StartError), (errno.EROFS, StartError), (errno.EIO, StoreError), (errno.ENOSPC, DiskFullError)],
)
def test_a_directory_that_cannot_be_made_is_named(
    disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception]
) -> None:
    monkeypatch.setattr(os, "mkdir", _failing(number))
    with pytest.raises(error, match=f"{root}/d"):
        disk.make_directories(f"{root}/d")


def test_a_directory_that_another_makes_at_the_same_time_is_fine(
    disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir

    def made_twice(path: str) -> None:
        mkdir(path)
        mkdir(path)

    monkeypatch.setattr(os, "mkdir", made_twice)
    disk.make_directories(f"{root}/d/e")
    assert disk.list_directory(root) == ["d"]


def test_directories_are_synced_up_to_the_first_that_was_there(
    disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    disk = OsDisk()
    disk.make_directories(f"{root}/d/e")
    monkeypatch.setattr(os, "fsync", note)
    disk.sync_directory(f"{root}/d/e")
    disk.sync_directory(f"{root}/d/e")
    assert synced == [f"{root}/d/e", f"{root}/d", root, f"{root}/d/e"]


def test_failures_of_the_system_are_named(disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listdir", _failing(errno.EIO))
    with pytest.raises(StoreError, match=f"Input/output error.*{root}/f"):
        disk.list_directory(f"{root}/f")
    monkeypatch.setattr(os, "open", _failing(errno.EIO))
    with pytest.raises(StartError, match=f"cannot lock {root}/lock: Input/output error"):
        disk.lock(f"{root}/lock")


def test_descriptors_are_not_inherited(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/f", create=True)
    listed = subprocess.run(["ls", "-l", "/proc/self/fd"], capture_output=True, text=True, check=True).stdout
    assert f"{root}/f" not in listed
    file.close()


def _failing(number: int) -> Callable[..., int]:
    def fail(*arguments: object, **named: object) -> int:
        raise OSError(number, os.strerror(number))

    return fail
