"""Whole frames out of received bytes.

::

    0        4          5               8          8 + n      4 + total
    +--------+----------+---------------+----------+----------+
    | total  | type 0,1 | header size n | header n | body     |   big-endian; ``total`` counts the bytes after itself
    +--------+----------+---------------+----------+----------+

It stops before the first frame that is not whole or not valid, which ``rocketpy.protocol.frame.codec`` judges.

Compatibility: ``NettyDecoder`` and ``RemotingCommand.decode`` (4.9.8).
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

_PREFIX_SIZE: Final[i64] = 8


def cut_frames(
    buffer: bytes, position: i64, frames_max: i64, total_max: i64, header_max: i64
) -> tuple[list[tuple[int, bytes, bytes | None]], int]:
    """Return at most so many frames from a position on, each as type, header and body, and where they end.

    ``total_max`` and ``header_max`` are the largest valid values of these fields.
    """
    end: i64 = len(buffer)
    count: i64 = 0
    frames: list[tuple[int, bytes, bytes | None]] = []
    while count < frames_max and position <= end - _PREFIX_SIZE:
        total = i64(read_i32_be(buffer, position))
        word = i64(read_i32_be(buffer, position + 4))
        header_size = word & 0xFFFFFF
        header_begin = position + _PREFIX_SIZE
        header_end = header_begin + header_size
        frame_end = position + 4 + total
        if (
            total < 4
            or total > total_max
            or header_size > header_max
            or header_end > frame_end
            or frame_end > end
            or word >> 25 != 0
        ):
            break
        body = buffer[header_end:frame_end] if frame_end > header_end else None
        frames.append((word >> 24, buffer[header_begin:header_end], body))
        position = frame_end
        count += 1
    return frames, position
