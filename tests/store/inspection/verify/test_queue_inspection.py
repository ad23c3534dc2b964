"""Units and records held against each other: what is left over on either side, and which tags are wrong."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.stored_message import CheckedMessage
from rocketpy.store.inspection.verify import queue_inspection
from rocketpy.store.inspection.verify.queue_inspection import RANGES_MAX, OffsetRange, extend_ranges
from tests.store.inspection.verify.queue_bench import COUNT, KEY, Bench, make_bench


@pytest.fixture
def bench() -> Bench:
    return make_bench()


def ranges(found: list[OffsetRange]) -> list[tuple[int, int]]:
    return [(each.begin, each.end) for each in found]


def test_a_sound_store_leaves_nothing_over(bench: Bench) -> None:
    inspection = bench.inspect()
    cursor = inspection.cursor_of(KEY)
    assert inspection.matched_count == COUNT
    assert (cursor.next_unit, cursor.unmatched, cursor.lost, cursor.wrong_tags) == (COUNT, [], [], [])
    assert inspection.without_queue == {}


def test_a_record_without_a_unit_is_lost_to_consumers(bench: Bench) -> None:
    bench.unit(2, 0, 0, 0)
    bench.unit(3, 0, 0, 0)
    cursor = bench.inspect().cursor_of(KEY)
    assert ranges(cursor.lost) == [(2, 4)]
    assert cursor.lost[0].physical_offset == bench.records[2].physical_offset
    assert ranges(cursor.unmatched) == [(2, 4)], "and its units match no record"


def test_a_unit_that_leads_elsewhere_matches_no_record_and_its_record_is_not_lost_twice(bench: Bench) -> None:
    bench.unit(2, bench.records[5].physical_offset, bench.records[5].size, 0)
    cursor = bench.inspect().cursor_of(KEY)
    assert ranges(cursor.unmatched) == [(2, 3)]
    assert cursor.lost == []


@pytest.mark.parametrize("change", [(1, 0), (0, 1), (-1, 0)])
def test_place_and_size_must_both_be_right(bench: Bench, change: tuple[int, int]) -> None:
    record = bench.records[4]
    bench.unit(4, record.physical_offset + change[0], record.size + change[1], tags_code("TagA"))
    inspection = bench.inspect()
    assert inspection.matched_count == COUNT - 1
    assert ranges(inspection.cursor_of(KEY).unmatched) == [(4, 5)]


def test_units_after_the_last_record_are_unmatched(bench: Bench) -> None:
    cursor = bench.inspect(bench.records[:4]).cursor_of(KEY)
    assert (cursor.next_unit, cursor.unmatched) == (4, [])


def test_records_that_are_gone_leave_their_units_over(bench: Bench) -> None:
    cursor = bench.inspect(bench.records[3:]).cursor_of(KEY)
    assert ranges(cursor.unmatched) == [(0, 3)]


@pytest.mark.parametrize("code", [0, tags_code("TagB"), -(1 << 63)])
def test_a_tags_code_that_is_not_its_record_s_is_noticed(bench: Bench, code: int) -> None:
    """The last one is an address in files that are not there."""
    record = bench.records[1]
    bench.unit(1, record.physical_offset, record.size, code)
    inspection = bench.inspect()
    assert inspection.matched_count == COUNT, "it is its unit all the same"
    assert ranges(inspection.cursor_of(KEY).wrong_tags) == [(1, 2)]


def test_records_of_a_queue_without_files_are_together(bench: Bench) -> None:
    bench.place.remove_tree(bench.place.consume_queue)
    inspection = bench.inspect()
    assert list(inspection.without_queue) == [KEY]
    (found,) = inspection.without_queue[KEY]
    assert (found.begin, found.end, found.physical_offset) == (0, COUNT, bench.records[0].physical_offset)


def test_ranges_that_follow_are_one_and_there_is_a_bound_on_the_others() -> None:
    found: list[OffsetRange] = []
    for begin in (0, 1, 5):
        extend_ranges(found, begin, begin + 1, 100 * begin)
    assert found == [OffsetRange(0, 2, 0), OffsetRange(5, 6, 500)]
    for begin in range(10, 10 * RANGES_MAX, 10):
        extend_ranges(found, begin, begin + 1, 0)
    assert len(found) == RANGES_MAX
    assert found[-1].end == 10 * RANGES_MAX - 9, "what is too much is in the last"


def naming(record: CheckedMessage, *places: tuple[str, int]) -> CheckedMessage:
    names, offsets = ",".join(name for name, _ in places), ",".join(str(offset) for _, offset in places)
    text = f"TAGS\x01TagA\x02INNER_MULTI_DISPATCH\x01{names}\x02INNER_MULTI_QUEUE_OFFSET\x01{offsets}"
    return attrs.evolve(record, properties_text=text.encode(), properties=None)


def test_records_that_name_queues_count_once_one_of_them_has_its_unit(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those before it as well, as far as they are kept: until then clients may have written the names."""
    monkeypatch.setattr(queue_inspection, "CLAIMED_QUEUES_MAX", 2)
    first, second = (naming(bench.records[number], ("A", 0), ("B", 0), ("C", 0)) for number in (4, 5))
    own_unit = attrs.evolve(naming(bench.records[1], (KEY[0], 1)), topic="Other")
    names_itself = naming(bench.records[2], (KEY[0], 40))
    assert bench.inspect([first, second, names_itself]).without_queue == {}
    assert list(bench.inspect([first, own_unit, second]).without_queue) == [("Other", 0), ("A", 0), ("B", 0), ("C", 0)]
