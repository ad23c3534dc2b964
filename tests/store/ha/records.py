"""Records of a small log, as a master would store them."""

from __future__ import annotations

from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import encode_blank, encode_message

FILE = 1024
"""mappedFileSizeCommitLog."""


def a_record(offset: int, *, body: bytes = b"some body", queue_offset: int = 0) -> bytes:
    """Return the record that begins at an offset of the log."""
    return encode_message(
        MessageExt(
            topic="Topic",
            body=body,
            properties={"KEYS": f"key{offset}"},
            queue_offset=queue_offset,
            physical_offset=offset,
            born_timestamp=1_700_000_000_000,
            born_host="127.0.0.1:1",
            store_timestamp=1_700_000_000_001,
            store_host="127.0.0.1:10911",
        )
    )


def a_log(count: int) -> bytes:
    """Return a log of ``count`` records, in files of FILE bytes, each but the last ended by a BLANK."""
    log = b""
    for number in range(count):
        record = a_record(len(log), body=b"x" * (97 * number % 300), queue_offset=number)
        left = FILE - len(log) % FILE
        if len(record) + 8 > left:
            log += encode_blank(left) + b"\xa5" * (left - 8)
            record = a_record(len(log), body=b"x" * (97 * number % 300), queue_offset=number)
        log += record
    return log
