"""Stores that no broker would write: each start says what is wrong and where, or opens with all that was sent.

Random damage is tried by ``property_tests/test_store_bytes.py``; here are the kinds that have a name, and what is right
for each. ``tests/blackbox/test_bad_stores.py`` shows some of them to a real broker.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from functools import reduce
from operator import xor
from pathlib import Path

import pytest
import trio

from rocketpy.clock import ManualClock
from rocketpy.errors import DamagedStoreError, RocketpyError, StartError, StoreError
from rocketpy.store.disk.interface import DiskFile
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.disk.os_file import store_error
from rocketpy.store.layout import UNIT_SIZE
from rocketpy.testing.sim.disk import SimDisk
from tests.store.damaged import (
    LOG_FILE_SIZE,
    QUEUE_FILE_SIZE,
    QUEUES,
    ROOT,
    Seen,
    Snapshot,
    killed_store,
    look,
    open_again,
    run,
    stopped_store,
    write_store,
)
from tests.store.opened_store import send
from tests.store.parts import Place

LOG_NAMES = [f"commitlog/{base:020d}" for base in range(0, 4 * LOG_FILE_SIZE, LOG_FILE_SIZE)]
QUEUE_NAMES = [f"consumequeue/Orders/1/{base:020d}" for base in (0, QUEUE_FILE_SIZE)]
CHECK = 0x526F_636B_6574_5079


@pytest.fixture(params=[stopped_store, killed_store])
def snapshot(request: pytest.FixtureRequest) -> Snapshot:
    """A store after a clean shutdown, and one after a kill."""
    return request.param()  # type: ignore[no-any-return]


@pytest.fixture
def os_place(tmp_path: Path) -> Place:
    """Where names, directories and permissions are the system's own."""
    return Place(OsDisk(), str(tmp_path / "store"))


def opened(place: Place, files: Mapping[str, bytes], **changes: object) -> Seen | RocketpyError:
    write_store(place, files)
    return look(place, **changes)


def assert_whole(snapshot: Snapshot, outcome: Seen | RocketpyError) -> None:
    """Check that everything is there, the keys too, and nothing was said."""
    assert isinstance(outcome, Seen), outcome
    assert outcome.records == snapshot.records
    assert outcome.keys == snapshot.keys
    assert outcome.damages == []


def send_all(place: Place, bodies: list[bytes], **changes: object) -> None:
    """Open a store, send messages to one of its queues, and stop in order."""

    async def life() -> None:
        async with open_again(place, **changes) as store:
            for body in bodies:
                send(store, body, "Orders", 1)
                store.end_burst()
            await trio.sleep(1)

    run(life)


def index_names(snapshot: Snapshot) -> list[str]:
    return sorted(name for name in snapshot.files if name.startswith("index/"))


# ---- files that are missing, empty or cut ---------------------------------------------------------------------------


def assert_log_error(outcome: Seen | RocketpyError, place: Place, name: str) -> None:
    assert isinstance(outcome, DamagedStoreError), outcome
    assert outcome.path in (f"{place.root}/{name}", place.commit_log)
    assert "rocketpy store verify" in str(outcome)


@pytest.mark.parametrize("how", ["gone", "empty", "cut"])
@pytest.mark.parametrize("number", [1, 2])
def test_a_log_file_between_two_others_must_be_whole(place: Place, snapshot: Snapshot, number: int, how: str) -> None:
    """It names the file before the gap, or the short one."""
    files = {**snapshot.files, LOG_NAMES[number]: {"gone": b"", "empty": b"", "cut": bytes(100)}[how]}
    if how == "gone":
        del files[LOG_NAMES[number]]
    outcome = opened(place, files)
    assert isinstance(outcome, DamagedStoreError), outcome
    named = number if how != "gone" else number - 1
    assert outcome.path == f"{place.root}/{LOG_NAMES[named]}"
    assert {name: content for name, content in place.files(place.root).items() if name in files} == files


@pytest.mark.parametrize("size", [0, 1, 700, 1502 - 1])
def test_what_was_durable_is_missed_when_the_last_log_file_is_cut(place: Place, size: int) -> None:
    snapshot = stopped_store()
    outcome = opened(place, {**snapshot.files, LOG_NAMES[3]: snapshot.files[LOG_NAMES[3]][:size]})
    assert_log_error(outcome, place, LOG_NAMES[3 if size else 2])  # where the records end


def test_a_start_that_is_refused_changes_no_log_checkpoint_or_index_and_no_unit(place: Place) -> None:
    """A queue has units of nothing after its end, which a start clears; its own units lead to what a repair needs."""
    name = max(each for each in stopped_store().files if each.startswith("consumequeue/Orders/1/"))
    units = stopped_store().files[name].rstrip(b"\0")
    units += bytes(-len(units) % UNIT_SIZE)
    assert len(units) + UNIT_SIZE <= QUEUE_FILE_SIZE
    garbage = b"\xff" * UNIT_SIZE
    files = {
        **stopped_store().files,
        LOG_NAMES[3]: stopped_store().files[LOG_NAMES[3]][:100],
        name: (units + garbage).ljust(QUEUE_FILE_SIZE, b"\0"),
    }
    assert_log_error(opened(place, files), place, LOG_NAMES[3])
    left = {path: content for path, content in place.files(place.root).items() if path in files}
    assert left.pop(name)[: len(units)] == units
    assert left == {path: content for path, content in files.items() if path != name}


@pytest.mark.parametrize("how", ["gone", "empty", "cut", "cut within a unit"])
@pytest.mark.parametrize("name", QUEUE_NAMES)
def test_a_queue_file_is_made_again(place: Place, snapshot: Snapshot, name: str, how: str) -> None:
    files = dict(snapshot.files)
    if how == "gone":
        del files[name]
    else:
        files[name] = files[name][: {"empty": 0, "cut": 100, "cut within a unit": 107}[how]]
    assert_whole(snapshot, opened(place, files))


@pytest.mark.parametrize("directory", ["consumequeue/", "consumequeue/Orders/", "index/", "config/", "checkpoint"])
def test_a_directory_that_was_deleted_is_made_again(place: Place, snapshot: Snapshot, directory: str) -> None:
    files = {name: content for name, content in snapshot.files.items() if not name.startswith(directory)}
    assert_whole(snapshot, opened(place, files))


def test_all_log_files_gone_is_no_empty_store(place: Place, snapshot: Snapshot) -> None:
    files = {name: content for name, content in snapshot.files.items() if not name.startswith("commitlog/")}
    outcome = opened(place, files)
    assert isinstance(outcome, DamagedStoreError)
    assert outcome.path == place.commit_log


def test_log_files_at_the_beginning_that_were_deleted_are_like_expired_ones(place: Place, snapshot: Snapshot) -> None:
    """People do that to make room. What is left is served, from its first message on."""
    files = {name: content for name, content in snapshot.files.items() if name != LOG_NAMES[0]}
    outcome = opened(place, files)
    assert isinstance(outcome, Seen)
    assert outcome.damages == []
    left = {record for offset, record in snapshot.log if offset >= LOG_FILE_SIZE}
    assert {record for records in outcome.records.values() for record in records} == left


@pytest.mark.parametrize("how", ["empty", "cut", "longer"])
def test_an_index_file_of_a_wrong_size_is_made_again_after_a_kill(place: Place, how: str) -> None:
    snapshot = killed_store()
    name = index_names(snapshot)[0]
    content = snapshot.files[name]
    changed = {"empty": b"", "cut": content[:500], "longer": content + b"more"}[how]
    assert_whole(snapshot, opened(place, {**snapshot.files, name: changed}))


@pytest.mark.parametrize("name", ["checkpoint", "orderly-end", "lock"])
@pytest.mark.parametrize("content", [b"", b"\0", b"\xff" * 4096, b"1 2 3 4\n", b"2 -1 99999999999999999999 x y"])
def test_the_small_files_may_hold_anything(place: Place, name: str, content: bytes) -> None:
    """They only save work: all they say is checked against the rest."""
    for snapshot in (stopped_store(), killed_store()):
        assert_whole(snapshot, opened(place, {**snapshot.files, name: content}))
        place.remove_tree(place.root)


# ---- names ----------------------------------------------------------------------------------------------------------


def test_foreign_names_are_ignored_and_kept(place: Place, snapshot: Snapshot) -> None:
    foreign = {
        f"{directory}{name}": b"not ours"
        for directory in ("", "commitlog/", "consumequeue/", "consumequeue/Orders/", "consumequeue/Orders/0/", "index/")
        for name in (".DS_Store", "notes.txt", "0", "00000000000000000000.bak", "١٢٣", "-1")
        if (directory, name) not in (("consumequeue/Orders/", "0"), ("consumequeue/", "notes.txt"))
    }
    assert_whole(snapshot, opened(place, {**snapshot.files, **foreign}))
    found = place.files(place.root)
    assert {name: found.get(name) for name in foreign} == foreign


def test_directories_of_foreign_names_are_ignored(os_place: Place, snapshot: Snapshot) -> None:
    for directory in ("commitlog/lost+found", "consumequeue/lost+found/x", "consumequeue/Orders/old", "index/old"):
        os_place.disk.make_directories(f"{os_place.root}/{directory}")
    assert_whole(snapshot, opened(os_place, snapshot.files))


# ---- a directory where a file should be, and the other way round ----------------------------------------------------


@pytest.mark.parametrize(
    "name", [LOG_NAMES[0], LOG_NAMES[3], QUEUE_NAMES[0], "checkpoint", "abort", "lock", "orderly-end", "index"]
)
def test_a_directory_in_the_place_of_a_file_is_named(os_place: Place, snapshot: Snapshot, name: str) -> None:
    files = {each: content for each, content in snapshot.files.items() if not each.startswith(name)}
    name = index_names(snapshot)[0] if name == "index" else name
    os_place.disk.make_directories(f"{os_place.root}/{name}")
    outcome = opened(os_place, files)
    if isinstance(outcome, Seen):
        assert name.startswith("index/")
        assert outcome.records == snapshot.records
    else:
        assert isinstance(outcome, (StoreError, StartError))
        assert f"{os_place.root}/{name}" in str(outcome)


@pytest.mark.parametrize("name", ["commitlog", "consumequeue", "consumequeue/Orders", "consumequeue/Orders/0", "index"])
def test_a_file_in_the_place_of_a_directory_is_named(os_place: Place, snapshot: Snapshot, name: str) -> None:
    files = {each: content for each, content in snapshot.files.items() if not each.startswith(name)}
    outcome = opened(os_place, {**files, name: b"not a directory"})
    assert isinstance(outcome, (StoreError, StartError)), outcome
    assert f"{os_place.root}/{name}" in str(outcome)


# ---- permissions ----------------------------------------------------------------------------------------------------


class RefusingDisk(SimDisk):
    """A disk that does not let us open one file, as the system does where permissions are missing."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = ""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> DiskFile:
        if path == self.refused:
            raise store_error(PermissionError(13, os.strerror(13)), "cannot open", path)
        return super().open(path, create=create, read_only=read_only)


@pytest.mark.parametrize(
    "name", [LOG_NAMES[3], QUEUE_NAMES[1], "checkpoint", "orderly-end", "index/20231114221341000", "abort"]
)
def test_a_file_that_may_not_be_opened_is_named(name: str) -> None:
    disk = RefusingDisk()
    place = Place(disk, ROOT)
    write_store(place, stopped_store().files)
    before = place.files(ROOT)
    disk.refused = f"{ROOT}/{name}"
    outcome = look(place)
    assert isinstance(outcome, StoreError), outcome
    assert outcome.path == disk.refused
    assert "Permission denied" in str(outcome)
    disk.refused = ""
    assert place.files(ROOT) == before
    assert_whole(stopped_store(), look(place))


# ---- sizes and times ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"mapped_file_size_commit_log": 4096},
        {"mapped_file_size_commit_log": 1 << 20},
        {"mapped_file_size_consume_queue": 20},
        {"mapped_file_size_consume_queue": 6_000_000},
        {"mapped_file_size_consume_queue": 77},
        {"max_hash_slot_num": 7, "max_index_num": 11},
        {"message_index_enable": False},
    ],
    ids=str,
)
def test_a_store_of_other_sizes_opens_takes_messages_and_opens_again(
    place: Place, snapshot: Snapshot, changes: dict[str, object]
) -> None:
    write_store(place, snapshot.files)
    sent = [f"{number}".encode() * 100 for number in range(20)]
    send_all(place, sent, **changes)
    for again in (changes, {}):
        outcome = look(place, **again)
        assert isinstance(outcome, Seen)
        found = outcome.records["Orders", 1]
        assert found[:30] == snapshot.records["Orders", 1]
        assert [body in record for body, record in zip(sent, found[30:], strict=True)] == [True] * len(sent)
        assert {queue: outcome.records[queue] for queue in QUEUES if queue != ("Orders", 1)} == {
            queue: snapshot.records[queue] for queue in QUEUES if queue != ("Orders", 1)
        }


@pytest.mark.parametrize("then_ms", [0, 1, 1_000_000_000_000, 4_000_000_000_000])
def test_a_clock_that_jumps_harms_nothing(place: Place, snapshot: Snapshot, then_ms: int) -> None:
    """Back by decades, or far ahead and then back: order and offsets do not depend on times."""
    write_store(place, snapshot.files)

    async def life() -> None:
        clock = ManualClock(then_ms)
        async with open_again(place, clock=clock) as store:
            send(store, b"first", "Orders", 1)
            store.end_burst()
            clock.advance_ms(-min(then_ms, 500_000))
            send(store, b"second", "Orders", 1)
            store.end_burst()
            await trio.sleep(100)

    run(life)
    outcome = look(place)
    assert isinstance(outcome, Seen)
    found = outcome.records["Orders", 1]
    assert found[:30] == snapshot.records["Orders", 1]
    assert [b"first" in found[30], b"second" in found[31], len(found)] == [True, True, 32]


def checkpoint_of(*numbers: int, is_ours: bool = True) -> bytes:
    check = reduce(xor, numbers, CHECK) if is_ours else 0
    return struct.pack(">qqqqqqq", *numbers, check).ljust(4096, b"\0")


@pytest.mark.parametrize("times", [(-1, -1, -1), (1 << 62, 1 << 62, 1 << 62), (0, 0, 0), (1 << 62, 0, -(1 << 62))])
def test_a_checkpoint_of_absurd_times_loses_nothing(place: Place, times: tuple[int, int, int]) -> None:
    """Without our offsets after the times, as a Java broker leaves it, and with offsets that say little."""
    for snapshot in (stopped_store(), killed_store()):
        for content in (checkpoint_of(*times, 0, 0, 0, is_ours=False), checkpoint_of(*times, 0, 0, 0)):
            outcome = opened(place, {**snapshot.files, "checkpoint": content})
            assert isinstance(outcome, Seen)
            assert outcome.records == snapshot.records
            place.remove_tree(place.root)


def test_a_checkpoint_that_covers_more_than_there_is_names_what_is_missing(place: Place) -> None:
    snapshot = killed_store()
    outcome = opened(place, {**snapshot.files, "checkpoint": checkpoint_of(0, 0, 0, 1 << 40, 0, 0)})
    assert isinstance(outcome, DamagedStoreError)
    assert f"durable up to {1 << 40}" in str(outcome)
    assert outcome.path == f"{place.root}/{LOG_NAMES[3]}"


def test_without_a_checkpoint_the_note_of_the_stop_knows_that_a_record_is_damaged(place: Place) -> None:
    snapshot = stopped_store()
    files = {name: content for name, content in snapshot.files.items() if name != "checkpoint"}
    files[LOG_NAMES[1]] = b"\xff" + files[LOG_NAMES[1]][1:]
    outcome = opened(place, files)
    assert isinstance(outcome, DamagedStoreError)
    assert (outcome.path, outcome.position) == (f"{place.root}/{LOG_NAMES[1]}", 0)


@pytest.mark.parametrize(
    "numbers", [(-5, -5, -5), (0, 1 << 40, 0), (0, 17_000, 0), (0, 0, 1 << 40), (0, 0, -1)], ids=str
)
def test_offsets_of_a_checkpoint_that_cannot_be_lead_to_a_longer_walk_at_most(
    place: Place, numbers: tuple[int, int, int]
) -> None:
    snapshot = killed_store()
    content = checkpoint_of(0, 0, 0, *numbers)
    assert_whole(snapshot, opened(place, {**snapshot.files, "checkpoint": content}))


# ---- index ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        (0, 0, 0, 0, 0, 0),
        (-1, -1, -1, -1, -1, -1),
        (1 << 62, 0, 0, 0, 0, 1 << 30),
        (0, 1 << 62, 0, 1 << 62, 1 << 30, (1 << 31) - 1),
        (0, 1 << 62, 0, 0, 0, -(1 << 31)),
    ],
    ids=str,
)
def test_an_index_header_that_is_absurd_leads_to_no_wrong_message(
    place: Place, snapshot: Snapshot, header: tuple[int, ...]
) -> None:
    """Keys of that file may be missing until the index is deleted; what is found is right, and sends go on."""
    for name in index_names(snapshot):
        content = struct.pack(">qqqqii", *header) + snapshot.files[name][40:]
        outcome = opened(place, {**snapshot.files, name: content})
        assert isinstance(outcome, Seen)
        assert outcome.records == snapshot.records
        assert {key: record for key, record in outcome.keys.items() if record != snapshot.keys[key]} == {}

        async def life() -> bytes:
            async with open_again(place) as store:
                send(store, b"next", "Orders", 1, b"next-key")
                store.end_burst()
                while store.index_behind:
                    await trio.sleep(0.01)
                return (await store.query_message("Orders", "next-key", 32, 0, 1 << 62)).body

        assert b"next-key" in run(life)
        place.remove_tree(place.root)
