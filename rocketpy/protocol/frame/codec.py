"""Frames: the encoding of commands on a TCP stream.

======  ======  ==================================================================================
offset  size    field (big-endian)
======  ======  ==================================================================================
0       4       ``total``, int32: the number of bytes after this field, 4 + header + body
4       1       serialize type of the header: 0 JSON, 1 ROCKETMQ
5       3       header length, unsigned
8       n       header
8+n     rest    body; its length follows from ``total``, and no bytes mean no body
======  ======  ==================================================================================

Nothing here reads a socket: :class:`FrameReader` takes bytes in pieces of any size and returns frames. Rule: an invalid
frame is a :class:`~rocketpy.errors.RemoteProtocolError` as soon as the bytes that prove it have arrived, so that a peer
can make us buffer at most :data:`FRAME_LENGTH_MAX` bytes. Matching responses to requests is up to remoting.

Compatibility: in RocketMQ only the frame has a limit. Here the header has one too, because it is decoded before its
sender is authorized, and :data:`HEADER_LENGTH_MAX` bytes of it take some milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.protocol.codes import SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame.json_header import decode_json_header, encode_json_header
from rocketpy.protocol.frame.rocketmq_header import decode_rocketmq_header, encode_rocketmq_header

FRAME_LENGTH_MAX = 16_777_216
"""The longest frame, with its 4 length bytes (``com.rocketmq.remoting.frameMaxLength`` of RocketMQ)."""

HEADER_LENGTH_MAX = 0x7FFFF
"""The longest header: half a MiB but a byte, so that one mask finds what is longer.

RocketMQ's longest hold the properties of one message, of which a broker takes 32767 bytes.
"""

_PREFIX = Struct(">iI")  # total; serialize type in the high byte, header length below
assert _PREFIX.size == 8
_TOTAL_MAX = FRAME_LENGTH_MAX - 4
_BAD_WORD = 0xFE000000 | (0xFFFFFF & ~HEADER_LENGTH_MAX)
"""Bits of the second word that neither a serialize type (0 or 1) nor the length of a header has."""
assert HEADER_LENGTH_MAX & HEADER_LENGTH_MAX + 1 == 0
_JSON = int(SerializeType.JSON)
_ROCKETMQ = int(SerializeType.ROCKETMQ)

Frame = tuple[int, bytes, "bytes | None"]
"""Serialize type, header, body."""


def _kernel() -> Callable[[bytes, int, int, int, int], tuple[list[Frame], int]]:
    from rocketpy.protocol.kernels.frames import cut_frames  # plain Python does not load it

    return cut_frames


class FrameReader:
    """Splits received bytes into frames.

    Call :meth:`receive` with bytes from the socket, then :meth:`next_frames` (or :meth:`next_frame`) until it returns
    no more. Kept between calls: at most twice the bytes that no returned frame has. An error is final: every further
    :meth:`next_frame` raises the same.
    """

    __slots__ = ("_buffer", "_cut_frames", "_position", "buffered_bytes")

    def __init__(self, *, has_kernel: bool = False) -> None:
        """With ``has_kernel`` whole frames are cut by the kernel; the rest is judged here."""
        self._cut_frames = _kernel() if has_kernel else None
        # The last received bytes object as it is (no copy), or a bytearray once a frame spans two of them.
        self._buffer: bytes | bytearray = b""
        self._position = 0
        self.buffered_bytes = 0
        """Number of received bytes that are not part of a returned frame yet, as of the last :meth:`next_frames`."""

    def receive(self, data: bytes) -> None:
        """Take the next bytes of the stream; ``data`` must not change afterwards."""
        buffer = self._buffer
        position = self._position
        if position == len(buffer):
            self._buffer = data
        else:
            if not isinstance(buffer, bytearray):
                buffer = self._buffer = bytearray(memoryview(buffer)[position:])
            buffer += data
        self._position = 0

    def next_frames(self, frames_max: int) -> list[Frame]:
        """Return at most ``frames_max`` whole frames, none when more bytes are needed. Used by the fast path.

        Raises :class:`~rocketpy.errors.RemoteProtocolError` for bytes that cannot become a frame; the frames before
        them are returned first.
        """
        buffer = self._buffer
        position = self._position
        end = len(buffer)
        if isinstance(buffer, bytearray):
            if not _has_whole_frame(buffer):
                self.buffered_bytes = end
                return []
            # One copy for all the frames in it, so that header and body are plain slices.
            buffer = self._buffer = bytes(buffer)
        frames: list[Frame] = []
        if self._cut_frames is not None:
            frames, position = self._cut_frames(buffer, position, frames_max, _TOTAL_MAX, HEADER_LENGTH_MAX)
            if frames:
                frames_max = 0  # that was all: what follows is judged when it is the first
        unpack = _PREFIX.unpack_from
        while len(frames) < frames_max:
            start = position + 8
            if start > end:
                if end - position >= 4 and not frames:
                    _check_total(int.from_bytes(buffer[position : position + 4], "big", signed=True))
                break
            total, word = unpack(buffer, position)
            body_start = start + (word & 0xFFFFFF)
            frame_end = position + 4 + total
            if not 4 <= total <= _TOTAL_MAX or body_start > frame_end or word & _BAD_WORD:
                if frames:
                    break
                raise _bad_prefix(total, word)
            if frame_end > end:
                break
            frames.append(
                (word >> 24, buffer[start:body_start], buffer[body_start:frame_end] if frame_end > body_start else None)
            )
            position = frame_end
        if position == end:
            self._buffer = b""  # releases the memory of a long frame at once
            self._position = self.buffered_bytes = 0
        else:
            self.buffered_bytes = end - position
            if position > self.buffered_bytes:
                # A slice keeps nothing of what has been served: one byte after a frame of 16 MiB is one byte. Each
                # byte is copied about once, because a slice is less than half of the buffer.
                self._buffer, position = buffer[position:], 0
            self._position = position
        return frames

    def next_frame(self) -> Frame | None:
        """Return the next whole frame, or ``None`` when more bytes are needed; see :meth:`next_frames`."""
        frames = self.next_frames(1)
        return frames[0] if frames else None


def _has_whole_frame(buffer: bytearray) -> bool:
    """Whether a buffer that begins with a frame holds all of it; RemoteProtocolError when the frame is invalid."""
    if len(buffer) < 8:
        if len(buffer) >= 4:
            _check_total(int.from_bytes(buffer[:4], "big", signed=True))
        return False
    total, word = _PREFIX.unpack_from(buffer)
    if not 4 <= total <= _TOTAL_MAX or word & 0xFFFFFF > total - 4 or word & _BAD_WORD:
        raise _bad_prefix(total, word)
    return bool(total + 4 <= len(buffer))


def encode_frame(command: RemotingCommand) -> bytes:
    """Return the whole frame of ``command``.

    Raises :class:`~rocketpy.errors.LocalProtocolError` when it is longer than :data:`FRAME_LENGTH_MAX`, or its header
    than :data:`HEADER_LENGTH_MAX` (RocketMQ sends it, and its peer closes the connection), or a field does not fit its
    type.
    """
    if command.serialize_type == _JSON:
        serialize_type, header = _JSON, encode_json_header(command)
    else:
        serialize_type, header = _ROCKETMQ, encode_rocketmq_header(command)
    body = command.body
    header_size = len(header)
    total = 4 + header_size + (len(body) if body else 0)
    if total > _TOTAL_MAX:
        raise LocalProtocolError(f"frame: expected at most {FRAME_LENGTH_MAX} bytes, found {total + 4}")
    if header_size > HEADER_LENGTH_MAX:
        raise LocalProtocolError(f"frame: expected a header of at most {HEADER_LENGTH_MAX} bytes, found {header_size}")
    prefix = _PREFIX.pack(total, serialize_type << 24 | header_size)
    return prefix + header + body if body else prefix + header


def decode_command(serialize_type: int, header: bytes, body: bytes | None) -> RemotingCommand:
    """Return the command of a split frame; :class:`~rocketpy.errors.RemoteProtocolError` for a malformed header."""
    if serialize_type == _JSON:
        return decode_json_header(header, body)
    if serialize_type == _ROCKETMQ:
        return decode_rocketmq_header(header, body)
    raise RemoteProtocolError(f"frame: expected serialize type 0 or 1, found {serialize_type}")


def decode_frame(frame: bytes) -> RemotingCommand:
    """Return the command of exactly one whole frame with its 4 length bytes."""
    reader = FrameReader()
    reader.receive(frame)
    parts = reader.next_frame()
    if parts is None:
        raise RemoteProtocolError(f"frame: expected a whole one, found {len(frame)} bytes of it")
    if reader.buffered_bytes:
        raise RemoteProtocolError(f"frame: expected nothing after it, found {reader.buffered_bytes} bytes")
    return decode_command(*parts)


def _check_total(total: int) -> None:
    if not 4 <= total <= _TOTAL_MAX:
        raise RemoteProtocolError(f"frame: expected a length of 4 to {_TOTAL_MAX}, found {total}")


def _bad_prefix(total: int, word: int) -> RemoteProtocolError:
    if not 4 <= total <= _TOTAL_MAX:
        return RemoteProtocolError(f"frame: expected a length of 4 to {_TOTAL_MAX}, found {total}")
    if word >> 24 > _ROCKETMQ:
        return RemoteProtocolError(f"frame: expected serialize type 0 or 1, found {word >> 24}")
    if word & 0xFFFFFF > HEADER_LENGTH_MAX:
        return RemoteProtocolError(
            f"frame: expected a header of at most {HEADER_LENGTH_MAX} bytes, found {word & 0xFFFFFF}"
        )
    return RemoteProtocolError(
        f"frame: expected a header of at most {total - 4} bytes in a frame of {total}, found {word & 0xFFFFFF}"
    )
