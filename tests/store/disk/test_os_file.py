"""What the operating system may answer in between: less than was asked, nothing yet, no room, a lock that is taken."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketpy.errors import DescriptorShortageError, DiskFullError, StartError, StoreError
from rocketpy.store.disk import os_file
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.disk.os_file import OsFile, OsLock, existing_ancestor, store_error

SIZE = 10_000
CONTENT = bytes(range(250)) * 40


@pytest.fixture
def file(tmp_path: Path) -> OsFile:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    return OsFile(str(path), os.open(path, os.O_RDWR), set())


def fails_with(code: int) -> Callable[..., int]:
    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return fail


# ---- short answers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 7, 4096])
def test_a_read_that_the_system_cuts_short_goes_on(file: OsFile, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, size, position: pread(descriptor, min(size, step), position))
    assert file.read(3, 100) == CONTENT[3:103]
    assert file.read(SIZE - 10, 100) == CONTENT[-10:], "fewer at the end"
    assert file.read(SIZE, 100) == b""


@pytest.mark.parametrize("step", [1, 7, 4096])
def test_a_write_that_the_system_cuts_short_goes_on(file: OsFile, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """A signal or a nearly full disk may end a write in the middle."""
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, content, at: pwrite(descriptor, content[:step], at))
    file.write(5, bytearray(b"x" * 50))
    assert file.read(0, 60) == CONTENT[:5] + b"x" * 50 + CONTENT[55:60]


@pytest.mark.parametrize("call", ["as it is", "cut short", "not told", errno.EINVAL, errno.EOPNOTSUPP])
@pytest.mark.parametrize("head", [b"", b"head"])
def test_a_read_without_waiting_brings_all_whatever_way_the_system_reads(
    file: OsFile, monkeypatch: pytest.MonkeyPatch, call: str | int, head: bytes
) -> None:
    preadv = os.preadv
    if call == "cut short":
        monkeypatch.setattr(os, "preadv", lambda fd, to, at, _: preadv(fd, [memoryview(to[0])[:7]], at))
    elif call == "not told":
        monkeypatch.setattr(os_file, "RWF_NOWAIT", 0)
        monkeypatch.setattr(os, "preadv", fails_with(errno.EIO))
    elif isinstance(call, int):
        monkeypatch.setattr(os, "preadv", fails_with(call))
    assert file.read_nowait(3, 100, head) == head + CONTENT[3:103]
    assert file.read_nowait(SIZE - 10, 100, head) == head + CONTENT[-10:]


def test_what_is_in_memory_in_part_only_is_cold(file: OsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    preadv, calls = os.preadv, []

    def half(descriptor: int, buffers: list[bytearray], position: int, flags: int) -> int:
        calls.append(position)
        if len(calls) > 1:
            raise BlockingIOError(errno.EAGAIN, "not in memory")
        return preadv(descriptor, [memoryview(buffers[0])[:50]], position)

    monkeypatch.setattr(os, "preadv", half)
    assert file.read_nowait(0, 100) is None
    assert calls == [0, 50]


# ---- failures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "use", "text"),
    [
        ("pread", lambda file: file.read(7, 100), "cannot read 100 bytes: {why} ({path} at 7)"),
        ("preadv", lambda file: file.read_nowait(7, 100), "cannot read 100 bytes: {why} ({path} at 7)"),
        ("pwrite", lambda file: file.write(7, b"xy"), "cannot write 2 bytes: {why} ({path} at 7)"),
        ("fdatasync", lambda file: file.sync(), "cannot sync: {why} ({path})"),
        (
            "posix_fallocate",
            lambda file: file.reserve(7, 9),
            "cannot reserve 9 bytes: {why} ({path} at 7)",
        ),
        ("ftruncate", lambda file: file.truncate(9), "cannot set the length to 9: {why} ({path})"),
    ],
)
def test_a_failure_says_what_was_tried_and_where(
    file: OsFile, monkeypatch: pytest.MonkeyPatch, call: str, use: Callable[[OsFile], object], text: str
) -> None:
    monkeypatch.setattr(os, call, fails_with(errno.EIO))
    with pytest.raises(StoreError) as caught:
        use(file)
    assert str(caught.value) == text.format(path=file.path, why=os.strerror(errno.EIO))
    assert not isinstance(caught.value, DiskFullError)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize(
    ("call", "use"),
    [("posix_fallocate", lambda file: file.reserve(0, 2)), ("pwrite", lambda file: file.write(0, b"xy"))],
)
def test_no_room_is_an_error_of_its_own_with_what_is_free(
    file: OsFile, monkeypatch: pytest.MonkeyPatch, code: int, call: str, use: Callable[[OsFile], object]
) -> None:
    monkeypatch.setattr(os, call, fails_with(code))
    with pytest.raises(DiskFullError) as caught:
        use(file)
    assert (caught.value.wanted_bytes, caught.value.path) == (2, file.path)
    assert caught.value.free_bytes > 0


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Let this process open nothing: what it has open it keeps."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))  # standard input is the one
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("use", "action"),
    [
        (lambda disk, file: disk.open(file.path + "x", create=True), "cannot open"),
        (lambda disk, file: disk.list_directory(os.path.dirname(file.path)), "cannot list directory"),
        (lambda disk, file: disk.sync_directory(os.path.dirname(file.path)), "cannot sync directory"),
        (lambda disk, file: file.exchange_words([0], [1]), "cannot map the file"),
    ],
)
def test_no_descriptor_is_an_error_of_its_own_and_changes_nothing(
    file: OsFile, use: Callable[[OsDisk, OsFile], object], action: str
) -> None:
    disk = OsDisk()
    with no_descriptors(), pytest.raises(DescriptorShortageError, match=f"{action}: no file descriptor is left"):
        use(disk, file)
    assert not disk.exists(file.path + "x")
    use(disk, file)


def test_an_open_file_needs_no_other_descriptor(file: OsFile) -> None:
    """What was accepted is written and synced whatever connections take; the mapping is made with the first words."""
    assert len(file.exchange_words([0], [1])) == 1
    with no_descriptors():
        file.write(0, b"xy")
        assert file.read(0, 2) == b"xy"
        assert file.read_nowait(0, 2) == b"xy"
        file.reserve(SIZE, 10)
        file.exchange_words([4], [1])
        file.sync()
        file.close()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_a_limit_of_the_system_is_the_same_as_one_of_the_process(code: int) -> None:
    error = store_error(OSError(code, os.strerror(code)), "cannot open", "/f")
    assert isinstance(error, DescriptorShortageError)
    assert os.strerror(code) in str(error)


def test_a_failed_sync_is_final_also_for_a_file_opened_again(file: OsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    failed: set[str] = set()
    first = OsFile(file.path, os.open(file.path, os.O_RDWR), failed)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fails_with(errno.EIO))
        with pytest.raises(StoreError):
            first.sync()
    first.close()
    again = OsFile(file.path, os.open(file.path, os.O_RDWR), failed)
    with pytest.raises(StoreError, match="has failed before, which is final"):
        again.sync()
    again.close()


def test_the_place_of_a_failure_is_looked_for_where_there_is_one(tmp_path: Path) -> None:
    assert existing_ancestor(str(tmp_path / "a" / "b")) == str(tmp_path)
    assert existing_ancestor(str(tmp_path)) == str(tmp_path)
    assert existing_ancestor("no/such/place") == "."
    error = store_error(OSError(errno.ENOSPC, "no space"), "cannot write", str(tmp_path / "gone"), wanted_bytes=3)
    assert isinstance(error, DiskFullError)


def test_a_file_may_be_closed_twice(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    file = OsFile(str(tmp_path / "file"), descriptor, set())
    file.close()
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


# ---- words ----------------------------------------------------------------------------------------------------------


def test_an_empty_file_has_no_words(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    file = OsFile(str(path), os.open(path, os.O_RDWR), set())
    with pytest.raises(StoreError, match="cannot map the file"):
        file.exchange_words([0], [1])
    with pytest.raises(StoreError, match="cannot map the file"):
        file.exchange_packed(bytes(4), 1)
    file.close()


# ---- locks ----------------------------------------------------------------------------------------------------------


def test_a_lock_is_held_once_in_this_process_whatever_the_path_is_called(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    (tmp_path / "link").symlink_to(path)
    lock = OsLock(str(path))
    assert path.read_bytes() == b"lock", "as RocketMQ writes it"
    with pytest.raises(StartError, match="this process has locked"):
        OsLock(str(tmp_path / "link"))
    lock.release()
    lock.release()
    OsLock(str(path)).release()


def test_another_process_stays_out_and_comes_in_afterwards(tmp_path: Path) -> None:
    code = f"from rocketpy.store.disk.os_file import OsLock; OsLock({str(tmp_path / 'lock')!r})"

    def other() -> str:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        return done.stderr.strip().splitlines()[-1] if done.returncode else ""

    lock = OsLock(str(tmp_path / "lock"))
    assert other().endswith(f"another process has locked {tmp_path / 'lock'}")
    lock.release()
    assert other() == ""


def test_what_cannot_be_locked_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="not a file"):
        OsLock(str(tmp_path))
    with pytest.raises(StartError, match="No such file or directory"):
        OsLock(str(tmp_path / "no" / "lock"))


# ---- warming --------------------------------------------------------------------------------------------------------


def test_reserved_space_is_in_the_page_cache_once_it_is_warm(tmp_path: Path) -> None:
    path = tmp_path / "reserved"
    file = OsFile(str(path), os.open(path, os.O_RDWR | os.O_CREAT), set())
    file.reserve(0, 4 << 20)
    file.warm(1 << 20, 2 << 20)
    assert file.read_nowait(1 << 20, 2 << 20) == bytes(2 << 20)
    file.close()


def test_a_system_that_cannot_warm_a_file_is_let_be(file: OsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a descriptor used that was closed, and may be another file's."""
    monkeypatch.setattr(os, "posix_fadvise", fails_with(errno.EINVAL))
    assert file.warm(0, SIZE) >= 0
    monkeypatch.undo()
    file.close()
    assert file.warm(0, SIZE) >= 0
