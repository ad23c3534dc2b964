"""Bytes of a master's log: whole valid records pass, whatever the split; everything else is refused by its offset."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.stored_message import RECORD_SIZE_MAX, encode_blank
from rocketpy.store.ha.protocol import FrameReader
from rocketpy.store.ha.verified_stream import VerifiedStream
from tests.store.ha.recordings import FILE_SIZE, streams
from tests.store.ha.records import FILE, a_log, a_record


@pytest.mark.parametrize("stream", streams(), ids=str)
def test_what_a_java_master_has_sent_passes_byte_for_byte(stream: str) -> None:
    recorded = streams()[stream]
    frames = FrameReader(recorded.request_offset or None, file_size=FILE_SIZE)
    verified = VerifiedStream(recorded.request_offset, file_size=FILE_SIZE)
    sent, passed, records = b"", b"", 0
    for is_report, data in recorded.chunks:
        for part in [] if is_report else frames.receive(data):
            sent += part.data
            for piece in verified.receive(part.data):
                passed += piece.data
                records += piece.record_count
    assert passed == sent
    assert records > 10
    assert verified.pending_bytes == 0


@given(count=st.integers(1, 8), sizes=st.lists(st.integers(1, 500), min_size=1, max_size=12))
def test_any_split_of_a_log_passes_whole(count: int, sizes: list[int]) -> None:
    log = a_log(count)
    stream = VerifiedStream(0, file_size=FILE)
    position, passed, record_count = 0, b"", 0
    for size in itertools.cycle(sizes):
        part = log[position : position + size]
        for piece in stream.receive(part):
            assert piece.offset == len(passed)
            assert piece.offset // FILE == (piece.end_offset - 1) // FILE, "a piece lies within one file"
            passed += piece.data
            record_count += piece.record_count
        position += len(part)
        assert stream.next_offset == len(passed)
        assert stream.pending_bytes == position - len(passed)
        if position == len(log):
            break
    assert passed == log
    assert record_count == count


def test_an_incomplete_record_is_kept_back() -> None:
    record = a_record(0)
    for end in range(len(record)):
        stream = VerifiedStream(0, file_size=FILE)
        assert stream.receive(record[:end]) == [], end
        (piece,) = stream.receive(record[end:])
        assert (piece.data, piece.record_count) == (record, 1)


def changed(position: int, value: bytes) -> Callable[[bytes], bytes]:
    def change(record: bytes) -> bytes:
        at = position % len(record)
        return record[:at] + value + record[at + len(value) :]

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(changed(0, b"\x00\x00\x00\x5a"), "expected a record of 91 to", id="too small"),
        pytest.param(changed(0, b"\x7f\xff\xff\xff"), "expected a record of 91 to", id="beyond its file"),
        pytest.param(changed(0, b"\xff\xff\xff\xff"), "expected a record of 91 to", id="negative size"),
        pytest.param(changed(4, b"\x00\x00\x00\x00"), "expected the magic number", id="no magic number"),
        pytest.param(
            changed(28, (7).to_bytes(8, "big")), "expected a record with this physical offset", id="misplaced"
        ),
        pytest.param(changed(8, b"\x00\x00\x00\x01"), "expected body CRC", id="wrong checksum"),
        pytest.param(changed(90, b"X"), "expected body CRC", id="changed body"),
        pytest.param(changed(-5, b"\0"), "a NUL in topic or properties", id="NUL in the properties"),
        pytest.param(changed(84, b"\x7f\xff\xff\xff"), "", id="body beyond the record"),
        pytest.param(changed(84, b"\xff\xff\xff\xff"), "", id="negative body size"),
    ],
)
def test_what_is_no_record_is_refused_with_its_offset(change: Callable[[bytes], bytes], expected: str) -> None:
    first = a_record(0)
    stream = VerifiedStream(0, file_size=FILE)
    assert stream.receive(first)
    with pytest.raises(RemoteProtocolError, match=f"replicated log at {len(first)}: .*{expected}"):
        stream.receive(change(a_record(len(first))))
    assert stream.next_offset == len(first)


def test_records_of_a_queue_that_follow_each_other_are_one_run() -> None:
    log = b""
    for queue_offset in (4, 5, 5, 6, 0, 1, 2):
        log += a_record(len(log), queue_offset=queue_offset)
    stream = VerifiedStream(0, file_size=FILE)
    runs = [run for piece in stream.receive(log) for run, *_ in piece.records]
    assert [runs.index(run) for run in runs] == [0, 0, 2, 2, 4, 4, 4]
    assert {(run.topic, run.queue_id) for run in runs if run is not None} == {("Topic", 0)}


@pytest.mark.parametrize("left", [8, 7, 0])
def test_a_record_leaves_room_for_the_blank_of_its_file(left: int) -> None:
    """Also one that the fast path would take."""
    first = a_record(0)
    empty = len(a_record(len(first), body=b"", queue_offset=1))
    second = a_record(len(first), body=b"x" * (FILE - left - len(first) - empty), queue_offset=1)
    stream = VerifiedStream(0, file_size=FILE)
    if left >= 8:
        assert [piece.record_count for piece in stream.receive(first + second)] == [2]
    else:
        with pytest.raises(RemoteProtocolError, match=f"at {len(first)}: expected a record of 91 to"):
            stream.receive(first + second)


def test_a_lying_size_is_refused_before_its_bytes_arrive() -> None:
    """Otherwise a peer could make the slave wait for, and keep, as much as it claims."""
    for size, file_size in ((RECORD_SIZE_MAX + 1, 1 << 30), (FILE, FILE)):
        head = changed(0, size.to_bytes(4, "big"))(a_record(0))[:8]
        with pytest.raises(RemoteProtocolError, match=f"found {size}"):
            VerifiedStream(0, file_size=file_size).receive(head)


def test_a_blank_ends_with_its_file() -> None:
    record = a_record(0)
    left = FILE - len(record)
    stream = VerifiedStream(0, file_size=FILE)
    garbage = b"\xa5" * (left - 8)
    piece, blank = stream.receive(record + encode_blank(left) + garbage)
    assert (piece.offset, piece.data, piece.record_count) == (0, record, 1)
    assert (blank.offset, blank.data, blank.record_count) == (len(record), encode_blank(left) + garbage, 0)
    assert stream.next_offset == FILE
    (following,) = stream.receive(a_record(FILE))
    assert following.offset == FILE


@pytest.mark.parametrize("difference", [-1, 1, -FILE + 8])
def test_a_blank_of_another_size_is_refused(difference: int) -> None:
    record = a_record(0)
    stream = VerifiedStream(0, file_size=FILE)
    with pytest.raises(RemoteProtocolError, match=f"expected a BLANK of the {FILE - len(record)} bytes"):
        stream.receive(record + encode_blank(max(0, FILE - len(record) + difference)))
