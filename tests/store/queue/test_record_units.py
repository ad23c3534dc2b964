"""Units of records that are in the log already, and the claims of records that name a queue."""

from __future__ import annotations

import pytest

from rocketpy.protocol.stored_message import CheckedMessage, RecordStatus
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC
from rocketpy.store.files.mapped_file import OpenFiles
from rocketpy.store.layout import UNIT
from rocketpy.store.queue.extension import ExtLocation
from rocketpy.store.queue.record_units import RecordUnits, may_take
from rocketpy.store.queue.table import ConsumeQueueTable
from tests.store.parts import Place

RECORD = CheckedMessage(RecordStatus.MESSAGE, 100, "T", 0, 0, 500, 0, 1, 2, 0, b"TAGS\x01abc")


def table_at(place: Place, *, has_ext: bool = False) -> ConsumeQueueTable:
    return ConsumeQueueTable(
        path=place.consume_queue,
        disk=place.disk,
        open_files=OpenFiles(disk=place.disk, open_max=16),
        file_size=400,
        ext_location=ExtLocation(path=f"{place.root}/ext", file_size=1000, is_written=True) if has_ext else None,
    )


UNITS = RecordUnits(
    tags_code=lambda topic, properties, stored_ms: len(properties["TAGS"]) + stored_ms,
    bit_map_of=lambda topic, properties: topic.encode(),
)


def test_a_unit_says_where_its_record_is_and_what_its_tags_are(place: Place) -> None:
    queue = table_at(place).find("T", 0)
    assert UNIT.unpack(UNITS.unit(queue, RECORD)) == (500, 100, 5)


def test_only_delayed_messages_get_another_tags_code_than_their_tags_have() -> None:
    topics, texts = ["T", SCHEDULE_TOPIC, "U"], [b"TAGS\x01a", b"DELAY\x011\x02TAGS\x01abcd", b""]
    assert UNITS.with_delivery_times([97, 8, 0], topics, texts, [1, 2, 3]) == [97, 4 + 2, 0]


def test_only_the_own_queue_has_an_extension(place: Place) -> None:
    table = table_at(place, has_ext=True)
    own, other = table.find("T", 0), table.find("U", 0)
    for queue in (own, other):
        queue.make_room(1)
        queue.units.append(UNITS.unit(queue, RECORD))
        queue.next_offset += 1
        queue.write_units()
    assert other.unit_at(0) == (500, 100, 5)
    ext = own.ext_unit(own.unit_at(0)[2])
    assert ext is not None
    assert (ext.tags_code, ext.store_timestamp_ms, ext.bit_map) == (5, 2, b"T")


@pytest.mark.parametrize("is_gap_final", [False, True])
@pytest.mark.parametrize(
    ("topic", "has_units", "expected"),
    [("T", True, "no yes gap"), ("T", False, "no yes yes"), ("%LMQ%a", True, "no yes yes")],
)
def test_a_claim_never_moves_a_queue_back(
    topic: str, has_units: bool, expected: str, is_gap_final: bool, place: Place
) -> None:
    queue = table_at(place).find(topic, 0)
    queue.make_room(5)  # the files are there in either case
    queue.set_end(5)
    queue.min_offset = 0 if has_units else 5
    found = [may_take(queue, queue_offset, is_gap_final=is_gap_final) for queue_offset in (4, 5, 6)]
    assert found == [{"no": False, "yes": True, "gap": not is_gap_final}[each] for each in expected.split()]
