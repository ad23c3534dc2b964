"""A record of the CommitLog with two IPv4 addresses, and its unit in a ConsumeQueue.

     0 | total size i32 | magic i32 | body CRC i32 | queueId i32 | flag i32 | queueOffset i64 | physicalOffset i64 |
    36 | sysFlag i32 | bornTimestamp i64 | bornHost 8 | storeTimestamp i64 | storeHost 8 | reconsumeTimes i32 |
    76 | preparedTransactionOffset i64 | body size i32 | body | topic size i8 | topic | properties size i16 | properties

     0 | physicalOffset i64 | total size i32 | tagsCode i64 |

Compatibility: ``CommitLog`` and ``ConsumeQueue`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final
from zlib import crc32

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32

_MAGIC: Final[i32] = -626843481
FIELD_ERRORS: Final = (OverflowError, ValueError)
"""Raised for a number that does not fit its field: compiled code has two ways to say so."""
_crc32: Final[Callable[[bytes], int]] = crc32


@final
class RecordWriter:
    """Writer of the records and units of one log. A number that does not fit its field is one of ``FIELD_ERRORS``."""

    def __init__(self, store_host: bytes) -> None:
        """Take the address of the log's broker: 8 bytes."""
        self._store_host = store_host
        self._writer = BytesWriter()

    def record(
        self,
        body: bytes,
        tail: bytes,
        properties: bytes,
        queue_id: int,
        flag: int,
        queue_offset: int,
        physical_offset: int,
        sys_flag: int,
        born_timestamp: int,
        born_host: bytes,
        store_timestamp: int,
        reconsume_times: int,
        prepared_transaction_offset: int,
    ) -> bytes:
        """Return a whole record. ``tail`` is the topic and the size of the properties, the address has 8 bytes."""
        writer = self._writer
        writer.truncate(0)
        body_size = i32(len(body))
        write_i32_be(writer, 88 + body_size + i32(len(tail)) + i32(len(properties)))
        write_i32_be(writer, _MAGIC)
        write_i32_be(writer, i32(_crc32(body) & 0x7FFFFFFF))
        write_i32_be(writer, queue_id)
        write_i32_be(writer, flag)
        write_i64_be(writer, queue_offset)
        write_i64_be(writer, physical_offset)
        write_i32_be(writer, sys_flag)
        write_i64_be(writer, born_timestamp)
        writer.write(born_host)
        write_i64_be(writer, store_timestamp)
        writer.write(self._store_host)
        write_i32_be(writer, reconsume_times)
        write_i64_be(writer, prepared_transaction_offset)
        write_i32_be(writer, body_size)
        writer.write(body)
        writer.write(tail)
        writer.write(properties)
        return writer.getvalue()

    def unit(self, physical_offset: int, size: int, tags_code: int) -> bytes:
        """Return a unit."""
        writer = self._writer
        writer.truncate(0)
        write_i64_be(writer, physical_offset)
        write_i32_be(writer, size)
        write_i64_be(writer, tags_code)
        return writer.getvalue()
