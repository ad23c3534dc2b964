"""What any disk must do: the same tests run on the operating system's files (disk, os_file) and on simulated ones."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpy.errors import DiskFullError, StartError, StoreError
from rocketpy.store.disk.interface import Disk, OsDisk, persist_text, read_text
from rocketpy.testing.sim_disk import SimDisk

_KINDS = {"os": OsDisk, "sim": SimDisk}


@pytest.fixture(params=_KINDS)
def disk(request: pytest.FixtureRequest) -> Disk:
    make: Callable[[], Disk] = _KINDS[request.param]
    return make()


@pytest.fixture
def root(disk: Disk, tmp_path: Path) -> str:
    path = str(tmp_path / "root")
    disk.make_directories(path)
    return path


class TestFile:
    def test_what_is_written_is_read(self, disk: Disk, root: str) -> None:
        file = disk.open(f"{root}/f", create=True)
        file.write(0, b"hello")
        file.write(4095, bytearray(b"xyz"))
        file.write(2, memoryview(b"LL"))
        assert file.read(0, 5) == b"heLLo"
        assert file.read(4095, 3) == b"xyz"
        assert file.read(5, 3) == bytes(3)
        assert file.size() == disk.file_size(f"{root}/f") == 4098
        file.close()

    def test_a_read_is_short_only_at_the_end(self, disk: Disk, root: str) -> None:
        file = disk.open(f"{root}/f", create=True)
        file.write(0, b"x" * 10_000)
        for read in (file.read, file.read_nowait):
            assert read(0, 20_000) == b"x" * 10_000
            assert read(9_999, 2) == b"x"
            assert read(10_000, 1) == b""
            assert read(20_000, 1) == b""
            assert read(0, 0) == b""
        file.close()

    def test_two_openings_see_each_other(self, disk: Disk, root: str) -> None:
        one = disk.open(f"{root}/f", create=True)
        other = disk.open(f"{root}/f", read_only=True)
        one.write(3, b"abc")
        assert other.read(0, 9) == b"\0\0\0abc"
        with pytest.raises(StoreError, match=f"cannot write 1 bytes.*{root}/f"):
            other.write(0, b"x")
        one.close()
        other.close()
        other.close()

    def test_open_without_create_names_the_missing_file(self, disk: Disk, root: str) -> None:
        with pytest.raises(StoreError, match=f"cannot open.*{root}/missing"):
            disk.open(f"{root}/missing")
        with pytest.raises(StoreError, match=f"cannot open.*{root}/no/file"):
            disk.open(f"{root}/no/file", create=True)

    def test_what_is_cut_off_comes_back_as_zeros(self, disk: Disk, root: str) -> None:
        file = disk.open(f"{root}/f", create=True)
        file.write(0, b"x" * 9_000)
        file.truncate(5_000)
        assert file.size() == 5_000
        file.truncate(9_000)
        assert file.read(0, 9_000) == b"x" * 5_000 + bytes(4_000)
        file.close()

    def test_reserve_extends_and_keeps(self, disk: Disk, root: str) -> None:
        file = disk.open(f"{root}/f", create=True)
        file.write(0, b"abc")
        file.reserve(0, 10_000)
        assert file.size() == 10_000
        assert file.read(0, 4) == b"abc\0"
        file.reserve(100, 10)
        assert file.size() == 10_000
        file.close()

    def test_words_are_exchanged_in_order(self, disk: Disk, root: str) -> None:
        file = disk.open(f"{root}/f", create=True)
        file.reserve(0, 8_192)
        file.write(40, b"\x01\x02\x03\x04")
        assert file.exchange_words([], []) == []
        assert file.exchange_words([40, 4_096, 40, 40], [7, 0xFFFF_FFFE, 8, 9]) == [0x01020304, 0, 7, 8]
        assert file.read(40, 4) == b"\0\0\0\x09"
        assert file.read(4_096, 4) == b"\xff\xff\xff\xfe"
        file.write(40, b"\0\0\0\x0a")
        assert file.exchange_words([40], [1]) == [10]
        file.close()

    def test_words_are_exchanged_in_a_file_that_grew_and_shrank(self, disk: Disk, root: str) -> None:
        file = disk.open(f"{root}/f", create=True)
        file.reserve(0, 4_096)
        assert file.exchange_words([0], [5]) == [0]
        file.reserve(4_096, 4_096)
        assert file.exchange_words([4_096, 0], [6, 7]) == [0, 5]
        file.truncate(4_096)
        file.reserve(0, 4_097)
        assert file.exchange_words([0], [8]) == [7]
        file.sync()
        file.close()

    def test_sync_returns(self, disk: Disk, root: str) -> None:
        file = disk.open(f"{root}/f", create=True)
        file.write(0, b"abc")
        file.sync()
        file.sync()
        assert file.read(0, 3) == b"abc"
        file.close()

    def test_a_removed_file_is_there_for_who_has_it_open(self, disk: Disk, root: str) -> None:
        file = disk.open(f"{root}/f", create=True)
        file.write(0, b"abc")
        disk.unlink(f"{root}/f")
        assert not disk.exists(f"{root}/f")
        assert file.read(0, 3) == b"abc"
        file.close()


class TestDirectory:
    def test_names_are_listed_in_order(self, disk: Disk, root: str) -> None:
        for name in ("b", "a", "c"):
            disk.open(f"{root}/{name}", create=True).close()
        disk.make_directories(f"{root}/d/e/f")
        disk.make_directories(f"{root}/d/e")
        assert disk.list_directory(root) == ["a", "b", "c", "d"]
        assert disk.list_directory(f"{root}/d") == ["e"]
        assert disk.list_directory(f"{root}/missing") == []
        assert disk.is_directory(f"{root}/d")
        assert disk.exists(f"{root}/d")
        assert not disk.is_directory(f"{root}/a")
        assert disk.exists(f"{root}/a")

    def test_a_file_in_the_way_of_a_directory_is_named(self, disk: Disk, root: str) -> None:
        disk.open(f"{root}/a", create=True).close()
        with pytest.raises(StartError, match=f"cannot make directory {root}/a"):
            disk.make_directories(f"{root}/a")
        with pytest.raises(StartError, match=f"cannot make directory {root}/a"):
            disk.make_directories(f"{root}/a/b")

    def test_rename_replaces(self, disk: Disk, root: str) -> None:
        for name in ("a", "b"):
            file = disk.open(f"{root}/{name}", create=True)
            file.write(0, name.encode())
            file.close()
        disk.rename(f"{root}/a", f"{root}/b")
        disk.sync_directory(root)
        assert disk.list_directory(root) == ["b"]
        assert disk.open(f"{root}/b").read(0, 9) == b"a"

    def test_missing_files_are_named(self, disk: Disk, root: str) -> None:
        for call in (
            lambda: disk.unlink(f"{root}/x"),
            lambda: disk.rename(f"{root}/x", f"{root}/y"),
            lambda: disk.file_size(f"{root}/x"),
            lambda: disk.modified_timestamp_ms(f"{root}/x"),
            lambda: disk.remove_directory(f"{root}/x"),
            lambda: disk.sync_directory(f"{root}/x"),
        ):
            with pytest.raises(StoreError, match=f"{root}/x"):
                call()
        disk.open(f"{root}/a", create=True).close()
        with pytest.raises(StoreError, match=f"cannot rename to {root}/no/b"):
            disk.rename(f"{root}/a", f"{root}/no/b")

    def test_only_empty_directories_are_removed(self, disk: Disk, root: str) -> None:
        disk.make_directories(f"{root}/d/e")
        with pytest.raises(StoreError, match=f"cannot remove directory.*{root}/d"):
            disk.remove_directory(f"{root}/d")
        disk.remove_directory(f"{root}/d/e")
        disk.remove_directory(f"{root}/d")
        disk.sync_directory(root)
        assert disk.list_directory(root) == []

    def test_space_and_time_are_told(self, disk: Disk, root: str) -> None:
        path = f"{root}/not/there/yet"
        assert 0 < disk.free_bytes(path) <= disk.total_bytes(path)
        assert 0 <= disk.used_bytes(path) <= disk.total_bytes(path) - disk.free_bytes(path)
        disk.open(f"{root}/a", create=True).close()
        assert disk.modified_timestamp_ms(f"{root}/a") > 1_600_000_000_000


class TestLock:
    def test_one_holds_it_at_a_time(self, disk: Disk, root: str) -> None:
        lock = disk.lock(f"{root}/lock")
        file = disk.open(f"{root}/lock", read_only=True)
        assert file.read(0, 9) == b"lock"
        with pytest.raises(StartError, match=f"locked {root}/lock"):
            disk.lock(f"{root}/lock")
        lock.release()
        lock.release()
        disk.lock(f"{root}/lock").release()

    def test_a_lock_that_cannot_be_made_is_named(self, disk: Disk, root: str) -> None:
        with pytest.raises((StartError, StoreError), match=f"{root}/no/lock"):
            disk.lock(f"{root}/no/lock")


class TestText:
    def test_text_is_replaced_and_its_predecessor_kept(self, disk: Disk, root: str) -> None:
        path = f"{root}/topics.json"
        assert read_text(disk, path) is None
        for text in ("one, längst", "two", "three"):
            persist_text(disk, path, text)
            assert read_text(disk, path) == text
        assert read_text(disk, path + ".bak") == "two"
        assert disk.list_directory(root) == ["topics.json", "topics.json.bak"]

    def test_an_empty_or_missing_file_falls_back(self, disk: Disk, root: str) -> None:
        path = f"{root}/topics.json"
        persist_text(disk, path, "one")
        persist_text(disk, path, "two")
        file = disk.open(path)
        file.truncate(0)
        file.close()
        assert read_text(disk, path) == "one"
        persist_text(disk, path, "three")
        assert read_text(disk, path + ".bak") == "one", "nothing is no predecessor"
        disk.unlink(path)
        assert read_text(disk, path) == "one"


class TestOsDisk:
    """What cannot be simulated alike: other processes, permissions and the failures of the system."""

    @pytest.fixture
    def disk(self) -> Disk:
        return OsDisk()

    def test_a_file_with_secrets_stays_as_private_as_it_was(self, disk: Disk, root: str) -> None:
        """Neither the new text nor the copy of the old one may become readable for more people."""
        path = f"{root}/plain_acl.yml"
        persist_text(disk, path, "one")
        os.chmod(path, 0o600)
        for text in ("two", "three"):
            persist_text(disk, path, text)
            assert [os.stat(each).st_mode & 0o777 for each in (path, path + ".bak")] == [0o600, 0o600]

    def test_a_private_file_is_made_for_its_owner_alone(self, disk: Disk, root: str) -> None:
        """Whatever the umask allows, and also where a crash has left the temporary file with other bits."""
        path = f"{root}/plain_acl.yml"
        before = os.umask(0)
        try:
            with open(f"{path}.tmp", "w") as left, open(f"{path}.tmp") as watching:
                left.write("old")
                persist_text(disk, path, "secret", is_private=True)
                assert "secret" not in watching.read(), "who has it open sees nothing of the new text"
            assert os.stat(path).st_mode & 0o777 == 0o600
            persist_text(disk, path, "other", is_private=True)
            assert [os.stat(each).st_mode & 0o777 for each in (path, path + ".bak")] == [0o600, 0o600]
        finally:
            os.umask(before)
        with pytest.raises(StoreError, match="cannot create"):
            disk.create_private(path)

    @pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600), (0, 0o644)])
    def test_other_files_have_the_mode_that_the_umask_leaves(
        self, disk: Disk, root: str, umask: int, mode: int
    ) -> None:
        """As RocketMQ's. Messages are for the users whom the umask lets read them."""
        before = os.umask(umask)
        try:
            disk.open(f"{root}/log", create=True).close()
            persist_text(disk, f"{root}/topics.json", "{}")
        finally:
            os.umask(before)
        assert [os.stat(f"{root}/{name}").st_mode & 0o777 for name in ("log", "topics.json")] == [mode, mode]

    def test_the_lock_keeps_other_processes_out(self, disk: Disk, root: str) -> None:
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

    def test_a_directory_is_no_lock_file(self, disk: Disk, root: str) -> None:
        with pytest.raises(StartError, match="not a file"):
            disk.lock(root)

    @pytest.mark.parametrize(
        ("number", "error"),
        [(errno.EACCES, StartError), (errno.EROFS, StartError), (errno.EIO, StoreError), (errno.ENOSPC, DiskFullError)],
    )
    def test_a_directory_that_cannot_be_made_is_named(
        self, disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception]
    ) -> None:
        monkeypatch.setattr(os, "mkdir", _failing(number))
        with pytest.raises(error, match=f"{root}/d"):
            disk.make_directories(f"{root}/d")

    def test_a_directory_that_another_makes_at_the_same_time_is_fine(
        self, disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mkdir = os.mkdir

        def made_twice(path: str) -> None:
            mkdir(path)
            mkdir(path)

        monkeypatch.setattr(os, "mkdir", made_twice)
        disk.make_directories(f"{root}/d/e")
        assert disk.list_directory(root) == ["d"]

    def test_directories_are_synced_up_to_the_first_that_was_there(
        self, disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch
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

    def test_failures_of_the_system_are_named(self, disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
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

    def test_a_lock_that_the_system_refuses_is_named(
        self, disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fcntl, "lockf", _failing(errno.ENOLCK))
        with pytest.raises(StartError, match=f"cannot lock {root}/lock: No locks available"):
            disk.lock(f"{root}/lock")

    def test_a_file_system_that_cannot_tell_what_is_cold_is_read(
        self, disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = disk.open(f"{root}/f", create=True)
        file.write(0, b"abc")
        with monkeypatch.context() as patch:
            patch.setattr(os, "preadv", _failing(errno.EOPNOTSUPP))
            assert file.read_nowait(0, 3) == b"abc"
        monkeypatch.setattr("rocketpy.store.disk.os_file._RWF_NOWAIT", 0)
        assert file.read_nowait(0, 3) == b"abc"

    def test_a_failed_sync_is_final_for_every_opening(
        self, disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
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

    def test_short_writes_and_reads_are_continued(self, disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
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

    def test_cold_bytes_are_none(self, disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
        def is_cold(descriptor: int, buffers: object, position: int, flags: int) -> int:
            raise BlockingIOError

        file = disk.open(f"{root}/f", create=True)
        file.write(0, b"abc")
        monkeypatch.setattr(os, "preadv", is_cold)
        assert file.read_nowait(0, 3) is None
        assert file.read(0, 3) == b"abc"

    def test_a_full_disk_says_how_much_is_free(self, disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
        file = disk.open(f"{root}/f", create=True)
        monkeypatch.setattr(os, "pwrite", _failing(errno.ENOSPC))
        monkeypatch.setattr(os, "posix_fallocate", _failing(errno.ENOSPC))
        for call in (lambda: file.write(0, b"abc"), lambda: file.reserve(0, 3)):
            with pytest.raises(DiskFullError, match=rf"3 bytes wanted, \d+ bytes free \({root}/f\)"):
                call()

    def test_descriptors_are_not_inherited(self, disk: Disk, root: str) -> None:
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


def test_what_reads_zero_is_known_without_reading_it(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/holes", create=True)
    file.reserve(0, 1 << 20)
    assert file.reads_zero_from(0)
    file.write(5000, b"x")
    assert not file.reads_zero_from(0)
    assert not file.reads_zero_from(5000)
    assert file.reads_zero_from(5001)
    assert file.reads_zero_from(8192)
    assert file.reads_zero_from(1 << 20)
    file.write((1 << 20) - 1, b"y")
    assert not file.reads_zero_from(8192)
    file.truncate(5001)
    file.truncate(1 << 20)
    assert file.reads_zero_from(5001)
    file.close()
