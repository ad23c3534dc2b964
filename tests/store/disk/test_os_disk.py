"""The operating system's disk, where a simulation cannot follow: other processes, permissions, failing system calls."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import subprocess
import sys
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


def test_the_lock_keeps_other_processes_out(disk: Disk, root: str) -> None:
    take = (
        "import fcntl, sys; f = open(sys.argv[1], 'r+'); "
        "fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0); print('locked', flush=True); sys.stdin.read()"
    )
    disk.lock(f"{root}/lock").release()
    with subprocess.Popen(
        [sys.executable, "-c", take, f"{root}/lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        with pytest.raises(StartError, match=f"another process has locked {root}/lock"):
            disk.lock(f"{root}/lock")
        other.communicate()
    lock = disk.lock(f"{root}/lock")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert "another process" in pool.apply(_lock_elsewhere, (f"{root}/lock",))
    lock.release()


def test_a_directory_is_no_lock_file(disk: Disk, root: str) -> None:
    with pytest.raises(StartError, match="not a file"):
        disk.lock(root)


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
    file = disk.open(f"{root}/f", create=True)
    for name in ("listdir", "pread", "preadv", "ftruncate"):
        monkeypatch.setattr(os, name, _failing(errno.EIO))
    for call in (
        lambda: disk.list_directory(f"{root}/f"),
        lambda: file.read(7, 3),
        lambda: file.read_nowait(7, 3),
        lambda: file.truncate(3),
    ):
        with pytest.raises(StoreError, match=f"Input/output error.*{root}/f"):
            call()
    with pytest.raises(StoreError, match="cannot map the file"):
        file.exchange_words([0], [1])
    file.close()
    monkeypatch.setattr(os, "open", _failing(errno.EIO))
    with pytest.raises(StartError, match=f"cannot lock {root}/lock: Input/output error"):
        disk.lock(f"{root}/lock")


def test_a_lock_that_the_system_refuses_is_named(disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "lockf", _failing(errno.ENOLCK))
    with pytest.raises(StartError, match=f"cannot lock {root}/lock: No locks available"):
        disk.lock(f"{root}/lock")


def test_a_file_system_that_cannot_tell_what_is_cold_is_read(
    disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open(f"{root}/f", create=True)
    file.write(0, b"abc")
    with monkeypatch.context() as patch:
        patch.setattr(os, "preadv", _failing(errno.EOPNOTSUPP))
        assert file.read_nowait(0, 3) == b"abc"
    monkeypatch.setattr("rocketpy.store.disk.os_file.RWF_NOWAIT", 0)
    assert file.read_nowait(0, 3) == b"abc"


def test_a_failed_sync_is_final_for_every_opening(disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.open(f"{root}/f", create=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", _failing(errno.EIO))
        with pytest.raises(StoreError, match=f"cannot sync: Input/output error.*{root}/f"):
            file.sync()
    with pytest.raises(StoreError, match="final"):
        file.sync()
    file.close()
    with pytest.raises(StoreError, match="final"):
        disk.open(f"{root}/f").sync()
    disk.open(f"{root}/g", create=True).sync()


def test_short_writes_and_reads_are_continued(disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pread, pwrite, preadv = os.pread, os.pwrite, os.preadv
    monkeypatch.setattr(os, "pwrite", lambda fd, content, at: pwrite(fd, content[:3], at))
    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, 4), at))
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, at, flags: preadv(fd, [buffers[0][:1]], at, flags))
    file = disk.open(f"{root}/f", create=True)
    file.write(0, b"abcdefghij")
    assert file.read(0, 20) == b"abcdefghij"
    monkeypatch.setattr(
        os, "preadv", lambda fd, buffers, at, flags: preadv(fd, [memoryview(buffers[0])[:3]], at, flags)
    )
    assert file.read_nowait(1, 20) == b"bcdefghij"
    assert file.read_nowait(1, 4) == b"bcde"


def test_cold_bytes_are_none(disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_cold(descriptor: int, buffers: object, position: int, flags: int) -> int:
        raise BlockingIOError

    file = disk.open(f"{root}/f", create=True)
    file.write(0, b"abc")
    monkeypatch.setattr(os, "preadv", is_cold)
    assert file.read_nowait(0, 3) is None
    assert file.read(0, 3) == b"abc"


def test_a_full_disk_says_how_much_is_free(disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.open(f"{root}/f", create=True)
    monkeypatch.setattr(os, "pwrite", _failing(errno.ENOSPC))
    monkeypatch.setattr(os, "posix_fallocate", _failing(errno.ENOSPC))
    for call in (lambda: file.write(0, b"abc"), lambda: file.reserve(0, 3)):
        with pytest.raises(DiskFullError, match=rf"3 bytes wanted, \d+ bytes free \({root}/f\)"):
            call()


def test_descriptors_are_not_inherited(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/f", create=True)
    listed = subprocess.run(["ls", "-l", "/proc/self/fd"], capture_output=True, text=True, check=True).stdout
    assert f"{root}/f" not in listed
    file.close()


def _failing(number: int) -> Callable[..., int]:
    def fail(*arguments: object, **named: object) -> int:
        raise OSError(number, os.strerror(number))

    return fail


def _lock_elsewhere(path: str) -> str:
    try:
        OsDisk().lock(path)
    except StartError as refusal:
        return str(refusal)
    return "locked"
