"""Everything that Java says of its stores is in a dump of their files."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from rocketpy.errors import StoreError
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.inspection.show.dump import DumpOptions, FileKind, Item, StoreDump, kind_of
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.store.recovery.marker_files import OrderlyEnd, persist_orderly_end
from tests.store import broken_stores
from tests.store.broken_stores import unpack
from tests.store.golden_store import expected

STORES = ("store-clean", "store-ext", "store-multi", "store-ipv6", "store-torn", "store-empty")


def dumped(path: Path, **options: object) -> list[Item]:
    dump = StoreDump(OsDisk(), DumpOptions(**options))  # type: ignore[arg-type]
    items = list(dump.items(str(path)))
    dump.close()
    return items


def of_kind(items: list[Item], kind: str) -> list[dict[str, object]]:
    return [item.fields for item in items if item.kind == kind]


@pytest.mark.parametrize("name", STORES)
def test_a_whole_store(name: str, tmp_path: Path) -> None:
    store = unpack(name, tmp_path)
    items = dumped(store.root)
    java = expected(name)
    records = of_kind(items, "record")
    assert [each["physical_offset"] for each in records] == [each["offset"] for each in java.get("record", [])]
    for ours, theirs in zip(records, java.get("record", []), strict=True):
        assert (ours["topic"], ours["queue_id"], ours["queue_offset"]) == (
            theirs["topic"],
            theirs["queueId"],
            theirs["queueOffset"],
        )
        assert ours["properties"] == theirs["properties"]
    (checkpoint,) = java["checkpoint"]
    (ours_of_it,) = of_kind(items, "checkpoint")
    assert sorted(ours_of_it.values()) == sorted(each for each in checkpoint.values() if isinstance(each, int))
    headers = of_kind(items, "index-header")
    assert [each["index_count"] for each in headers] == [each["indexCount"] for each in java.get("index_file", [])]
    assert len(of_kind(items, "entry")) == sum(each["indexCount"] - 1 for each in java.get("index_file", []))
    assert not of_kind(items, "damage")


def test_units_and_extensions(tmp_path: Path) -> None:
    store = unpack("store-ext", tmp_path)
    items = dumped(store.root / "consumequeue" / "GoldFilter")
    java = {
        each["first"] + number: tuple(unit)
        for each in expected("store-ext")["units"]
        if each["topic"] == "GoldFilter"
        for number, unit in enumerate(each["units"])
    }
    units = {
        each["queue_offset"]: (each["physical_offset"], each["size"], each["tags_code"])
        for each in of_kind(items, "unit")
    }
    assert units == java
    extensions = of_kind(dumped(store.root / "consumequeue_ext" / "GoldFilter"), "ext-unit")
    addresses = [each["ext_offset"] for each in of_kind(items, "unit")]
    assert [each["ext_offset"] for each in extensions] == addresses


def test_ranges_of_a_log(tmp_path: Path) -> None:
    store = unpack("store-clean", tmp_path)
    places = [each.physical_offset for each in store.records()]
    path = store.root / "commitlog"
    found = of_kind(dumped(path, begin=places[50] + 1, count=3), "record")
    assert [each["physical_offset"] for each in found] == places[51:54]
    (one,) = dumped(path, offset=places[7])
    assert (one.kind, one.fields["physical_offset"]) == ("record", places[7])
    assert dumped(path, offset=places[7] + 1)[0].fields["why"] == "no record"
    assert dumped(path, offset=1 << 50)[0].fields["why"] == "in none of the files"
    last_of_file = max(each for each in places if each < 65536)
    size = next(each.size for each in store.records() if each.physical_offset == last_of_file)
    assert dumped(path, offset=last_of_file + size)[0].kind == "blank"


def test_ranges_of_units_and_entries(tmp_path: Path) -> None:
    store = unpack("store-clean", tmp_path)
    second = store.queue_file("GoldB", 6000)
    assert [each["queue_offset"] for each in of_kind(dumped(second, begin=310, count=2), "unit")] == [310, 311]
    assert [each["queue_offset"] for each in of_kind(dumped(second, offset=305), "unit")] == [305]
    assert [each["number"] for each in of_kind(dumped(store.index_file(0), begin=5, count=2), "entry")] == [5, 6]
    slots = of_kind(dumped(store.index_file(0), with_slots=True), "slot")
    assert all(0 < each["newest_entry"] < 2000 for each in slots)  # type: ignore[operator]


def test_damage_is_shown_in_its_place(tmp_path: Path) -> None:
    store = unpack("store-clean", tmp_path)
    record = store.record()
    broken_stores.flip_body(store)
    items = dumped(store.root / "commitlog")
    (damage,) = of_kind(items, "damage")
    assert (damage["physical_offset"], damage["size"]) == (record.physical_offset, record.size)
    broken_stores.cut_table(store)
    assert [each["path"] for each in of_kind(dumped(store.root / "config"), "damage")] == [
        str(store.root / "config" / "topics.json")
    ]


def test_a_table_is_shown_with_the_names_that_are_in_it(tmp_path: Path) -> None:
    store = unpack("store-clean", tmp_path)
    text = '{"topicConfigTable":{"$ref":"$.a"}}'
    (store.root / "config" / "topics.json").write_text(text)
    tables = of_kind(dumped(store.root / "config"), "table")
    assert text in [each["text"] for each in tables]


def test_kinds(tmp_path: Path) -> None:
    store = unpack("store-ext", tmp_path)
    opened = ReadOnlyFiles(OsDisk())
    kinds = {
        "commitlog/" + f"{0:020d}": FileKind.LOG,
        "consumequeue/GoldA/0/" + f"{0:020d}": FileKind.QUEUE,
        "consumequeue_ext/GoldA/0/" + f"{0:020d}": FileKind.EXT,
        "checkpoint": FileKind.CHECKPOINT,
        "config/topics.json.bak": FileKind.TABLE,
        "lock": FileKind.MARKER,
    }
    assert {name: kind_of(str(store.root / name), opened) for name in kinds} == kinds
    elsewhere = tmp_path / f"{20:020d}"
    elsewhere.write_bytes(store.queue_file("GoldA").read_bytes())
    assert kind_of(str(elsewhere), opened) is FileKind.QUEUE
    opened.close()
    (tmp_path / "notes").touch()
    with pytest.raises(StoreError, match="no file of a store"):
        dumped(tmp_path / "notes")


def test_every_field_of_the_note_of_a_clean_shutdown(tmp_path: Path) -> None:
    """The dump reads what the store writes: a field that is added to the note appears."""
    note = OrderlyEnd(end_offset=4711, timestamp_ms=1_700_000_000_000, queues_digest="ab" * 16, index_end=4095)
    path = tmp_path / "orderly-end"
    persist_orderly_end(OsDisk(), str(path), note)
    (fields,) = of_kind(dumped(path), "orderly-end")
    assert list(fields) == ["version", "end_offset", "store_timestamp", "queues_digest", "index_end"]
    assert list(fields.values())[1:] == [str(value) for value in attrs.astuple(note)]
    path.write_text("3 1 2 x 4 five six\n")
    (newer,) = of_kind(dumped(path), "orderly-end")
    assert newer["more"] == "five six"
