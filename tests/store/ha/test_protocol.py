"""Reports and frames: bytes recorded between a Java master and a Java slave, any split, and headers that lie."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import RemoteProtocolError
from rocketpy.store.ha.protocol import (
    FRAME_BODY_MAX,
    FrameReader,
    ReportReader,
    encode_frame_header,
    encode_report,
)
from tests.store.ha.recordings import FILE_SIZE, streams


@pytest.mark.parametrize("stream", streams(), ids=str)
def test_what_java_has_sent_is_read_to_the_last_byte(stream: str) -> None:
    """Each report of the Java slave is the end of what its master had sent, or the same again."""
    recorded = streams()[stream]
    frames = FrameReader(recorded.request_offset or None, file_size=FILE_SIZE)
    reports = ReportReader()
    ends = {recorded.request_offset}
    for is_report, data in recorded.chunks:
        if is_report:
            assert set(reports.receive(data)) <= ends
        else:
            ends |= {part.offset + len(part.data) for part in frames.receive(data)}
    assert not frames.is_within_frame


@given(offsets=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5), data=st.data())
def test_reports_come_through_any_split(offsets: list[int], data: st.DataObject) -> None:
    stream = b"".join(map(encode_report, offsets))
    reader, found = ReportReader(), []
    for chunk in split(stream, data):
        found += reader.receive(chunk)
    assert found == offsets


@given(bodies=st.lists(st.binary(max_size=40), max_size=6), data=st.data())
def test_frames_come_through_any_split(bodies: list[bytes], data: st.DataObject) -> None:
    stream, offset = b"", 1000
    for body in bodies:
        stream += encode_frame_header(offset, len(body)) + body
        offset += len(body)
    reader, log, heartbeats = FrameReader(1000, file_size=1 << 20), b"", 0
    for chunk in split(stream, data):
        for part in reader.receive(chunk):
            assert part.offset == 1000 + len(log)
            log += part.data
            heartbeats += not part.data
    assert log == b"".join(bodies)
    assert heartbeats == bodies.count(b"")
    assert not reader.is_within_frame
    assert reader.next_offset == (offset if bodies else 1000)


def split(stream: bytes, data: st.DataObject) -> list[bytes]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8), label="cuts"))
    return [stream[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


@pytest.mark.parametrize("size", [-1, -100, FRAME_BODY_MAX + 1, 2**31 - 1])
def test_a_size_that_no_master_sends_is_refused_before_the_body(size: int) -> None:
    header = (100).to_bytes(8, "big") + size.to_bytes(4, "big", signed=True)
    with pytest.raises(RemoteProtocolError, match=f"expected a size of 0 to {FRAME_BODY_MAX}, found {size}"):
        FrameReader(100, file_size=1 << 30).receive(header)


@pytest.mark.parametrize("offset", [99, 101, -1, 2**62])
@pytest.mark.parametrize("size", [0, 8])
def test_a_frame_that_leaves_a_gap_or_repeats_is_refused(offset: int, size: int) -> None:
    header = offset.to_bytes(8, "big", signed=True) + size.to_bytes(4, "big")
    with pytest.raises(RemoteProtocolError, match=f"expected offset 100, the end of this log, found {offset}"):
        FrameReader(100, file_size=1 << 20).receive(header)


def test_an_empty_log_begins_with_any_file() -> None:
    reader = FrameReader(None, file_size=1024)
    parts = reader.receive(encode_frame_header(4096, 3) + b"abc" + encode_frame_header(4099, 0))
    assert [(part.offset, part.data) for part in parts] == [(4096, b"abc"), (4099, b"")]


@pytest.mark.parametrize("offset", [1, 1023, 4100, -1024])
def test_an_empty_log_does_not_begin_within_a_file(offset: int) -> None:
    header = offset.to_bytes(8, "big", signed=True) + bytes(4)
    with pytest.raises(RemoteProtocolError, match=f"mappedFileSizeCommitLog, which is 1024; found offset {offset}"):
        FrameReader(None, file_size=1024).receive(header)


def test_a_frame_across_the_end_of_a_file_names_the_setting() -> None:
    reader = FrameReader(1000, file_size=1024)
    with pytest.raises(
        RemoteProtocolError, match=r"expected at most the 24 bytes .* found 25; mappedFileSizeCommitLog"
    ):
        reader.receive(encode_frame_header(1000, 25))
    assert FrameReader(1000, file_size=1024).receive(encode_frame_header(1000, 24) + bytes(24))


def test_the_end_within_a_frame_is_seen() -> None:
    whole = encode_frame_header(0, 4) + b"abcd"
    for end in range(len(whole) + 1):
        reader = FrameReader(0, file_size=1024)
        reader.receive(whole[:end])
        assert reader.is_within_frame == (0 < end < len(whole)), end
