"""What the small files of a store promise, and which of them a start could not read."""

from __future__ import annotations

import json
from collections.abc import Iterator

import attrs
import pytest

from rocketpy.store.inspection.verify.findings import Finding, Severity
from rocketpy.store.inspection.verify.inventory import Inventory, read_inventory
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.store.inspection.verify.small_files_inspection import (
    LastEnd,
    first_timestamp_ms,
    is_checkpoint_sane,
    known_topics,
    read_last_end,
    restorable_tables,
    small_file_findings,
    why_no_json,
)
from rocketpy.store.recovery.checkpoint import TIME_MAX_MS, StoreCheckpoint
from rocketpy.testing.sim.disk import SimDisk
from tests.store.opened_store import opened as open_store
from tests.store.opened_store import send
from tests.store.parts import Place

TOPICS = "/store/config/topics.json"
TABLE = json.dumps({"topicConfigTable": {"A": {}, "B": {}}}).encode()


@attrs.define(eq=False)
class Look:
    """One look at a store."""

    place: Place
    opened: ReadOnlyFiles

    @property
    def inventory(self) -> Inventory:
        return read_inventory(self.place.disk, self.place.root)

    @property
    def last_end(self) -> LastEnd:
        return read_last_end(self.place.disk, self.inventory, self.opened)

    def findings(self, *, is_live: bool = False) -> list[Finding]:
        return list(small_file_findings(self.place.disk, self.inventory, self.opened, self.last_end, is_live=is_live))


@pytest.fixture
def look() -> Iterator[Look]:
    place = Place(SimDisk(), "/store")
    place.disk.make_directories("/store")
    opened = ReadOnlyFiles(place.disk)
    yield Look(place, opened)
    opened.close()


async def fill(place: Place, count: int = 3, **settings: object) -> int:
    """A life with a clean shutdown; return where its log ends."""
    async with open_store(place, **settings) as store:
        for number in range(count):
            send(store, b"%d" % number)
        store.end_burst()
        return store.max_physical_offset


# ---- the last end ---------------------------------------------------------------------------------------------------


async def test_after_a_clean_shutdown_nothing_is_walked_and_everything_is_durable(look: Look) -> None:
    end = await fill(look.place)
    last = look.last_end
    assert last.is_clean
    assert (last.durable_end, last.walk_begin) == (end, end)
    assert look.findings() == []


async def test_without_the_note_of_it_the_start_is_one_after_a_crash(look: Look) -> None:
    """The checkpoint is ours, so there was a note: the abort file has been removed by hand."""
    end = await fill(look.place)
    look.place.disk.unlink("/store/orderly-end")
    assert (look.last_end.is_clean, look.last_end.walk_begin) == (False, end)
    (finding,) = look.findings()
    assert (finding.severity, finding.path) == (Severity.NOTICE, "/store/orderly-end")
    assert finding.found == "neither: the abort file was removed by hand"
    assert look.findings(is_live=True) == []


async def test_after_a_clean_shutdown_of_java_s_the_last_files_are_walked(look: Look) -> None:
    await fill(look.place)
    look.place.disk.unlink("/store/orderly-end")
    times = look.place.read("/store/checkpoint")[:24]
    look.place.write("/store/checkpoint", times.ljust(4096, b"\0"))
    assert (look.last_end.is_clean, look.last_end.walk_begin) == (True, 0)
    assert look.findings() == [], "Java leaves no note"


async def test_a_note_that_makes_no_sense_is_shown(look: Look) -> None:
    await fill(look.place)
    look.place.disk.unlink("/store/orderly-end")
    look.place.write("/store/orderly-end", b"what")
    (finding,) = look.findings()
    assert (finding.severity, finding.path, finding.found) == (Severity.NOTICE, "/store/orderly-end", "b'what'")


async def test_the_time_of_a_log_file_is_that_of_its_first_record(look: Look) -> None:
    await fill(look.place)
    (file, *_) = look.inventory.log_files
    assert first_timestamp_ms(look.opened, file) == 1_700_000_000_000
    look.place.write(look.place.log_file(), bytes(8))
    look.opened.close()
    assert first_timestamp_ms(look.opened, file) == 0


# ---- the checkpoint -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time_ms", "is_sane"), [(0, True), (TIME_MAX_MS - 1, True), (TIME_MAX_MS, False), (-1, False)]
)
@pytest.mark.parametrize("number", range(3))
async def test_a_time_that_can_be_none_is_shown_where_it_stands(
    look: Look, number: int, time_ms: int, is_sane: bool
) -> None:
    await fill(look.place)
    look.place.write("/store/checkpoint", time_ms.to_bytes(8, "big", signed=True), number * 8)
    checkpoint: StoreCheckpoint = look.last_end.checkpoint
    assert is_checkpoint_sane(checkpoint) is is_sane
    found = [each for each in look.findings() if each.path == "/store/checkpoint"]
    places = [(each.severity, each.position, each.found) for each in found]
    assert places == ([] if is_sane else [(Severity.WARNING, number * 8, str(time_ms))])


# ---- tables ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (TABLE, None),
        (None, "no file"),
        (b"", "no bytes"),
        (b"[1]", "no JSON object"),
        (b"null", "no JSON object"),
        (b'{"$ref":"$"}', None),
    ],
)
def test_what_is_wrong_with_a_table(look: Look, content: bytes | None, why: str | None) -> None:
    if content is not None:
        look.place.write(TOPICS, content)
    assert why_no_json(look.place.disk, look.opened, TOPICS) == why


def test_a_table_that_is_cut_or_a_directory_is_wrong_in_words(look: Look) -> None:
    look.place.write(TOPICS, TABLE[:-5])
    assert why_no_json(look.place.disk, look.opened, TOPICS)
    look.place.disk.make_directories("/store/config/other.json")
    assert why_no_json(look.place.disk, look.opened, "/store/config/other.json") == "a directory"


@pytest.mark.parametrize(
    ("main", "backup", "severities", "is_restorable"),
    [
        (TABLE, TABLE, [], False),
        (TABLE, None, [], False),
        (TABLE, b"{", [Severity.NOTICE], False),
        (None, TABLE, [Severity.NOTICE], True),
        (b"", TABLE, [Severity.NOTICE], True),
        (b"{", TABLE, [Severity.WARNING], True),
        (b"{", b"{", [Severity.ERROR], False),
        (b"{", None, [Severity.ERROR], False),
    ],
)
def test_a_start_reads_the_backup_where_it_must_and_can(
    look: Look, main: bytes | None, backup: bytes | None, severities: list[Severity], is_restorable: bool
) -> None:
    for path, content in ((TOPICS, main), (TOPICS + ".bak", backup)):
        if content is not None:
            look.place.write(path, content)
    assert [each.severity for each in look.findings()] == severities
    restorable = restorable_tables(look.place.disk, look.inventory, look.opened)
    assert [path for path, _ in restorable] == ([TOPICS] if is_restorable else [])


def test_topics_are_those_of_the_table_or_else_of_its_backup(look: Look) -> None:
    disk = look.place.disk
    assert known_topics(disk, look.inventory, look.opened) is None
    look.place.write(TOPICS + ".bak", TABLE)
    assert known_topics(disk, look.inventory, look.opened) == {"A", "B"}
    look.place.write(TOPICS, b'{"topicConfigTable":{"C":{}}}')
    look.opened.close()
    assert known_topics(disk, look.inventory, look.opened) == {"C"}


def test_a_topic_that_fastjson_takes_for_a_reference_is_a_topic(look: Look) -> None:
    look.place.write(TOPICS, b'{"topicConfigTable":{"$ref":"$.a"}}')
    assert known_topics(look.place.disk, look.inventory, look.opened) == {"$ref"}


@pytest.mark.parametrize("content", [b"{}", b'{"topicConfigTable":[]}', b"["])
def test_a_table_without_topics_says_nothing_of_them(look: Look, content: bytes) -> None:
    """None, not the empty set: or every topic would pass for deleted."""
    look.place.write(TOPICS, content)
    assert known_topics(look.place.disk, look.inventory, look.opened) is None
