"""Each step of a repair by itself: what it says, what it leaves, what it keeps; and dying in any of its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import attrs
import pytest

from rocketpy.store.inspection.repair.kept_pieces import KEPT_PREFIX, NOTES_FILE, KeptPieces
from rocketpy.store.inspection.repair.log_filling import LogFilling
from rocketpy.store.inspection.repair.steps import (
    CutLog,
    CutQueue,
    MoveAway,
    RepairContext,
    RepairStep,
    RestoreTable,
    RewindCheckpoint,
    SetLength,
    SetTime,
)
from rocketpy.store.inspection.verify.inventory import QueueFiles, StoreFile
from rocketpy.store.layout import UNIT_SIZE
from rocketpy.store.recovery.checkpoint import CHECKPOINT_SIZE, DurableEnds, load_checkpoint
from rocketpy.testing.sim.disk import SimDisk
from tests.store.deaths import different_disks, noted_deaths
from tests.store.parts import Place

ROOT = "/store"
LOG, QUEUE = f"{ROOT}/commitlog", f"{ROOT}/consumequeue/T/0"
SIZE = 1000
QUEUE_SIZE = 10 * UNIT_SIZE
WHY = "because"


def log_file(number: int) -> StoreFile:
    return StoreFile(f"{LOG}/{number * SIZE:020d}", number * SIZE, SIZE, SIZE)


def queue_file(number: int) -> StoreFile:
    base = number * QUEUE_SIZE
    return StoreFile(f"{QUEUE}/{base:020d}", base, QUEUE_SIZE, QUEUE_SIZE)


LOG_FILES = tuple(map(log_file, range(3)))
QUEUE_FILES = QueueFiles("T", 0, QUEUE, tuple(map(queue_file, range(3))))


def store() -> Place:
    """Three full files of log and queue, and the small files of a clean shutdown, all of it durable."""
    disk = SimDisk()
    place = Place(disk, ROOT)
    for number, file in enumerate(LOG_FILES):
        place.write(file.path, bytes([65 + number]) * SIZE)
    for number, file in enumerate(QUEUE_FILES.files):
        place.write(file.path, bytes([97 + number]) * QUEUE_SIZE)
    place.write(f"{ROOT}/checkpoint", b"\1" * CHECKPOINT_SIZE)
    place.write(f"{ROOT}/orderly-end", b"noted")
    place.write(f"{ROOT}/config/topics.json", b"broken")
    place.write(f"{ROOT}/config/topics.json.bak", b"whole")
    disk.lose_power(lambda count: count - 1)
    return place


def workshop(place: Place) -> RepairContext:
    kept = KeptPieces(place.disk, ROOT, timestamp_ms=1_700_000_000_000)
    return RepairContext(place.disk, ROOT, kept, cast("LogFilling", None))


@attrs.frozen
class Case:
    step: RepairStep
    says: tuple[int | None, int | None, int]
    """Which bytes change, and how many are kept at most."""
    does: str
    leaves: dict[str, bytes | None]
    keeps: list[bytes]


CASES = {
    "move away": Case(
        MoveAway(path=LOG_FILES[2].path, why=WHY),
        (None, None, 0),
        "moves it away",
        {LOG_FILES[2].path: None},
        [b"C" * SIZE],
    ),
    "extend": Case(
        SetLength(path=LOG_FILES[2].path, size=1500, length=SIZE),
        (1000, 1500, 0),
        "extends it by zeros to 1500",
        {LOG_FILES[2].path: b"C" * SIZE + bytes(500)},
        [],
    ),
    "shorten": Case(
        SetLength(path=LOG_FILES[2].path, size=600, length=SIZE),
        (600, 1000, 400),
        "truncates it to 600",
        {LOG_FILES[2].path: b"C" * 600},
        [b"C" * 400],
    ),
    "extend after a unit that is cut": Case(
        SetLength(path=QUEUE_FILES.files[2].path, size=QUEUE_SIZE + 5, length=QUEUE_SIZE, item_size=30),
        (QUEUE_SIZE, QUEUE_SIZE + 5, 0),
        "extends it by zeros to 205",
        {QUEUE_FILES.files[2].path: b"c" * 180 + bytes(25)},
        [b"c" * 20],
    ),
    "set a time": Case(
        SetTime(path=LOG_FILES[0].path, begin=56, timestamp_ms=1_700_000_000_000, why=WHY),
        (56, 64, 8),
        "writes the storeTimestamp 1700000000000",
        {LOG_FILES[0].path: b"A" * 56 + (1_700_000_000_000).to_bytes(8, "big") + b"A" * (SIZE - 64)},
        [b"A" * 8],
    ),
    "cut the log in a file": Case(
        CutLog(files=LOG_FILES[1:], offset=1300, lost_bytes=1700, why=WHY),
        (300, None, 700),
        "truncates the log at offset 1300: 1700 bytes up to its last record are lost",
        {LOG_FILES[1].path: b"B" * 300 + bytes(700), LOG_FILES[2].path: None, LOG_FILES[0].path: b"A" * SIZE},
        [b"C" * SIZE, b"B" * 700],
    ),
    "cut the log between files": Case(
        CutLog(files=LOG_FILES[1:], offset=900, lost_bytes=2100, why=WHY),
        (0, None, 1000),
        "truncates the log at offset 900: 2100 bytes up to its last record are lost",
        {LOG_FILES[1].path: None, LOG_FILES[2].path: None, LOG_FILES[0].path: b"A" * SIZE},
        [b"C" * SIZE, b"B" * SIZE],
    ),
    "cut a queue": Case(
        CutQueue(queue=QUEUE_FILES, queue_offset=13, why=WHY),
        (3 * UNIT_SIZE, None, QUEUE_SIZE),
        "truncates the queue at queue offset 13; it is rebuilt from there",
        {
            QUEUE_FILES.files[0].path: b"a" * QUEUE_SIZE,
            QUEUE_FILES.files[1].path: b"b" * 60 + bytes(140),
            QUEUE_FILES.files[2].path: None,
        },
        [b"c" * QUEUE_SIZE, b"b" * 140],
    ),
    "restore a table": Case(
        RestoreTable(path=f"{ROOT}/config/topics.json", why=WHY),
        (None, None, 0),
        "restores it from its .bak",
        {f"{ROOT}/config/topics.json": b"whole"},
        [b"broken"],
    ),
    "rewind": Case(
        RewindCheckpoint(
            root=ROOT,
            why=WHY,
            ends=DurableEnds(2000, 1000, 0),
            physic_msg_timestamp_ms=5,
            index_msg_timestamp_ms=4,
        ),
        (None, None, CHECKPOINT_SIZE),
        "has the next start scan the log from 1000 on",
        {f"{ROOT}/orderly-end": None, f"{ROOT}/abort": b""},
        [b"\1" * CHECKPOINT_SIZE, b"noted"],
    ),
}


def check(place: Place, case: Case) -> None:
    """The store is as the step leaves it, and durably so."""
    assert isinstance(place.disk, SimDisk)
    place.disk.lose_power(choose=lambda count: 0)
    for path, content in case.leaves.items():
        assert (place.read(path) if place.disk.exists(path) else None) == content, path


def kept(place: Place) -> list[bytes]:
    """Every piece that was kept, in order, of every repair."""
    found = []
    for name in place.disk.list_directory(ROOT):
        if name.startswith(KEPT_PREFIX):
            names = [each for each in place.disk.list_directory(f"{ROOT}/{name}") if each != NOTES_FILE]
            found += [place.read(f"{ROOT}/{name}/{each}") for each in names]
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_step_does_what_it_says_and_keeps_what_was_there(name: str) -> None:
    case, place = CASES[name], store()
    step = case.step
    assert (step.begin, step.end, step.kept_bytes) == case.says
    assert step.does == case.does
    step.apply(workshop(place))
    check(place, case)
    assert kept(place) == case.keeps


@pytest.mark.parametrize("name", CASES)
def test_dying_in_any_call_and_beginning_again_leads_to_the_same_store(name: str) -> None:
    """With the power, so that nothing survives that was not synced; what was there is then kept at least once."""
    case, undisturbed = CASES[name], store()
    assert isinstance(undisturbed.disk, SimDisk)
    with noted_deaths(undisturbed.disk) as deaths:
        case.step.apply(workshop(undisturbed))
    for disk in different_disks(deaths[:-1], lambda count: 0):
        place = Place(disk, ROOT)
        again(case.step, place)
        check(place, case)
        pieces = b"".join(kept(place))
        assert all(piece in pieces for piece in case.keeps)


def again(step: RepairStep, place: Place) -> None:
    """Plan the rest again, as the next repair does: by the existing files and their lengths."""
    disk = place.disk
    if isinstance(step, SetLength):
        length = disk.file_size(step.path)
        if length != step.size:
            attrs.evolve(step, length=length).apply(workshop(place))
        return
    if isinstance(step, CutLog):
        files = tuple(file for file in step.files if disk.exists(file.path))
        if files:
            attrs.evolve(step, files=files).apply(workshop(place))
        return
    if isinstance(step, CutQueue):
        left = tuple(file for file in step.queue.files if disk.exists(file.path))
        step = attrs.evolve(step, queue=attrs.evolve(step.queue, files=left))
    step.apply(workshop(place))


def test_the_checkpoint_says_from_where_and_what_java_takes_for_durable() -> None:
    place = store()
    CASES["rewind"].step.apply(workshop(place))
    checkpoint = load_checkpoint(place.disk, f"{ROOT}/checkpoint")
    assert checkpoint.ends == DurableEnds(2000, 1000, 0)
    times = checkpoint.physic_msg_timestamp_ms, checkpoint.logics_msg_timestamp_ms, checkpoint.index_msg_timestamp_ms
    assert times == (5, 5, 4)


@pytest.mark.parametrize(
    "make", [lambda path: MoveAway(path=path, why=WHY), lambda path: RestoreTable(path=path, why=WHY)]
)
def test_what_is_gone_already_needs_nothing(make: Callable[[str], RepairStep]) -> None:
    place = store()
    make(f"{ROOT}/no-such-file").apply(workshop(place))
    assert kept(place) == []


def test_a_queue_is_cut_at_a_file_s_beginning_by_taking_files_away_only() -> None:
    place = store()
    CutQueue(queue=QUEUE_FILES, queue_offset=10, why=WHY).apply(workshop(place))
    assert place.read(QUEUE_FILES.files[0].path) == b"a" * QUEUE_SIZE
    assert place.disk.list_directory(QUEUE) == [QUEUE_FILES.files[0].path.rpartition("/")[2]]


def test_a_queue_that_ends_before_the_place_stays() -> None:
    place = store()
    step = CutQueue(queue=QUEUE_FILES, queue_offset=99, why=WHY)
    assert (step.path, step.begin, step.kept_bytes) == (QUEUE, 0, 0)
    step.apply(workshop(place))
    assert len(place.disk.list_directory(QUEUE)) == 3
