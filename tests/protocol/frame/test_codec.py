"""Frames under every kind of delivery: whole, byte by byte, cut anywhere, run together, damaged, hostile."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpy import BUILD
from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.protocol.codes import SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import (
    FRAME_LENGTH_MAX,
    HEADER_LENGTH_MAX,
    FrameReader,
    decode_command,
    decode_frame,
    encode_frame,
)
from tests.recorded import recorded_frames

Parts = tuple[int, bytes, bytes | None]


def frame_of(header: bytes, body: bytes = b"", serialize_type: int = 0) -> bytes:
    return pack(">iI", 4 + len(header) + len(body), serialize_type << 24 | len(header)) + header + body


def read_all(pieces: Iterable[bytes]) -> list[Parts]:
    """Feed the pieces one by one and return every frame that came out."""
    reader = FrameReader()
    frames = []
    for piece in pieces:
        reader.receive(piece)
        while (frame := reader.next_frame()) is not None:
            frames.append(frame)
    return frames


def check_deliveries(stream: bytes, expected: list[Parts]) -> None:
    """The same stream whole, byte by byte, split at every byte, and followed by the beginning of another frame."""
    assert read_all([stream]) == expected
    assert read_all([stream[i : i + 1] for i in range(len(stream))]) == expected
    for cut in range(len(stream) + 1):
        assert read_all([stream[:cut], stream[cut:]]) == expected
    beginning = frame_of(b"{}", b"never finished")[:-1]
    reader = FrameReader()
    reader.receive(stream + beginning)
    assert [reader.next_frame() for _ in expected] == expected
    assert reader.next_frame() is None
    assert reader.buffered_bytes == len(beginning)


def small_golden_frames() -> list[bytes]:
    """One recorded frame of every shape (kind, code, serialize type) that is short enough to try all its bytes."""
    shapes: dict[tuple[str, int, str], bytes] = {}
    for each in recorded_frames():
        if len(each.content) <= 400:
            shapes.setdefault((each.kind, each.code, each.serialize), each.content)
    return list(shapes.values())


SMALL_FRAMES = small_golden_frames()


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (frame_of(b"{}"), [(0, b"{}", None)]),
        (frame_of(b""), [(0, b"", None)]),
        (frame_of(b"{}", b"body", 1), [(1, b"{}", b"body")]),
        (frame_of(b"", b"b"), [(0, b"", b"b")]),
        (frame_of(b"{}") + frame_of(b"", b"b", 1) + frame_of(b"x" * 50, b"y" * 60), None),
    ],
    ids=["header", "nothing", "header and body", "body", "three frames"],
)
def test_delivery(stream: bytes, expected: list[Parts] | None) -> None:
    check_deliveries(stream, expected or [(0, b"{}", None), (1, b"", b"b"), (0, b"x" * 50, b"y" * 60)])


@given(st.lists(st.tuples(st.integers(0, 1), st.binary(max_size=30), st.binary(max_size=30)), max_size=6), st.data())
def test_any_frames_in_any_pieces(frames: list[tuple[int, bytes, bytes]], data: st.DataObject) -> None:
    stream = b"".join(frame_of(header, body, kind) for kind, header, body in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read_all(pieces) == [(kind, header, body or None) for kind, header, body in frames]


def test_parts_are_bytes_however_they_arrived() -> None:
    """They outlive the reader's buffer and are keys and values elsewhere."""
    frame = frame_of(b"{}", b"body")
    for pieces in ([frame], [frame[:9], frame[9:]]):
        ((_, header, body),) = read_all(pieces)
        assert type(header) is bytes
        assert type(body) is bytes


@pytest.mark.parametrize("total", [0, 3, -1, -(2**31), FRAME_LENGTH_MAX - 3, 2**31 - 1, 0x16030100])
def test_impossible_length_is_refused_on_its_four_bytes(total: int) -> None:
    """16 MiB plus one byte is refused before any of it is there (and 0x16.. is the beginning of a TLS handshake)."""
    for more in (b"", b"\0", b"\0\0\0\0", bytes(100)):
        reader = FrameReader()
        reader.receive(pack(">i", total) + more)
        with pytest.raises(RemoteProtocolError, match=f"expected a length of 4 to 16777212, found {total}$"):
            reader.next_frame()


def test_three_bytes_of_a_length_are_no_error_yet() -> None:
    assert read_all([b"\xff\xff\xff"]) == []


def test_longest_frame_is_read() -> None:
    body = bytes(FRAME_LENGTH_MAX - 8)
    assert read_all([pack(">iI", FRAME_LENGTH_MAX - 4, 0), body]) == [(0, b"", body)]


def test_header_longer_than_its_frame_is_refused_on_eight_bytes() -> None:
    reader = FrameReader()
    reader.receive(pack(">iI", 100, 97))
    with pytest.raises(RemoteProtocolError, match="a header of at most 96 bytes in a frame of 100, found 97"):
        reader.next_frame()


@pytest.mark.parametrize("serialize_type", [2, 3, 127, 128, 255])
def test_unknown_serialize_type_is_refused_on_eight_bytes(serialize_type: int) -> None:
    reader = FrameReader()
    reader.receive(pack(">iI", 100, serialize_type << 24))
    with pytest.raises(RemoteProtocolError, match=f"expected serialize type 0 or 1, found {serialize_type}"):
        reader.next_frame()


def test_a_header_above_its_bound_is_refused_on_eight_bytes() -> None:
    """It would be decoded whole before anything is known of its sender."""
    longest = frame_of(b"x" * HEADER_LENGTH_MAX, b"body")
    assert read_all([longest]) == [(0, b"x" * HEADER_LENGTH_MAX, b"body")]
    for serialize_type in (0, 1):
        prefix = pack(">iI", HEADER_LENGTH_MAX + 100, serialize_type << 24 | HEADER_LENGTH_MAX + 1)
        for pieces in ([prefix], [prefix[:5], prefix[5:]], [frame_of(b"{}"), prefix]):
            with pytest.raises(RemoteProtocolError, match="a header of at most 524287 bytes, found 524288"):
                read_all(pieces)


def test_a_reader_that_failed_goes_on_failing() -> None:
    reader = FrameReader()
    reader.receive(frame_of(b"{}") + bytes(4))
    assert reader.next_frame() == (0, b"{}", None)
    for more in (b"", frame_of(b"{}")):
        reader.receive(more)
        with pytest.raises(RemoteProtocolError):
            reader.next_frame()


def held_bytes(reader: FrameReader) -> int:
    """How many bytes a reader keeps alive."""
    return sum(len(each) for each in gc.get_referents(reader) if isinstance(each, bytes | bytearray))


def test_a_reader_keeps_no_more_than_the_unfinished_frame() -> None:
    """A connection lives for weeks: what was handed out must not stay in its buffer."""
    frame = frame_of(b"h" * 100, b"b" * 900)
    stream = frame * 300
    reader = FrameReader()
    count = 0
    for start in range(0, len(stream), 700):
        reader.receive(stream[start : start + 700])
        while reader.next_frame() is not None:
            count += 1
        assert reader.buffered_bytes < len(frame)
        assert held_bytes(reader) < len(frame) + 700
    assert count == 300
    assert reader.buffered_bytes == 0
    assert held_bytes(reader) == 0


@pytest.mark.parametrize("piece_size", [700, 65_536, 1 << 21])
@pytest.mark.parametrize("has_kernel", [False, *([True] if BUILD.has_kernels else [])])
def test_the_beginning_of_a_frame_keeps_nothing_of_the_frame_before_it(piece_size: int, has_kernel: bool) -> None:
    """What a connection holds is counted by ``buffered_bytes``: one byte may not keep 16 MiB alive."""
    stream = frame_of(b"{}", bytes(1 << 20)) + frame_of(b"{}") * 100 + b"\0"
    reader = FrameReader(has_kernel=has_kernel)
    for start in range(0, len(stream), piece_size):
        reader.receive(stream[start : start + piece_size])
        while reader.next_frames(64):
            assert held_bytes(reader) <= 2 * reader.buffered_bytes
    assert reader.buffered_bytes == held_bytes(reader) == 1


def test_a_long_frame_in_small_pieces_is_collected_in_linear_time() -> None:
    """Joining ``buffer + piece`` would copy 128 GiB here."""
    body = bytes(range(256)) * 16384
    frame = frame_of(b"{}", body)
    assert read_all(frame[start : start + 64] for start in range(0, len(frame), 64)) == [(0, b"{}", body)]


def test_frame_round_trip() -> None:
    for serialize_type in SerializeType:
        command = RemotingCommand(
            code=10, ext_fields={"a": "b"}, body=b"body", remark="r", opaque=3, serialize_type=serialize_type
        )
        frame = encode_frame(command)
        assert frame[4] == serialize_type
        assert decode_frame(frame) == command


def test_empty_body_is_no_body() -> None:
    assert decode_frame(encode_frame(RemotingCommand(code=1, body=b""))).body is None


def test_decode_frame_wants_exactly_one_frame() -> None:
    frame = encode_frame(RemotingCommand(code=1))
    with pytest.raises(RemoteProtocolError, match="expected nothing after it, found 1 bytes"):
        decode_frame(frame + b"\0")
    for size in range(len(frame)):
        with pytest.raises(RemoteProtocolError, match="expected a whole one"):
            decode_frame(frame[:size])


def test_decode_command_refuses_an_unknown_serialize_type() -> None:
    with pytest.raises(RemoteProtocolError, match="serialize type 0 or 1, found 2"):
        decode_command(2, b"{}", None)


@pytest.mark.parametrize("serialize_type", SerializeType)
def test_too_long_a_frame_is_not_sent(serialize_type: SerializeType) -> None:
    """The peer would close the connection, and with it end all requests."""
    command = RemotingCommand(code=1, serialize_type=serialize_type)
    room = FRAME_LENGTH_MAX - len(encode_frame(command))
    command.body = bytes(room)
    assert len(encode_frame(command)) == FRAME_LENGTH_MAX
    command.body = bytes(room + 1)
    with pytest.raises(LocalProtocolError, match="expected at most 16777216 bytes, found 16777217"):
        encode_frame(command)


@pytest.mark.parametrize("serialize_type", SerializeType)
def test_too_long_a_header_is_not_sent(serialize_type: SerializeType) -> None:
    """Escapes make six bytes of one: what was read as a short header may be written as a long one."""
    command = RemotingCommand(code=1, serialize_type=serialize_type, ext_fields={"a": ""})
    room = HEADER_LENGTH_MAX - (len(encode_frame(command)) - 8)
    command.ext_fields = {"a": "x" * room}
    assert decode_frame(encode_frame(command)).ext_fields == command.ext_fields
    command.ext_fields = {"a": "x" * (room + 1)}
    with pytest.raises(LocalProtocolError, match="expected a header of at most 524287 bytes, found 524288"):
        encode_frame(command)


def decode_or_refuse(stream: bytes) -> None:
    """Whatever arrives: frames, "need more" or RemoteProtocolError, and nothing is kept that was not sent."""
    reader = FrameReader()
    reader.receive(stream)
    try:
        while (parts := reader.next_frame()) is not None:
            decode_command(*parts)
    except RemoteProtocolError:
        pass
    assert reader.buffered_bytes <= len(stream)


@given(st.binary(max_size=200))
def test_random_bytes(stream: bytes) -> None:
    decode_or_refuse(stream)


@given(st.integers(0, 1), st.binary(max_size=200), st.binary(max_size=10))
def test_random_headers(serialize_type: int, header: bytes, body: bytes) -> None:
    decode_or_refuse(frame_of(header, body, serialize_type))


@settings(max_examples=300)
@given(
    st.sampled_from(SMALL_FRAMES),
    st.lists(st.tuples(st.integers(0, 399), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_recorded_frames_with_a_few_bytes_changed(frame: bytes, changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(frame)
    for position, value in changes:
        damaged[position % len(damaged)] = value
    decode_or_refuse(bytes(damaged))


def test_every_truncated_header_in_a_frame_of_its_own() -> None:
    """The frame is sound, the header in it ends anywhere: the reader cannot see it, the decoders must."""
    for frame in SMALL_FRAMES[::5]:
        header_size = int.from_bytes(frame[5:8], "big")
        for size in range(header_size):
            header = frame[8 : 8 + size]
            with pytest.raises(RemoteProtocolError):
                decode_command(frame[4], header, None)
