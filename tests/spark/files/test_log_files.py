"""Files of a CommitLog: which are listed, and what is said of those that cannot be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.errors import SettingsError, StoreError
from rocketpy.spark.files.log_files import (
    FileGoneError,
    list_log_files,
    open_to_read,
    read_exactly,
    read_timestamp_ms,
    store_directory,
)
from rocketpy.spark.files.problems import Problem, raise_problem
from tests.spark.files.built_store import FILE_SIZE, START_MS, Spec, build_store, record, write_log

TWO_FILES = [Spec(1500)] * 4


def test_files_without_a_record_are_left_out(tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", TWO_FILES, preallocated=2)
    files = list_log_files(str(store.root), raise_problem)
    assert [(file.base_offset, file.size, file.is_last) for file in files] == [
        (0, FILE_SIZE, False),
        (FILE_SIZE, FILE_SIZE, True),
    ]
    assert files[0].end_offset == FILE_SIZE
    assert list_log_files(str(store.root / "commitlog"), raise_problem) == files


def test_a_store_that_never_got_a_message_has_no_files(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    assert list_log_files(str(tmp_path), raise_problem) == []


def test_files_of_other_names_are_not_of_the_log(tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", TWO_FILES)
    (store.root / "commitlog" / ".DS_Store").write_bytes(b"x" * 100)
    (store.root / "commitlog" / "00000000000000004096.bak").write_bytes(b"x" * 100)
    assert len(list_log_files(str(store.root), raise_problem)) == 2


@pytest.mark.parametrize("prepare", ["nothing", "empty", "foreign"])
def test_a_path_without_a_commit_log_is_named(prepare: str, tmp_path: Path) -> None:
    directory = tmp_path / "store"
    if prepare != "nothing":
        directory.mkdir()
    if prepare == "foreign":
        (directory / "notes.txt").write_text("hello")
    with pytest.raises(SettingsError, match="option path") as caught:
        list_log_files(str(directory), raise_problem)
    assert str(directory) in str(caught.value)
    assert "patterns are not expanded" not in str(caught.value)


def test_a_pattern_is_not_expanded(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"patterns are not expanded, a read is of one store directory"):
        list_log_files(str(tmp_path / "*" / "store"), raise_problem)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"PAR1" + b"x" * 4000, "no CommitLog file, or damaged at its begin"),
        (b"x" * 20, "expected a record, found 20 bytes"),
        (record(4096), "the file has another one's name"),
    ],
)
def test_a_foreign_file_is_refused_in_a_sentence(content: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    path = tmp_path / "commitlog" / f"{0:020d}"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=why) as caught:
        list_log_files(str(tmp_path), raise_problem)
    assert caught.value.path == str(path)


def test_a_file_that_reaches_into_the_next_one_is_not_of_this_log(tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", TWO_FILES)
    with store.log_file(0).open("ab") as file:
        file.write(b"x")
    with pytest.raises(StoreError, match=r"expected at most 4096 bytes before the next file 0*4096, found 4097"):
        list_log_files(str(store.root), raise_problem)


@pytest.mark.parametrize("cut", [FILE_SIZE, 100])
def test_missing_bytes_between_two_files_are_a_problem(cut: int, tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", [Spec(1500)] * 6)
    if cut == FILE_SIZE:
        store.log_file(1).unlink()
        expected = Problem(str(store.log_file(0)), FILE_SIZE, FILE_SIZE, "4096 bytes are missing before the next file")
    else:
        os.truncate(store.log_file(1), FILE_SIZE - 100)
        expected = Problem(str(store.log_file(1)), FILE_SIZE - 100, 100, "100 bytes are missing before the next file")
    problems: list[Problem] = []
    list_log_files(str(store.root), problems.append)
    assert problems == [expected]
    with pytest.raises(StoreError, match="bytes are missing before the next file"):
        list_log_files(str(store.root), raise_problem)


def test_files_without_permission_are_named_with_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test may run as root, whom no mode stops: the system call is made to refuse."""
    store = build_store(tmp_path / "store", TWO_FILES)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("os.open", refuse)
        with pytest.raises(StoreError, match=f"no permission to read, expected a file that user {os.geteuid()} may"):
            list_log_files(str(store.root), raise_problem)
    monkeypatch.setattr("os.listdir", refuse)
    with pytest.raises(StoreError, match="no permission to list"):
        list_log_files(str(store.root), raise_problem)


def test_a_file_that_is_gone_or_became_shorter_says_so(tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", TWO_FILES)
    [file, _] = list_log_files(str(store.root), raise_problem)
    os.truncate(file.path, 50)
    descriptor = open_to_read(file.path)
    with pytest.raises(FileGoneError, match="expected 40 bytes, found 10: the file became shorter") as caught:
        read_exactly(descriptor, file, 40, 40)
    os.close(descriptor)
    assert caught.value.position == 40
    os.unlink(file.path)
    with pytest.raises(FileGoneError, match="deleted after the read was planned"):
        open_to_read(file.path)


def test_the_store_directory_is_found_from_either_path(tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", TWO_FILES)
    assert store_directory(str(store.root)) == str(store.root)
    assert store_directory(str(store.root / "commitlog")) == str(store.root)
    assert store_directory(str(store.root / "commitlog") + "/") == str(store.root)


@pytest.mark.parametrize("ipv6", [False, True])
def test_the_store_timestamp_is_read_from_the_head_of_a_record_alone(ipv6: bool, tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", [Spec(ipv6=ipv6)] * 3)
    [file] = list_log_files(str(store.root), raise_problem)
    assert read_timestamp_ms(file, store.offsets[2]) == START_MS + 2000
    assert read_timestamp_ms(file, store.offsets[2] + 1) is None
    assert read_timestamp_ms(file, FILE_SIZE - 50) is None


def test_a_record_under_the_name_of_another_position_has_no_timestamp(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "commitlog", [record(0), record(0)])
    [_, file] = list_log_files(str(directory), raise_problem)
    assert read_timestamp_ms(file, 0) is None
