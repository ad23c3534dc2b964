"""Plans: any split of any store yields each record once, the log ends where it ended, useless files are skipped."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.errors import StoreError
from rocketpy.protocol.stored_message import BLANK_MAGIC_CODE
from rocketpy.spark.files import plan as plan_module
from rocketpy.spark.files.byte_ranges import RangeReader
from rocketpy.spark.files.log_files import CommitLogFile, list_log_files
from rocketpy.spark.files.plan import LOOKS_AT_TAIL, Plan, Planner, is_being_written, walk
from rocketpy.spark.files.problems import Problem, ReadMode, raise_problem
from rocketpy.spark.files.queue_units import KnownRecords, list_queues
from rocketpy.spark.filters import EVERYTHING, MessageFilter, Range
from tests.spark.files.built_store import FILE_SIZE, START_MS, BuiltStore, Spec, build_store, record

HEAD = 88
specs = st.builds(
    Spec,
    body_size=st.sampled_from([0, 1, 20, 20, 20, 100, 1000]),
    topic=st.sampled_from(["T", "T", "U"]),
    queue_id=st.integers(0, 1),
    ipv6=st.booleans(),
    decoy=st.booleans(),
)
stores = st.lists(specs, min_size=1, max_size=60)


@pytest.fixture(autouse=True)
def _small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of a few records: the least size is for real stores."""
    monkeypatch.setattr(plan_module, "PARTITION_BYTES_MIN", 1)


def make_plan(
    store: BuiltStore, *, uses_queues: bool = True, step: int = 500, least: int = 1, wants: MessageFilter = EVERYTHING
) -> Plan:
    queues = list_queues(str(store.root / "consumequeue")) if uses_queues else []
    planner = Planner(
        queues=queues,
        partition_bytes_max=step,
        partitions_min=least,
        wants=wants,
        cores=1,
    )
    known = KnownRecords(queues)
    files = list_log_files(str(store.root), lambda problem: None, lambda file: known.last_record(file) is not None)
    return planner.plan(files)


def read(
    store: BuiltStore,
    plan: Plan,
    mode: ReadMode = ReadMode.FAIL_FAST,
    *,
    uses_queues: bool = True,
    report: Callable[[Problem], None] = raise_problem,
    piece_size: int = 700,
) -> list[int]:
    known = KnownRecords(list_queues(str(store.root / "consumequeue")) if uses_queues else [])
    reader = RangeReader(report=report, next_record=known.next_record, mode=mode, piece_size=piece_size)
    return [
        int.from_bytes(bytes(block.buffer[start + 28 : start + 36]), "big")
        for part in plan.ranges
        for block in reader.read(part)
        for start in block.starts.tolist()
    ]


@settings(max_examples=60, deadline=None)
@given(stores, st.booleans(), st.integers(100, 5000), st.integers(1, 40), st.integers(1, 3000), st.integers(0, 2))
def test_any_split_of_any_store_yields_each_record_once(
    those: list[Spec], uses_queues: bool, step: int, least: int, piece_size: int, preallocated: int
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        store = build_store(Path(directory) / "store", those, preallocated=preallocated)
        plan = make_plan(store, uses_queues=uses_queues, step=step, least=least)
        assert read(store, plan, uses_queues=uses_queues, piece_size=piece_size) == store.offsets
        assert plan.tail is None


damages = st.lists(
    st.tuples(st.integers(0, 59), st.sampled_from(["size", "magic", "offset", "length", "body", "zero"]))
)


@settings(max_examples=60, deadline=None)
@given(stores, damages, st.integers(100, 5000), st.integers(1, 40))
def test_any_split_of_a_damaged_store_yields_each_sound_record_once(
    those: list[Spec], damages: list[tuple[int, str]], step: int, least: int
) -> None:
    """With ConsumeQueues, damage costs exactly what it hit; without, some sound records are not found, none twice."""
    with tempfile.TemporaryDirectory() as directory:
        store = build_store(Path(directory) / "store", [Spec(), *those])
        damaged = {}
        for number, kind in damages:
            if 0 < number < len(store.records) and store.offsets[number] not in damaged:
                damaged[store.offsets[number]] = kind
                spoil(store, number, kind)
        sound = [offset for offset in store.offsets if offset not in damaged]
        plan = make_plan(store, step=step, least=least)
        problems: list[Problem] = []
        assert read(store, plan, ReadMode.DROP_MALFORMED, report=problems.append) == sound
        end = plan.ranges[-1].file.base_offset + plan.ranges[-1].end
        assert {offset for offset in damaged if offset < end} == {
            offset for offset in damaged for each in problems if covers(each, offset)
        }
        walked = make_plan(store, uses_queues=False, step=step, least=least)
        found = read(store, walked, ReadMode.DROP_MALFORMED, uses_queues=False, report=problems.append)
        assert found == sorted(set(found))
        assert set(found) <= set(sound)
        first = min(damaged, default=1 << 40)
        assert [each for each in sound if each < first] == [each for each in found if each < first]


def covers(problem: Problem, offset: int) -> bool:
    return 0 <= offset - int(Path(problem.path).name) - problem.position < problem.size


def spoil(store: BuiltStore, number: int, kind: str) -> None:
    offset, content = store.records[number]
    head = 112 if content[39] & 0x10 else HEAD
    place, size = {
        "size": (0, 4),
        "magic": (4, 1),
        "offset": (35, 1),
        "length": (head - 1, 1),
        "body": (head, 1),
        "zero": (0, len(content)),
    }[kind]
    if kind in ("zero", "size"):
        store.spoil(offset, bytes(size))
    else:
        store.spoil(offset + place, bytes([content[place] ^ 0x41]))


@pytest.mark.parametrize("cut", range(4, len(record(0)), 9))
@pytest.mark.parametrize("uses_queues", [True, False])
def test_the_log_ends_before_a_record_that_a_crash_cut_short(cut: int, uses_queues: bool, tmp_path: Path) -> None:
    """Its unit may be in the queue already."""
    store = build_store(tmp_path / "store", [Spec()] * 3)
    offset, content = store.records[2]
    store.spoil(offset, content[:cut].ljust(len(content), b"\0"))
    plan = make_plan(store, uses_queues=uses_queues, least=3)
    assert read(store, plan, uses_queues=uses_queues) == store.offsets[:2]
    assert plan.tail is not None
    assert (plan.tail.position, plan.tail.size) == (offset, FILE_SIZE - offset)
    assert "the log ends before it" in plan.tail.what


def test_a_torn_body_ends_the_log_only_if_nothing_follows(tmp_path: Path) -> None:
    """A reader of a dead disk must not be told that the log ends where much of it follows."""
    store = build_store(tmp_path / "store", [Spec()] * 4, with_queues=False)
    store.spoil(store.offsets[2] + HEAD, b"\0")
    plan = make_plan(store, uses_queues=False)
    assert plan.tail is None
    with pytest.raises(StoreError, match="CRC") as caught:
        read(store, plan)
    assert caught.value.position == store.offsets[2]
    store.spoil(store.offsets[3] + HEAD, b"\0")
    assert read(store, make_plan(store, uses_queues=False)) == store.offsets[:2]


def test_a_record_of_another_position_ends_the_log(tmp_path: Path) -> None:
    """Left by a truncation."""
    store = build_store(tmp_path / "store", [Spec()] * 2)
    store.spoil(2 * len(store.records[0][1]), record(4711))
    assert read(store, make_plan(store, least=3)) == store.offsets


def test_a_last_file_that_begins_with_zeros_is_read_if_a_queue_knows_its_records(tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", [Spec()] * 40)
    first = next(offset for offset in store.offsets if offset >= FILE_SIZE)
    store.spoil(first, bytes(len(store.records[0][1])))
    found = read(store, make_plan(store), ReadMode.PERMISSIVE, report=lambda problem: None)
    assert found == [offset for offset in store.offsets if offset != first]
    with pytest.raises(StoreError, match="damaged") as caught:
        read(store, make_plan(store))
    assert caught.value.position == 0


@pytest.mark.parametrize("uses_queues", [True, False])
def test_what_is_appended_after_the_plan_is_not_read(uses_queues: bool, tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", [Spec()] * 3)
    plan = make_plan(store, uses_queues=uses_queues)
    store.spoil(3 * len(store.records[0][1]), record(3 * len(store.records[0][1]), queue_offset=3))
    assert read(store, plan) == store.offsets
    assert len(read(store, make_plan(store, uses_queues=uses_queues))) == 4


@pytest.mark.parametrize("uses_queues", [True, False])
def test_ranges_are_as_many_and_as_small_as_asked_for(uses_queues: bool, tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", [Spec()] * 60)
    size = len(store.records[0][1])
    for least in (1, 5, 20):
        plan = make_plan(store, uses_queues=uses_queues, step=1 << 30, least=least)
        assert least <= len(plan.ranges) <= 2 * least + 2
    plan = make_plan(store, uses_queues=uses_queues, step=1000)
    assert max(part.size for part in plan.ranges) <= 1000 + size
    assert len(make_plan(store, uses_queues=uses_queues, step=1 << 30).ranges) == len(store.offsets) * size // 4096 + 1


@pytest.mark.parametrize(
    ("cores", "step", "ranges"), [(1, 1400, 3), (2, 1400, 4), (2, 700, 6), (4, 1400, 4), (4, 700, 8)]
)
def test_cores_have_equally_many_ranges(cores: int, step: int, ranges: int, tmp_path: Path) -> None:
    """One range more than there are cores would take as long as a second one for each of them."""
    store = build_store(tmp_path / "store", [Spec()] * 24, with_queues=False)
    [file, *_] = list_log_files(str(store.root), raise_problem)
    assert 3800 < sum(len(content) for _, content in store.records) < 4096
    plan = Planner(queues=[], partition_bytes_max=step, cores=cores).plan([file])
    assert len(plan.ranges) == ranges
    sizes = [part.size for part in plan.ranges]
    assert max(sizes) - min(sizes) <= 2 * len(store.records[0][1])


def test_large_stores_are_not_walked_unless_partitions_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = build_store(tmp_path / "store", [Spec()] * 80, with_queues=False)
    walked: list[str] = []

    def watched(file: CommitLogFile, start: int, end: int | None = None) -> object:
        walked.append(file.path)
        return walk(file, start, end)

    monkeypatch.setattr(plan_module, "walk", watched)
    monkeypatch.setattr(plan_module, "WALK_BYTES_MAX", 100)
    assert len(make_plan(store, step=500).ranges) > 2
    assert walked == [str(store.log_file(3))]  # to find the end of the log
    make_plan(store, step=500, least=4)
    assert len(walked) == 2


def test_files_and_ranges_are_skipped_by_time_with_a_margin_for_the_clock(tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", [Spec()] * 400)  # one a second
    start, end = START_MS + 200_000, START_MS + 220_000
    plan = make_plan(store, wants=MessageFilter(store_timestamps_ms=Range(start, end)), step=500)
    found = [offset for offset in store.offsets if any(holds(part, offset) for part in plan.ranges)]
    margin = 60  # seconds that a clock may have gone back
    assert {*store.offsets[200 - margin : 220 + margin]} <= {*found}
    assert len(found) <= 20 + 2 * margin + 20
    assert make_plan(store, wants=MessageFilter(store_timestamps_ms=Range(None, 0))).ranges == []
    later = MessageFilter(store_timestamps_ms=Range(START_MS + 10**9))
    assert len(make_plan(store, wants=later).ranges) == 1  # nothing says when the last record was stored


def test_files_and_ranges_are_skipped_by_physical_offset(tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", [Spec()] * 100)
    low, high = store.offsets[40], store.offsets[50]
    plan = make_plan(store, wants=MessageFilter(physical_offsets=Range(low, high)), step=500)
    found = [offset for offset in store.offsets if any(holds(part, offset) for part in plan.ranges)]
    assert {*store.offsets[40:50]} <= {*found}
    assert len(found) < 25


def holds(part: object, offset: int) -> bool:
    return part.start <= offset - part.file.base_offset < part.end  # type: ignore[attr-defined]


def test_a_store_without_messages_has_an_empty_plan(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(bytes(100))
    assert make_plan(BuiltStore(tmp_path)) == Plan([])


def test_a_walk_says_where_and_why_it_stopped(tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", [Spec()] * 40)
    first, last = list_log_files(str(store.root), raise_problem)
    own = [offset for offset in store.offsets if offset < FILE_SIZE]
    starts, end, why = walk(first, 0)
    assert (starts.tolist(), end, why) == (own, own[-1] + len(store.records[0][1]), "")
    assert walk(first, own[3], own[5])[0].tolist() == own[3:5]
    starts, end, why = walk(last, 0)
    assert why == "expected a record, found size 0 and magic 0"
    assert end == store.offsets[-1] + len(store.records[0][1]) - FILE_SIZE


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize("is_blank", [True, False], ids=["a file that it closes", "a record"])
def test_what_a_broker_is_writing_is_no_damage(is_blank: bool, is_written: bool, tmp_path: Path) -> None:
    """Its begin is seen before its end. What is not written any further is torn."""
    store = build_store(tmp_path / "store", [Spec()] * 3, with_queues=False)
    offset, content = store.records[-1]
    if is_blank:
        offset += len(content)
        content = struct.pack(">ii", FILE_SIZE - offset, BLANK_MAGIC_CODE)
    seen = len(content) // 2
    store.spoil(offset, content[:seen].ljust(len(content), b"\0"))
    tail = make_plan(store, uses_queues=False).tail
    assert tail is not None
    assert tail.position == offset
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if is_written and len(looks) == 2:
            store.spoil(offset, content)

    assert is_being_written(tail, sleep) == is_written
    assert len(looks) == (2 if is_written else LOOKS_AT_TAIL)
