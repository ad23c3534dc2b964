"""Reads of keys through the index: whatever the index has, lacks or has wrong, they find what the log has."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketpy.client import Message, blocking
from rocketpy.spark.files import key_index, key_plan
from rocketpy.spark.files.byte_ranges import ByteRange
from rocketpy.spark.files.key_plan import KeyPlan, plan_keys
from rocketpy.spark.files.log_files import list_log_files
from rocketpy.spark.files.plan import Planner
from rocketpy.spark.files.problems import raise_problem
from rocketpy.spark.files.unit_ranges import FoundRecords
from rocketpy.spark.filters import MessageFilter
from rocketpy.testing.fixture.in_thread import BrokerInThread
from tests.spark.files.built_store import INDEX_LAYOUT, BuiltStore, Spec, build_store, write_index
from tests.spark.files.test_reader import STORES, golden_store, offsets, open_reader, rows

KEYS = ["a", "", "b", "a b", "b a a"]
CHEAP = -(1 << 40)
"""A cost of a place at which the index is always chosen."""

specs = st.builds(
    Spec,
    body_size=st.sampled_from([10, 0, 100, 700]),
    topic=st.sampled_from(["T", "T", "U"]),
    keys=st.sampled_from(KEYS),
    ipv6=st.booleans(),
)


HEADER = st.tuples(st.integers(0, 39), st.binary(min_size=1, max_size=8))
ENTRIES = INDEX_LAYOUT.entries_position
FIELDS = st.sampled_from([(0, 20), (4, 8), (16, 4)])  # a whole entry, its offset, the number of the older one


@st.composite
def damages(draw: st.DrawFn) -> tuple[int, int, bytes]:
    """Return (number of a file, position, content): of all but hashes, which nothing tells from others."""
    number = draw(st.integers(0, 3))
    if draw(st.booleans()):
        position, content = draw(HEADER)
        return number, position, content[: 40 - position]
    at, size = draw(FIELDS)
    content = bytes(size) if size == 20 else draw(st.binary(min_size=size, max_size=size))
    return number, ENTRIES + 20 * draw(st.integers(1, 20)) + at, content


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Spec], list[slice], list[tuple[int, int, bytes]]]:
    """Return messages; which of them are in which file of the index; and damage."""
    messages = draw(st.lists(specs, min_size=1, max_size=40))
    parts, at = [], 0
    while at < len(messages):
        at += draw(st.sampled_from([0, 0, 1, 7]))  # these are in no file
        parts.append(slice(at, at := at + draw(st.integers(0, 9)) + 1))
    return messages, parts, draw(st.lists(damages(), max_size=1))


def found(path: Path, **options: str) -> list[object]:
    return sorted(offsets(rows(open_reader(path, **options))))  # type: ignore[type-var]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases())
def test_keys_are_found_as_in_the_log(
    monkeypatch: pytest.MonkeyPatch, case: tuple[list[Spec], list[slice], list[tuple[int, int, bytes]]]
) -> None:
    messages, parts, spoiled = case
    monkeypatch.setattr(key_plan, "PLACE_COST", CHEAP)
    with tempfile.TemporaryDirectory() as directory:
        store = build_store(Path(directory) / "store", messages)
        paths = [write_index(store, part) for part in parts]
        for number, position, content in spoiled:
            if number < len(paths):
                with paths[number].open("r+b") as file:
                    file.seek(position)
                    file.write(content)
        for options in ({"topic": "T", "keys": "a"}, {"topic": "T,U", "keys": "b,a"}, {"topic": "U", "keys": "absent"}):
            expected = found(store.root, readUnits="never", **options)
            assert found(store.root, readUnits="always", minPartitions="3", **options) == expected


@pytest.mark.parametrize(("entry", "shift"), [(20, 8), (21, -8)], ids=["before the gap", "after it"])
def test_a_damaged_entry_beside_a_gap_leaves_its_part_to_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: int, shift: int
) -> None:
    """The file is sound: offsets ascend from the first to the last. But no record is where the span ends, or begins."""
    store = build_store(tmp_path / "store", [Spec(keys=f"k{number % 5}") for number in range(60)])
    whole, store.records = store.records, [*store.records[10:20], *store.records[40:50]]
    path, store.records = write_index(store, slice(0, 20)), whole
    gap = store.offsets[40] - store.offsets[19]
    monkeypatch.setattr(key_index, "GAP_BYTES_MAX", gap - 100)
    monkeypatch.setattr(key_plan, "PLACE_COST", CHEAP)
    with path.open("r+b") as file:
        position = ENTRIES + 20 * entry + 4
        file.seek(position)
        offset = int.from_bytes(file.read(8), "big")
        assert offset == store.offsets[19 if entry == 20 else 40]
        file.seek(position)
        file.write((offset + shift).to_bytes(8, "big"))
    made = plan(store, "k2")
    assert made is not None
    assert made.found, "the other part of the file is believed"
    for key in ("k2", "k4", "k0"):
        expected = found(store.root, readUnits="never", topic="T", keys=key)
        assert found(store.root, readUnits="always", topic="T", keys=key) == expected


@pytest.mark.parametrize("name", STORES)
def test_keys_of_a_java_store_are_found_through_its_index(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_plan, "PLACE_COST", CHEAP)
    path, records = golden_store(name, tmp_path)
    keys: dict[str, set[str]] = {}
    for record in records:
        properties = dict(record["properties"])  # type: ignore[call-overload]
        keys.setdefault(str(record["topic"]), set()).update(
            {properties.get("UNIQ_KEY", ""), *properties.get("KEYS", "").split()} - {"", None}
        )
    indexed = 0
    for topic, those in keys.items():
        wanted = {"topic": topic, "keys": ",".join(each for each in sorted(those)[:20] if "," not in each)}
        if wanted["keys"]:
            straight = found(path, readUnits="never", decompress="false", **wanted)
            assert straight == found(path, readUnits="auto", decompress="false", **wanted)
            assert straight
            parts = open_reader(path, **wanted).partitions()
            indexed += any(isinstance(part.value, FoundRecords) for part in parts)
    assert (indexed > 0) == any((path / "index").glob("*")), name


def test_a_running_broker_s_newest_messages_are_found_beside_those_of_its_index(
    rocketmq: BrokerInThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_plan, "PLACE_COST", CHEAP)
    topic = rocketmq.topic("Keys", 2)
    with blocking.open_producer(rocketmq.name_server) as producer:
        for number in range(100):
            producer.send(Message(topic, b"%d" % number, {"KEYS": f"k{number % 10} all"}))
    store = Path(rocketmq.directory) / "store"
    for key, expected in {"k9": 10, "all": 100, "k": 0}.items():
        reader = open_reader(store, topic=topic, keys=key)
        assert {FoundRecords, ByteRange} >= {type(each.value) for each in reader.partitions()}
        assert len(rows(reader)) == expected
    assert FoundRecords in {type(each.value) for each in open_reader(store, topic=topic, keys="all").partitions()}


# ---- plans ----------------------------------------------------------------------------------------------------------


def plan(store: BuiltStore, *keys: str, partition_bytes: int = 1 << 20) -> KeyPlan | None:
    ranges = Planner(queues=[], partition_bytes_max=1 << 20).plan(list_log_files(str(store.root), raise_problem)).ranges
    wants = MessageFilter(topics=frozenset({"T"}), keys=frozenset(keys))
    return plan_keys(str(store.root), wants, ranges, partition_bytes)


@pytest.fixture
def store(tmp_path: Path) -> BuiltStore:
    built = build_store(tmp_path / "store", [Spec(keys=f"k{number % 5}") for number in range(60)])
    write_index(built, slice(10, 30))
    return built


def test_what_the_index_covers_is_read_record_by_record_and_the_rest_as_a_whole(store: BuiltStore) -> None:
    made = plan(store, "k2")
    assert made is not None
    assert [part.offsets.tolist() for part in made.found] == [[store.offsets[each] for each in (12, 17, 22, 27)]]
    assert [(part.file.base_offset + part.start, part.file.base_offset + part.end) for part in made.rest] == [
        (0, store.offsets[11]),
        (store.offsets[29], 8192),
        (8192, store.offsets[-1] + len(store.records[-1][1])),
    ]
    assert made.cost > sum(part.size for part in made.rest)


def test_tasks_have_records_of_about_as_many_bytes_as_asked_for(store: BuiltStore) -> None:
    made = plan(store, *(f"k{number}" for number in range(5)), partition_bytes=3 * 5000)
    assert made is not None
    assert {len(part.offsets) for part in made.found[:-1]} <= {3, 4}
    assert [offset for part in made.found for offset in part.offsets.tolist()] == store.offsets[11:29]


def test_without_topic_keys_or_a_believable_index_there_is_no_plan(
    store: BuiltStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(key_plan, "PLACES_MAX", 3)
        assert plan(store, "k2") is None, "too many places"
    for number in (11, 22):
        offset, content = store.records[number]
        store.spoil(offset + 28, bytes(8))  # another physical offset: no record is there
        assert plan(store, "k2") is None
        store.spoil(offset, content)
    ranges = [part for made in [plan(store, "k2")] if made for part in made.rest]
    root = str(store.root)
    assert plan_keys(root, MessageFilter(topics=frozenset({"T"})), ranges, 1000) is None
    assert plan_keys(root, MessageFilter(keys=frozenset({"k"})), ranges, 1000) is None
    assert plan_keys(root, MessageFilter(topics=frozenset({"T"}), keys=frozenset({"k"})), [], 1000) is None
    shutil.rmtree(store.root / "index")
    assert plan(store, "k2") is None
