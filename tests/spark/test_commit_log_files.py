"""CommitLog files read straight: what Java recorded, where a log ends, and what is damage."""

from __future__ import annotations

import gzip
import hashlib
import json
import tarfile
import zlib
from itertools import pairwise
from pathlib import Path

import pytest

from rocketpy.errors import SettingsError, StoreError
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import BLANK_MAGIC_CODE, encode_message
from rocketpy.spark.commit_log_files import (
    CommitLogRange,
    list_commit_log_files,
    read_messages,
    split_files,
)

GOLDEN = Path(__file__).parents[1] / "golden"
FILE_SIZE = 2048


def golden_store(name: str, tmp_path: Path) -> tuple[Path, list[dict[str, object]]]:
    """Unpack a store that Java wrote; return it with what Java's own reader says of each record."""
    with tarfile.open(GOLDEN / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    with gzip.open(GOLDEN / f"expected-{name}.jsonl.gz", "rt") as lines:
        records = [record for record in map(json.loads, lines) if record["type"] == "record"]
    [commit_log] = tmp_path.rglob("commitlog")
    return commit_log.parent, records


def everything(topic: str, store_timestamp_ms: int) -> bool:
    return True


def read_all(path: Path, partitions: int = 1, *, decompress: bool = True) -> list[MessageExt]:
    parts = split_files(list_commit_log_files(str(path)), partitions)
    return [message for part in parts for message in read_messages(part, everything, decompress=decompress)]


def record(physical_offset: int, body: bytes = b"body", **changes: object) -> bytes:
    message = MessageExt(
        topic="T",
        body=body,
        properties={"TAGS": "A"},
        queue_id=1,
        queue_offset=physical_offset,
        physical_offset=physical_offset,
        born_timestamp=1_700_000_000_000,
        born_host="10.0.0.1:5000",
        store_timestamp=1_700_000_000_001,
        store_host="10.0.0.2:10911",
        **changes,  # type: ignore[arg-type]
    )
    return encode_message(message)


def write_log(directory: Path, *files: bytes) -> Path:
    """Write files of one size, the rest of each filled with zeros."""
    directory.mkdir()
    for number, content in enumerate(files):
        (directory / f"{number * FILE_SIZE:020d}").write_bytes(content.ljust(FILE_SIZE, b"\0"))
    return directory


def full_file(number: int) -> bytes:
    """A file of two records, closed by BLANK."""
    base = number * FILE_SIZE
    first = record(base)
    two = first + record(base + len(first), b"second")
    return two + (FILE_SIZE - len(two)).to_bytes(4, "big") + (BLANK_MAGIC_CODE & 0xFFFFFFFF).to_bytes(4, "big")


@pytest.mark.parametrize(
    "name", ["store-clean", "store-crash", "store-torn", "store-ipv6", "store-ext", "store-multi", "store-empty"]
)
@pytest.mark.parametrize("partitions", [1, 7, 100])
def test_every_record_of_a_java_store_is_read_as_java_reads_it(name: str, partitions: int, tmp_path: Path) -> None:
    store, records = golden_store(name, tmp_path)
    messages = read_all(store, partitions, decompress=False)
    assert [message.physical_offset for message in messages] == [each["offset"] for each in records]
    for message, expected in zip(messages, records, strict=True):
        assert (message.topic, message.queue_id, message.queue_offset) == (
            expected["topic"],
            expected["queueId"],
            expected["queueOffset"],
        )
        assert message.store_size == expected["size"]
        assert message.properties == expected["properties"]
        assert hashlib.sha256(message.body).hexdigest() == expected["bodySha256"]
        assert message.offset_msg_id == expected["msgId"]
        assert (message.born_timestamp, message.store_timestamp) == (
            expected["bornTimestamp"],
            expected["storeTimestamp"],
        )


def test_compressed_bodies_are_decompressed_by_default(tmp_path: Path) -> None:
    store, records = golden_store("store-clean", tmp_path)
    plain = {each["offset"]: each["plainSha256"] for each in records if "plainSha256" in each}
    assert plain
    for message in read_all(store):
        if message.physical_offset in plain:
            assert hashlib.sha256(message.body).hexdigest() == plain[message.physical_offset]


def test_the_commitlog_directory_itself_will_do(tmp_path: Path) -> None:
    store, records = golden_store("store-clean", tmp_path)
    assert len(read_all(store / "commitlog")) == len(records)


def test_a_record_may_cross_a_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpy.spark.commit_log_files.CHUNK_SIZE", 100)
    directory = write_log(tmp_path / "commitlog", full_file(0), record(FILE_SIZE, b"x" * 500))
    assert [len(message.body) for message in read_all(directory)] == [4, 6, 500]


def test_ranges_are_cut_between_records_and_cover_everything(tmp_path: Path) -> None:
    store, _ = golden_store("store-clean", tmp_path)
    files = list_commit_log_files(str(store))
    parts = split_files(files, 40)
    assert len(parts) >= 40
    for before, after in pairwise(parts):
        assert before.end == (after.start if before.file == after.file else before.file.size)
    starts = {part.file.base_offset + part.start for part in parts}
    assert starts <= {message.physical_offset for message in read_all(store)}


def test_files_without_a_record_are_left_out(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "commitlog", full_file(0), record(FILE_SIZE), b"", b"")
    files = list_commit_log_files(str(directory))
    assert [(file.base_offset, file.is_last) for file in files] == [(0, False), (FILE_SIZE, True)]
    assert len(read_all(directory)) == 3


@pytest.mark.parametrize("cut", range(0, len(record(0)), 7))
def test_the_log_ends_before_a_record_that_a_crash_cut_short(cut: int, tmp_path: Path) -> None:
    whole = record(0)
    directory = write_log(tmp_path / "commitlog", whole + record(len(whole))[:cut])
    assert [message.physical_offset for message in read_all(directory)] == [0]


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_log_ends_where_a_body_does_not_fit_its_checksum(partitions: int, tmp_path: Path) -> None:
    """Records after it are not read, however the file is split: a broker's recovery drops them too."""
    first, second, third = record(0), bytearray(record(len(record(0)))), record(2 * len(record(0)))
    second[88] ^= 1
    directory = write_log(tmp_path / "commitlog", first + bytes(second) + third)
    assert [message.physical_offset for message in read_all(directory, partitions)] == [0]


def test_a_record_of_another_position_ends_the_log(tmp_path: Path) -> None:
    """Left by a truncation, or a copied file under a wrong name."""
    directory = write_log(tmp_path / "commitlog", record(0) + record(4711))
    assert [message.physical_offset for message in read_all(directory)] == [0]


@pytest.mark.parametrize("position", [0, 4, 88])
def test_damage_before_the_last_file_is_an_error_with_file_and_position(position: int, tmp_path: Path) -> None:
    damaged = bytearray(full_file(0))
    damaged[position] ^= 0x40
    directory = write_log(tmp_path / "commitlog", bytes(damaged), record(FILE_SIZE))
    with pytest.raises(StoreError, match="damaged") as caught:
        read_all(directory)
    assert caught.value.position == 0
    assert caught.value.path.endswith("00000000000000000000")


def test_a_body_that_does_not_decompress_is_an_error_that_names_the_option(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "commitlog", record(0, zlib.compress(b"x" * 100)[:8], sys_flag=1))
    with pytest.raises(StoreError, match="decompress=false"):
        read_all(directory)
    assert len(read_all(directory, decompress=False)) == 1


def test_a_file_that_was_deleted_after_planning_is_an_error_that_says_so(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "commitlog", record(0))
    [part] = split_files(list_commit_log_files(str(directory)), 1)
    Path(part.file.path).unlink()
    with pytest.raises(StoreError, match="deleted"):
        list(read_messages(part, everything))


def test_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "commitlog", record(0))
    [file] = list_commit_log_files(str(directory))
    Path(file.path).write_bytes(record(0)[:50])
    with pytest.raises(StoreError, match="shorter"):
        list(read_messages(CommitLogRange(file, 0, file.size), everything))


@pytest.mark.parametrize("prepare", ["nothing", "empty", "foreign"])
def test_a_path_without_a_commit_log_is_named(prepare: str, tmp_path: Path) -> None:
    directory = tmp_path / "store"
    if prepare != "nothing":
        directory.mkdir()
    if prepare == "foreign":
        (directory / "notes.txt").write_text("hello")
    with pytest.raises(SettingsError, match="option path") as caught:
        list_commit_log_files(str(directory))
    assert str(directory) in str(caught.value)
