"""The loop over plain records: it takes what is valid and continues a queue, and stops at everything else."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import RecordStatus, check_message, encode_message
from rocketpy.store.log.plain_records import PlainRecord, PlainRecords

BEGIN = 5000
"""Where the log of these tests begins."""
COUNT = 4


@attrs.define
class Queue:
    next_offset: int


def a_record(offset: int, /, queue_offset: int, **changes: object) -> bytes:
    message = MessageExt(
        topic="Topic",
        body=b"some body",
        properties={"TAGS": "tag"},
        queue_id=3,
        queue_offset=queue_offset,
        physical_offset=offset,
        born_host="127.0.0.1:1",
        store_host="127.0.0.1:10911",
        store_timestamp=70 + queue_offset,
    )
    return encode_message(attrs.evolve(message, **changes))  # type: ignore[arg-type]


SIZE = len(a_record(0, 0))
LOG = b"".join([a_record(BEGIN + number * SIZE, 7 + number) for number in range(COUNT)])


def known(next_offset: int = 7) -> tuple[PlainRecords[Queue], Queue]:
    records: PlainRecords[Queue] = PlainRecords()
    queue = Queue(next_offset)
    records.add(b"Topic", 3, queue)
    return records, queue


def take(data: bytes, *, check_crc: bool = True) -> tuple[list[PlainRecord[Queue]], Queue]:
    records, queue = known()
    return records.take(data, 0, len(data), BEGIN, count_max=100, check_crc=check_crc), queue


def test_records_that_continue_a_queue_are_taken_with_what_dispatch_needs() -> None:
    found, queue = take(LOG)
    assert found == [
        (queue, 7 + number, BEGIN + number * SIZE, SIZE, 77 + number, b"TAGS\x01tag") for number in range(COUNT)
    ]
    assert queue.next_offset == 7 + COUNT


def test_it_begins_anywhere_and_ends_where_it_must() -> None:
    records, queue = known()
    before = b"what is not looked at"
    data, begin = before + LOG, len(before)
    assert len(records.take(data, begin, begin + 2 * SIZE + 1, BEGIN, count_max=100)) == 2
    assert len(records.take(data, begin + 2 * SIZE, len(data), BEGIN + 2 * SIZE, count_max=1)) == 1
    assert records.take(data, begin + 3 * SIZE, len(data) - 1, BEGIN + 3 * SIZE, count_max=1) == []
    assert queue.next_offset == 10


@pytest.mark.parametrize("size", range(SIZE))
def test_an_incomplete_record_is_not_taken(size: int) -> None:
    found, queue = take(LOG[: 2 * SIZE + size])
    assert len(found) == 2
    assert queue.next_offset == 9


def second(**changes: object) -> Callable[[], bytes]:
    return lambda: LOG[:SIZE] + a_record(BEGIN + SIZE, **{"queue_offset": 8, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(second(physical_offset=BEGIN), id="another physical offset"),
        pytest.param(second(queue_offset=9), id="a gap in the queue"),
        pytest.param(second(queue_offset=0), id="a queue that begins again"),
        pytest.param(second(queue_id=4), id="another queue"),
        pytest.param(second(topic="Other"), id="another topic"),
        pytest.param(second(born_host="[::1]:1"), id="born over IPv6"),
        pytest.param(second(store_host="[::1]:1"), id="stored over IPv6"),
        pytest.param(second(sys_flag=0x4), id="prepared"),
        pytest.param(second(sys_flag=0xC), id="rolled back"),
        pytest.param(second(properties={"TAGS": "a\0b"}), id="a NUL in the properties"),
    ],
)
def test_the_general_path_decides_about_everything_else(log: Callable[[], bytes]) -> None:
    found, queue = take(log())
    assert len(found) == 1
    assert queue.next_offset == 8


@pytest.mark.parametrize("position", range(SIZE))
def test_no_record_is_taken_that_the_general_path_would_refuse(position: int) -> None:
    at = SIZE + position
    for change in (0x01, 0x41, 0x80, 0xFF):
        log = LOG[:at] + bytes((LOG[at] ^ change,)) + LOG[at + 1 :]
        found, queue = take(log)
        checked = check_message(log, SIZE, len(log) - SIZE)
        if len(found) > 1:
            assert checked.status is RecordStatus.MESSAGE
            assert checked.physical_offset == BEGIN + SIZE
            assert b"\0" not in checked.properties_text
            assert found[1][4:6] == (checked.store_timestamp, checked.properties_text)
        assert queue.next_offset == 7 + len(found)


def test_properties_do_not_end_before_they_begin() -> None:
    record = a_record(BEGIN, 7, properties={})
    log = (len(record) - 1).to_bytes(4, "big") + record[4:-2] + (-1).to_bytes(2, "big", signed=True)
    assert len(take(record + bytes(100))[0]) == 1
    assert take(log + bytes(100))[0] == []


def test_after_a_nul_nothing_is_taken_and_its_queue_does_not_go_on() -> None:
    log = LOG.replace(b"tag", b"t\0g", 3).replace(b"t\0g", b"tag", 2)  # in the third record
    found, queue = take(log)
    assert len(found) == 2
    assert queue.next_offset == 9


def test_the_body_is_compared_with_its_crc_only_if_asked_for() -> None:
    log = LOG.replace(b"some", b"lame", 1)
    assert take(log)[0] == []
    assert len(take(log, check_crc=False)[0]) == COUNT


def test_topics_and_properties_of_many_sizes_are_told_apart() -> None:
    records: PlainRecords[Queue] = PlainRecords()
    queues = [Queue(0) for _ in range(4)]
    data, expected = b"", []
    for number in range(200):
        topic, text = "T" * (1 + number % 2), "x" * (1 + number % 7)
        queue = queues[number % 4]
        records.add(topic.encode(), number % 4, queue)
        properties = {"TAGS": text}
        record = a_record(
            len(data), number // 4, topic=topic, queue_id=number % 4, properties=properties, body=b"b" * number
        )
        expected.append((queue, number // 4, len(data), len(record), 70 + number // 4, b"TAGS\x01" + text.encode()))
        data += record
    assert records.take(data, 0, len(data), 0, count_max=1000) == expected


def test_queues_that_a_peer_names_do_not_fill_the_memory() -> None:
    records: PlainRecords[Queue] = PlainRecords(queues_max=3)
    for number in range(8):
        records.add(b"Topic", number, Queue(7))
        assert records.find(b"Topic", number) is not None
    assert [number for number in range(8) if records.find(b"Topic", number)] == [6, 7]
    assert records.take(LOG, 0, SIZE, BEGIN, count_max=1) == []
    records.add(b"Topic", 3, Queue(7))
    assert len(records.take(LOG, 0, SIZE, BEGIN, count_max=1)) == 1


def test_a_queue_that_begins_again_is_known_by_its_new_end() -> None:
    records, queue = known()
    assert records.find(b"Topic", 3) is queue
    assert records.find(b"Topic", 4) is records.find(b"Other", 3) is None
    assert len(records.take(LOG, 0, SIZE, BEGIN, count_max=1)) == 1
    other = Queue(8)
    records.add(b"Topic", 3, other)
    assert len(records.take(LOG, SIZE, len(LOG), BEGIN + SIZE, count_max=1)) == 1
    assert (queue.next_offset, other.next_offset) == (8, 9)
