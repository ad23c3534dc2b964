"""Frames cut by the kernel: those that the general path cuts, whatever the bytes, compiled and not."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.frame.codec import FRAME_LENGTH_MAX, HEADER_LENGTH_MAX, Frame, FrameReader
from rocketpy.protocol.kernels.frames import cut_frames

TOTAL_MAX = FRAME_LENGTH_MAX - 4


def frame(serialize_type: int = 0, header: bytes = b"{}", body: bytes = b"") -> bytes:
    return struct.pack(">iI", 4 + len(header) + len(body), serialize_type << 24 | len(header)) + header + body


FRAMES = st.builds(frame, st.sampled_from((0, 1)), st.binary(max_size=40), st.binary(max_size=40))
PREFIXES = st.builds(
    lambda total, word: struct.pack(">iI", total, word),
    st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(0, 60), st.sampled_from((TOTAL_MAX, TOTAL_MAX + 1))),
    st.one_of(st.integers(0, 2**32 - 1), st.integers(0, 60), st.sampled_from((1 << 24, 2 << 24, 255 << 24))),
)
STREAMS = st.lists(st.one_of(FRAMES, FRAMES, FRAMES, PREFIXES, st.binary(max_size=12)), max_size=8).map(b"".join)


def read_all(chunks: list[bytes], frames_max: int, *, has_kernel: bool) -> list[Frame | str | int]:
    """Return what a reader makes of chunks: frames, how much is left after each call, and the error that ends it."""
    reader = FrameReader(has_kernel=has_kernel)
    seen: list[Frame | str | int] = []
    try:
        for chunk in chunks:
            reader.receive(chunk)
            while frames := reader.next_frames(frames_max):
                seen += frames
                seen.append(reader.buffered_bytes)
            seen.append(reader.buffered_bytes)
    except RemoteProtocolError as error:
        seen.append(str(error))
    return seen


@given(STREAMS, st.lists(st.integers(0, 300), max_size=4), st.integers(1, 5))
@example(frame() + b"\xff\xff\xff\xff", [], 4)
@example(frame(body=b"x") * 3, [5, 20], 2)
@example(struct.pack(">iI", 4 + HEADER_LENGTH_MAX + 1, HEADER_LENGTH_MAX + 1) + bytes(HEADER_LENGTH_MAX + 1), [], 1)
@example(struct.pack(">iI", 4 + HEADER_LENGTH_MAX, HEADER_LENGTH_MAX) + bytes(HEADER_LENGTH_MAX), [], 1)
def test_a_reader_with_the_kernel_sees_what_one_without_it_sees(
    stream: bytes, cuts: list[int], frames_max: int
) -> None:
    ends = sorted(min(cut, len(stream)) for cut in cuts)
    chunks = [stream[begin:end] for begin, end in zip([0, *ends], [*ends, len(stream)], strict=True)]
    expected = read_all(chunks, frames_max, has_kernel=False)
    assert read_all(chunks, frames_max, has_kernel=True) == expected


def test_it_cuts_from_a_position_up_to_a_count() -> None:
    stream = b"before" + frame(1, b"h", b"b") + frame() + frame()
    frames, position = cut_frames(stream, 6, 2, TOTAL_MAX, HEADER_LENGTH_MAX)
    assert frames == [(1, b"h", b"b"), (0, b"{}", None)]
    assert position == len(stream) - len(frame())


@pytest.mark.parametrize(
    "bad",
    [
        struct.pack(">iI", 3, 0),
        struct.pack(">iI", -1, 0),
        struct.pack(">iI", TOTAL_MAX + 1, 0),
        struct.pack(">iI", 6, 3) + b"abc",
        struct.pack(">iI", 6, 2 << 24 | 2) + b"ab",
        struct.pack(">iI", 6, 0x80000002) + b"ab",
        frame()[:-1],
        frame()[:7],
    ],
    ids=["short", "negative", "long", "header past the end", "type 2", "type 128", "not whole", "half a prefix"],
)
def test_it_stops_before_what_is_no_whole_frame(bad: bytes) -> None:
    assert cut_frames(frame() + bad, 0, 9, TOTAL_MAX, HEADER_LENGTH_MAX) == ([(0, b"{}", None)], len(frame()))
