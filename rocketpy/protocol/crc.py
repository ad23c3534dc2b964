"""The checksum RocketMQ keeps of message bodies and of registrations.

Rule: CRC-32 (zlib's polynomial) with the sign bit cleared, so it differs from ``zlib.crc32`` for half of all bodies. It
is taken over the bytes as sent and stored, that is of the *compressed* body; of nothing it is 0.
"""

from __future__ import annotations

from zlib import crc32


def body_crc(body: bytes | bytearray | memoryview) -> int:
    """Return the checksum of ``body``, between 0 and 2**31 - 1."""
    return crc32(body) & 0x7FFF_FFFF
