"""The contract of every disk: the same tests run on the operating system's files and on simulated ones."""

from __future__ import annotations

import struct

import pytest

from rocketpy import file_lock
from rocketpy.errors import StartError, StoreError
from rocketpy.store.disk.interface import Disk


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

    def test_a_head_goes_before_what_is_read(self, disk: Disk, root: str) -> None:
        file = disk.open(f"{root}/f", create=True)
        file.write(0, b"abcdef")
        assert file.read_nowait(1, 3, b"head ") == b"head bcd"
        assert file.read_nowait(4, 9, b"head ") == b"head ef", "the end of the file"
        assert file.read_nowait(9, 9, b"head ") == b"head "
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

    def test_packed_words_are_exchanged_in_order(self, disk: Disk, root: str) -> None:
        file = disk.open(f"{root}/f", create=True)
        file.reserve(0, 4_096)
        file.write(40, b"\xff\xfe\xfd\xfc")
        assert file.exchange_packed(b"", 1) == b""
        assert file.exchange_packed(struct.pack(">3i", 40, 4_092, 40), 7) == struct.pack(">3I", 0xFFFEFDFC, 0, 7)
        assert file.read(40, 4) == b"\0\0\0\x09"
        assert file.read(4_092, 4) == b"\0\0\0\x08"
        file.reserve(4_096, 4_096)
        assert file.exchange_packed(struct.pack(">2i", 4_096, 40), 1) == struct.pack(">2I", 0, 9)
        file.truncate(4_096)
        file.reserve(0, 4_100)
        assert file.exchange_packed(struct.pack(">2i", 4_096, 40), 1) == struct.pack(">2I", 0, 2)
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

    def test_a_removed_file_stays_readable_while_it_is_open(self, disk: Disk, root: str) -> None:
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

    def test_space_and_time_are_reported(self, disk: Disk, root: str) -> None:
        path = f"{root}/not/there/yet"
        assert 0 < disk.free_bytes(path) <= disk.total_bytes(path)
        assert 0 <= disk.used_bytes(path) <= disk.total_bytes(path) - disk.free_bytes(path)
        disk.open(f"{root}/a", create=True).close()
        assert disk.modified_timestamp_ms(f"{root}/a") > 1_600_000_000_000


class TestIdentity:
    def test_it_stays_while_the_file_is_written_to(self, disk: Disk, root: str) -> None:
        file = disk.open(f"{root}/a", create=True)
        before = disk.identity(f"{root}/a")
        assert before
        assert " " not in before
        file.write(0, b"x")
        file.sync()
        file.close()
        assert disk.identity(f"{root}/a") == before
        disk.rename(f"{root}/a", f"{root}/b")
        assert disk.identity(f"{root}/b") == before

    def test_no_other_file_has_it(self, disk: Disk, root: str) -> None:
        for name in "ab":
            disk.open(f"{root}/{name}", create=True).close()
        assert disk.identity(f"{root}/a") != disk.identity(f"{root}/b")
        with pytest.raises(StoreError, match=f"{root}/c"):
            disk.identity(f"{root}/c")


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


def test_a_change_is_made_by_one_at_a_time(disk: Disk, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_lock, "LOCK_SECONDS", 0.0)
    path = f"{root}/x.conf.lock"
    lock = disk.wait_lock(path)
    with pytest.raises(StoreError, match=f"another process has it locked.*{path}"):
        disk.wait_lock(path)
    lock.release()
    lock.release()
    disk.wait_lock(path).release()
    with pytest.raises(StoreError, match=f"{root}/no"):
        disk.wait_lock(f"{root}/no/x.conf.lock")
    assert disk.list_directory(root) == ["x.conf.lock"]


def test_warming_changes_nothing(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/f", create=True)
    file.reserve(0, 1 << 20)
    file.write(5000, b"x")
    for position, size in [(0, 1 << 20), (5001, 10), (1 << 19, 1 << 20), (1 << 30, 4096), (0, 0)]:
        assert file.warm(position, size) >= 0
    assert file.size() == 1 << 20
    assert file.read(0, 1 << 20) == bytes(5000) + b"x" + bytes((1 << 20) - 5001)
    assert file.reads_zero_from(5001)
    file.close()


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
