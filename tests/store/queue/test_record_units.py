"""Units of records that are in the log already, and the claims of records that name a queue."""

from __future__ import annotations

from rocketpy.protocol.stored_message import CheckedMessage, RecordStatus
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC
from rocketpy.store.layout import UNIT
from rocketpy.store.queue.extension import ExtLocation
from rocketpy.store.queue.record_units import RecordUnits
from tests.store.one_queue import table_at
from tests.store.parts import Place

RECORD = CheckedMessage(RecordStatus.MESSAGE, 100, "T", 0, 0, 500, 0, 1, 2, 0, b"TAGS\x01abc")


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
    table = table_at(place, ext_location=ExtLocation(f"{place.root}/ext", 1000, is_written=True))
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
