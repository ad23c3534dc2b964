"""Records as the log has them, for tests of append."""

from __future__ import annotations

from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import decode_message
from tests.store.parts import Parts


def record_at(parts: Parts, physical_offset: int, size: int) -> bytes:
    located = parts.commit_log.locate(physical_offset, size)
    assert located is not None
    mapped_file, position = located
    return mapped_file.file().read(position, size)


def stored(parts: Parts, physical_offset: int) -> MessageExt:
    size = int.from_bytes(record_at(parts, physical_offset, 4), "big")
    return decode_message(record_at(parts, physical_offset, size), check_crc=True, decompress=False)
