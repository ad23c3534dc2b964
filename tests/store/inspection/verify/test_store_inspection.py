"""A look at a store: Java's stores have nothing wrong, and each damage is found where it is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpy.errors import StoreError
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.inspection.verify.findings import Severity
from rocketpy.store.inspection.verify.store_inspection import StoreInspection
from rocketpy.testing.sim.disk import SimDisk
from tests.store import broken_stores
from tests.store.broken_stores import FILE_SIZE, BrokenStore, inspect, severe, unpack
from tests.store.damaged import ROOT, Snapshot, killed_store, stopped_store, write_store
from tests.store.golden_store import expected
from tests.store.parts import Place

JAVA_STORES = ("store-clean", "store-crash", "store-torn", "store-empty", "store-ipv6", "store-ext", "store-multi")


def places(store: BrokenStore) -> list[tuple[str, int | None]]:
    """File and position of each severe finding, in order."""
    return [(str(Path(each.path).relative_to(store.root)), each.position) for each in store.severe()]


def log(base_offset: int) -> str:
    return f"commitlog/{base_offset:020d}"


def queue(base_offset: int = 0) -> str:
    return f"consumequeue/GoldB/0/{base_offset:020d}"


# ---- nothing wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", JAVA_STORES)
def test_a_store_of_java_has_nothing_severe(name: str, tmp_path: Path) -> None:
    store = unpack(name, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    found = store.inspect()
    assert severe(OsDisk(), str(store.root)) == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before, "nothing is written or made"
    summary = found.summary()
    java = expected(name)
    assert summary.record_count == len(java.get("record", []))
    # Units of the ordinary queues and those that multi-dispatch adds.
    assert summary.unit_count >= summary.record_count - sum(1 for each in java.get("record", []) if each["sysFlag"] & 4)
    assert summary.entry_count <= sum(max(0, each["indexCount"] - 1) for each in java.get("index_file", []))


def test_what_a_crash_leaves_is_only_noticed(tmp_path: Path) -> None:
    """The second half of the last record is zeros, and there is the abort file of the broker that was killed."""
    store = unpack("store-torn", tmp_path)
    found = store.inspect()
    tail = 45_120
    assert found.log_end == 9 * FILE_SIZE + tail
    assert [(str(Path(each.path).relative_to(store.root)), each.position) for each in found.findings] == [
        (log(9 * FILE_SIZE), tail),
        ("consumequeue/GoldA/0/00000000000000006000", 5020),
        ("index/20261121090745760", 24),
        ("abort", None),
    ]
    assert {each.severity for each in found.findings} == {Severity.NOTICE}
    assert {each.repair for each in found.findings} == {"nothing"}


@pytest.mark.parametrize("snapshot", [stopped_store, killed_store])
def test_our_own_stores_have_nothing_severe(snapshot: Callable[[], Snapshot]) -> None:
    disk = SimDisk()
    write_store(Place(disk, ROOT), snapshot().files)
    before = disk.change_count
    assert severe(disk, ROOT) == []
    assert disk.change_count == before


def test_an_empty_directory_is_a_store_without_messages(tmp_path: Path) -> None:
    found = inspect(OsDisk(), str(tmp_path))
    assert (found.findings, found.summary().record_count) == ([], 0)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="expected a directory"):
        StoreInspection(OsDisk(), str(tmp_path / "nowhere"))


# ---- the log --------------------------------------------------------------------------------------------------------


def test_a_wrong_topic_shows_where_its_queue_goes_on(tmp_path: Path) -> None:
    """The checksum covers the body only: it is the queue that knows."""
    store = unpack("store-clean", tmp_path)
    record = store.record()
    broken_stores.flip_topic(store)
    assert places(store)[:2] == [(log(0), record.physical_offset + record.size), (queue(), record.queue_offset * 20)]


def test_a_record_inside_a_body_is_not_taken_for_one(tmp_path: Path) -> None:
    """A damaged record whose body holds a whole record, but not at the offset that record names."""
    store = unpack("store-clean", tmp_path)
    records = store.records()
    broken_stores.garbage_in_log(store)
    inner = store.log_file(0).read_bytes()[: records[0].size]
    store.overwrite(store.log_file(FILE_SIZE), 6000, inner)
    (damage,) = store.inspect().damages
    assert damage.end_offset > FILE_SIZE + 9000


@pytest.mark.parametrize(
    ("damage", "where", "start"),
    [
        (broken_stores.zeros_up_to_file_end, (log(FILE_SIZE), 29_796), "does not scan there"),
        (broken_stores.remove_log_file, ("commitlog", None), "refuses the store"),
        (broken_stores.remove_two_log_files, ("commitlog", None), "refuses the store"),
    ],
)
def test_what_is_missing_in_the_middle(
    damage: Callable[[BrokenStore], None], where: tuple[str, int | None], start: str, tmp_path: Path
) -> None:
    store = unpack("store-clean", tmp_path)
    damage(store)
    assert places(store) == [where]
    assert store.severe()[0].start.startswith(start)


@pytest.mark.parametrize(("length", "record"), [(30_000, 29_796), (0, 0)])
def test_a_file_that_is_too_short_is_damaged_from_its_last_whole_record_on(
    length: int, record: int, tmp_path: Path
) -> None:
    store = unpack("store-clean", tmp_path)
    os.truncate(store.log_file(FILE_SIZE), length)
    assert places(store) == [(log(FILE_SIZE), length), (log(FILE_SIZE), record)]


def test_files_of_other_lengths_and_names_are_noticed(tmp_path: Path) -> None:
    store = unpack("store-crash", tmp_path)
    with store.log_file(FILE_SIZE).open("ab") as file:
        file.write(b"x")
    os.truncate(store.log_file(10 * FILE_SIZE), 0)
    (store.root / "commitlog" / ".DS_Store").touch()
    (store.root / "index" / "notes").touch()
    (store.root / "consumequeue" / "GoldB" / "x").mkdir()
    assert store.severe() == []
    notices = {str(Path(each.path).relative_to(store.root)): each.repair for each in store.inspect().findings}
    assert notices == {
        log(FILE_SIZE): "truncates it to that length",
        log(10 * FILE_SIZE): "removes it",
        "commitlog/.DS_Store": "nothing",
        "index/notes": "nothing",
        "consumequeue/GoldB/x": "nothing",
        "abort": "nothing",
    }


def test_an_end_that_is_gone_is_an_error_only_if_it_was_durable(tmp_path: Path) -> None:
    """After a clean shutdown the queues say what was durable; after a kill nothing does."""
    clean, crashed = unpack("store-clean", tmp_path / "a"), unpack("store-crash", tmp_path / "b")
    clean.log_file(4 * FILE_SIZE).unlink()
    crashed.log_file(10 * FILE_SIZE).unlink()
    crashed.log_file(9 * FILE_SIZE).unlink()
    assert places(clean) == [(log(3 * FILE_SIZE), 65_354)]
    assert crashed.severe() == []


# ---- queues ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (broken_stores.unit_elsewhere, [(queue(), 40)]),
        (broken_stores.hole_in_queue, [(queue(6000), 400)] * 2),
        (broken_stores.wrong_tags_code, [(queue(), 40)]),
        (
            broken_stores.remove_queue_file,
            [("consumequeue/GoldB/0", None)] * 3,
        ),
        (broken_stores.remove_topic, [("consumequeue/GoldB/0", None)]),
        (broken_stores.shorten_queue_file, [(queue(6000), 3000)] * 2),
    ],
)
def test_queues(damage: Callable[[BrokenStore], None], found: list[tuple[str, int | None]], tmp_path: Path) -> None:
    store = unpack("store-clean", tmp_path)
    damage(store)
    assert places(store) == found


def test_a_deleted_topic_misses_nothing(tmp_path: Path) -> None:
    """Java forgets a topic in its table and removes its queues; its records stay in the log."""
    store = unpack("store-clean", tmp_path)
    shutil.rmtree(store.root / "consumequeue" / "GoldB")
    for name in ("topics.json", "topics.json.bak"):
        path = store.root / "config" / name
        path.write_text(path.read_text().replace('"GoldB":{', '"Other":{'))
    assert store.severe() == []


def test_an_extension_that_is_gone_is_found(tmp_path: Path) -> None:
    store = unpack("store-ext", tmp_path)
    shutil.rmtree(store.root / "consumequeue_ext" / "GoldA" / "1")
    assert places(store) == [("consumequeue/GoldA/1/00000000000000000000", 0)]


# ---- index and small files ------------------------------------------------------------------------------------------


# ---- disks and brokers ----------------------------------------------------------------------------------------------


def test_what_a_running_broker_is_writing_is_no_finding(tmp_path: Path) -> None:
    store = unpack("store-torn", tmp_path)
    assert inspect(OsDisk(), str(store.root), is_live=True).findings == []


def test_log_files_in_several_directories(tmp_path: Path) -> None:
    store = unpack("store-clean", tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    shutil.move(store.log_file(FILE_SIZE), other)
    assert store.severe()
    paths = (str(store.root / "commitlog"), str(other))
    found = StoreInspection(OsDisk(), str(store.root), commit_log_paths=paths)
    for _ in found.run():
        pass
    found.close()
    assert found.findings == []
    shutil.copy(store.log_file(0), other)
    twice = StoreInspection(OsDisk(), str(store.root), commit_log_paths=paths)
    twice.close()
    assert [each.path for each in twice.inventory.findings] == [str(other / f"{0:020d}")]
