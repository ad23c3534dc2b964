"""The walk through records: every kind of end, and the straight loop against the thorough check."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.protocol import stored_message
from rocketpy.protocol.stored_message import CheckedMessage, RecordStatus
from rocketpy.store.log import scanner as log_scanner
from rocketpy.store.log.scanner import WINDOW_SIZE, LogScanner, objection
from tests.store.parts import BORN_HOST_V6, LOG_FILE_SIZE, STORE_HOST_V6, Parts, Place


def nothing_built(topic: str, queue_id: int) -> int:
    return 0


def scan(
    parts: Parts, *, first_file: int = 0, check_crc: bool = True, window_size: int = WINDOW_SIZE
) -> tuple[LogScanner, list[CheckedMessage]]:
    scanner = LogScanner(
        parts.commit_log,
        first_file=first_file,
        check_crc=check_crc,
        built_end=nothing_built,
        window_size=window_size,
    )
    return scanner, records_of(scanner)


def records_of(scanner: LogScanner) -> list[CheckedMessage]:
    """Return what the slices yield, each record whole, in the order of the log."""
    records = []
    for found in scanner.slices():
        for run in found.runs:
            whole = [scanner.record_of(place) for place in run.physical_offsets]
            assert [each.size for each in whole] == run.sizes
            assert {(each.topic, each.queue_id) for each in whole} == {(run.topic, run.queue_id)}
            begin = run.queue_offset
            assert [each.queue_offset for each in whole] == list(range(begin, begin + len(whole)))
            records += whole
        if found.other is not None:
            records.append(found.other)
    return sorted(records, key=lambda record: record.physical_offset)


def filled(place: Place, count: int = 200, **changes: object) -> Parts:
    parts = Parts(place, **changes)  # type: ignore[arg-type]
    for number in range(count):
        parts.clock.advance_ms(1)
        parts.put(b"%d" % number * (number % 9), "Even" if number % 2 == 0 else "Odd", number % 3)
        if number % 10 == 0:
            parts.put(b"v6", "V6", born_host=BORN_HOST_V6)
            parts.put(b"half", "Half", sys_flag=0x4)
        parts.appender.end_burst()
    return parts


@pytest.mark.parametrize("window_size", [16, 300, 1 << 20])
def test_every_record_is_found_over_files_and_windows(place: Place, window_size: int) -> None:
    parts = filled(place)
    scanner, records = scan(parts, window_size=window_size)
    assert scanner.end_offset == parts.commit_log.wrote_offset
    assert (scanner.record_count, len(records)) == (240, 220)
    assert scanner.timestamp_ms == parts.commit_log.wrote_timestamp_ms
    assert scanner.why == ""
    by_queue: dict[tuple[str, int], list[int]] = {}
    for record in records:
        by_queue.setdefault((record.topic, record.queue_id), []).append(record.queue_offset)
    assert ("Half", 0) not in by_queue, "they need no unit"
    assert all(offsets == list(range(len(offsets))) for offsets in by_queue.values())
    assert records[0].properties == {"TAGS": "TagA"}


def test_a_store_of_ipv6_hosts_is_walked_too(place: Place) -> None:
    parts = filled(place, store_host=STORE_HOST_V6)
    assert scan(parts)[0].end_offset == parts.commit_log.wrote_offset


def test_a_walk_may_begin_with_any_file(place: Place) -> None:
    parts = filled(place)
    everything = scan(parts)[1]
    for index in range(len(parts.commit_log.files)):
        scanner, records = scan(parts, first_file=index)
        assert scanner.end_offset == parts.commit_log.wrote_offset
        base = parts.commit_log.files[index].base_offset
        assert [each.physical_offset for each in records] == [
            each.physical_offset for each in everything if each.physical_offset >= base
        ]


def test_records_whose_queue_is_built_are_judged_and_not_yielded(place: Place) -> None:
    parts = filled(place)
    end = parts.commit_log.wrote_offset
    scanner = LogScanner(
        parts.commit_log,
        first_file=0,
        check_crc=True,
        built_end=lambda topic, queue_id: end if topic == "Even" else end // 2,
    )
    records = records_of(scanner)
    assert scanner.record_count == 240
    assert all(record.topic != "Even" and record.physical_offset + record.size > end // 2 for record in records)
    assert records


def test_the_crc_is_compared_only_if_asked_for(place: Place) -> None:
    parts = Parts(place)
    (physical_offset,) = parts.put_all([b"body"])
    place.write(place.log_file(), b"B", physical_offset + 88)
    assert scan(parts, check_crc=False)[0].record_count == 1
    scanner, records = scan(parts)
    assert (scanner.record_count, records, scanner.end_offset) == (0, [], 0)
    assert "CRC" in scanner.why


def test_any_changed_byte_is_noticed_or_harmless(place: Place) -> None:
    """Both paths agree: a record that the fast path accepts, the general path accepts too."""
    stores = []
    for root, first_body in (("plain", b"INNER_SINGLE_DISPATCH"), ("general", b"INNER_MULTI_DISPATCH ")):
        # The name of that property takes everything that is read at a time past the fast path.
        below = Place(place.disk, f"{place.root}/{root}")
        parts = Parts(below)
        places = parts.put_all([first_body, *[b"0123456789"] * 3])
        stores.append((below, parts))
    for position in range(places[2], places[3]):
        found = []
        for below, parts in stores:
            byte = below.read(below.log_file())[position]
            below.write(below.log_file(), bytes((byte ^ 0x41,)), position)
            scanner, _ = scan(parts)
            found.append((scanner.end_offset, scanner.record_count, scanner.why))
            below.write(below.log_file(), bytes((byte,)), position)
        assert found[0] == found[1], position
        # Into another queue goes a record whose topic or queue id was changed; then the next one does not follow.
        assert found[0][0] in (places[2], places[3], parts.commit_log.wrote_offset)


def test_what_is_wrong_is_named_with_its_offset_in_the_log(place: Place) -> None:
    parts = filled(place)
    second_file = [record for record in scan(parts)[1] if record.physical_offset >= LOG_FILE_SIZE]
    victim = second_file[5].physical_offset
    place.write(place.log_file(LOG_FILE_SIZE), b"\x7f", victim - LOG_FILE_SIZE)
    scanner, _ = scan(parts)
    assert scanner.end_offset == victim
    assert scanner.why.startswith(f"record at {victim}: ")


def test_what_is_no_record_at_all_is_named_too_but_for_zeros(place: Place) -> None:
    parts = Parts(place)
    places = parts.put_all([b"one", b"two", b"three"])
    place.write(place.log_file(), b"\xff", places[1] + 4)
    scanner, _ = scan(parts)
    assert scanner.end_offset == places[1]
    assert scanner.why.startswith(f"record at {places[1]}: expected magic code 0xdaa320a7")
    place.write(place.log_file(), bytes(8), places[1])
    scanner, _ = scan(parts)
    assert (scanner.end_offset, scanner.why) == (places[1], "")


def test_a_blank_that_lies_about_the_rest_of_its_file_ends_the_log(place: Place) -> None:
    parts = filled(place)
    end = max(each.physical_offset + each.size for each in scan(parts)[1] if each.physical_offset < LOG_FILE_SIZE)
    place.write(place.log_file(), (LOG_FILE_SIZE - end + 1).to_bytes(4, "big"), end)
    assert scan(parts)[0].end_offset == end


def test_a_blank_at_the_end_of_the_last_file_is_not_part_of_the_log(place: Place) -> None:
    parts = Parts(place)
    parts.put_all([b"x" * 4000])
    end = parts.commit_log.wrote_offset
    parts.commit_log.add_file()
    assert scan(parts)[0].end_offset == LOG_FILE_SIZE
    parts.commit_log.files.remove_after(0)
    assert scan(parts)[0].end_offset == end


def test_a_record_that_claims_more_than_there_can_be_is_not_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file may claim 2 GiB in a few bytes: a start must not take that much memory to find out."""
    monkeypatch.setattr(log_scanner, "RECORD_SIZE_MAX", 2000)
    monkeypatch.setattr(stored_message, "RECORD_SIZE_MAX", 2000)
    parts = Parts(place)
    parts.put(b"fits")
    parts.put(b"x" * 2500)
    parts.appender.end_burst()
    file = parts.commit_log.files[0].file()
    sizes: list[int] = []
    read = file.read

    def noting(position: int, size: int) -> bytes:
        sizes.append(size)
        return read(position, size)

    monkeypatch.setattr(type(file), "read", lambda self, position, size: noting(position, size))
    scanner, records = scan(parts, window_size=16)
    assert [record.physical_offset for record in records] == [0]
    assert max(sizes) <= 2000
    assert "expected a total size of at most 2000, found 26" in scanner.why


def test_a_record_of_the_log_is_at_its_offset_and_has_no_nul() -> None:
    record = CheckedMessage(RecordStatus.MESSAGE, 100, "T", physical_offset=500, properties_text=b"TAGS\x01a")
    assert objection(record, 500) == ""
    assert objection(record, 600) == "it says it is at 500"
    for changes in ({"topic": "T\0"}, {"properties_text": b"TAGS\x01\0"}):
        assert objection(attrs.evolve(record, **changes), 500) == "a NUL in topic or properties"


def scanned_from(parts: Parts, begin_offset: int) -> LogScanner:
    scanner = LogScanner(
        parts.commit_log,
        first_file=0,
        begin_offset=begin_offset,
        check_crc=True,
        built_end=nothing_built,
        is_multi_dispatch=True,
    )
    records_of(scanner)
    return scanner


def test_a_record_without_a_queue_offset_does_not_say_where_its_queue_is(place: Place) -> None:
    """A scan may begin with it: then the queue offset of the next record is whatever it is."""
    parts = Parts(place)
    parts.put_all([b"0", b"1"], "T")
    _, prepared_offset, _ = parts.put(b"prepared", "T", sys_flag=0x4)
    parts.put_all([b"2"], "T")
    scanner = scanned_from(parts, prepared_offset)
    assert (scanner.end_offset, scanner.why) == (parts.commit_log.wrote_offset, "")


NAMING = b"TAGS\x01TagA\x02INNER_MULTI_DISPATCH\x01T"


@pytest.mark.parametrize("begin", range(7))
def test_records_that_name_a_queue_come_between_its_own(place: Place, begin: int) -> None:
    parts = Parts(place, has_multi_dispatch=True)
    places = parts.put_all([b"0"], "T")
    places += [parts.put(b"names it", "Other", properties=NAMING)[1] for _ in range(2)]
    places += parts.put_all([b"3"], "T")
    parts.queues.remove_topic("T", parts.commit_log.wrote_offset)
    places += [parts.put(b"begins it again", "Other", properties=NAMING)[1]]
    places += parts.put_all([b"1", b"2"], "T")
    scanner = scanned_from(parts, places[begin])
    assert (scanner.end_offset, scanner.why) == (parts.commit_log.wrote_offset, "")


def test_claims_excuse_no_other_queue_offset(place: Place) -> None:
    parts = Parts(place, has_multi_dispatch=True)
    parts.put_all([b"0"], "T")
    parts.put(b"names it", "Other", properties=NAMING)
    parts.appender.end_burst()
    parts.queues.find("T", 0).set_end(7)
    (wrong,) = parts.put_all([b"7"], "T")
    scanner = scanned_from(parts, 0)
    assert (scanner.end_offset, scanner.why) == (wrong, f"record at {wrong}: expected queue offset 1, found 7")
