"""Codec of a message record: in CommitLog files, and back to back in the answers to pulls and look-ups.

All numbers big-endian and signed. An address has 16 bytes if its sysFlag bit is set, so no field after ``bornHost`` has
a fixed position::

     0 +------------+------------+------------+------------+
       | total size | magic      | body CRC   | queueId    |  4 x i32
    16 +------------+------------+------------+------------+
       | flag i32   | queueOffset i64         | physicalOffset i64
    36 +------------+-------------------------+------------+
       | sysFlag i32| bornTimestamp i64       | bornHost 4 or 16 + port i32
    56 +------------+-------------------------+------------+   (68 with a born host of IPv6)
       | storeTimestamp i64      | storeHost 4 or 16 + port i32
    72 +-------------------------+-------------------------+
       | reconsumeTimes i32      | preparedTransactionOffset i64
    84 +--------------+----------+-------------------------+
       | body size i32| body | topic size i8 | topic | properties size i16 | properties
       +--------------+------+---------------+-------+---------------------+-----------

A CommitLog file ends with a BLANK record: i32 number of bytes left in the file (including these), i32 magic; the bytes
after it are undefined.

Rules: a record is valid only if its lengths add up to its total size. Malformed UTF-8 is replaced, not refused, as in
Java: refusing it would truncate a log in recovery.
"""

from __future__ import annotations

import struct
from enum import Enum
from struct import Struct
from typing import TypeAlias
from zlib import crc32

import attrs

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.protocol.compression import DECOMPRESSED_SIZE_MAX, UnpackedSizeError, compression_type
from rocketpy.protocol.compression import decompress as decompress_body
from rocketpy.protocol.host import HOST_V4_SIZE, decode_host, encode_host
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.properties import (
    INDEX_KEYS_MAX,
    PROPERTIES_SIZE_MAX,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
    decode_properties,
    encode_properties,
    index_keys_of,
)
from rocketpy.protocol.sysflag import (
    BORN_HOST_V6_FLAG,
    COMPRESSED_FLAG,
    STORE_HOST_V6_FLAG,
    TRANSACTION_ROLLBACK_TYPE,
    TRANSACTION_TYPE_MASK,
)

Buffer: TypeAlias = bytes | bytearray | memoryview

MESSAGE_MAGIC_CODE = -626843481  # 0xDAA320A7
BLANK_MAGIC_CODE = -875286124  # 0xCBD43194
TOPIC_SIZE_MAX = 127
RECORD_SIZE_MAX = 64 << 20
"""A longer record counts as damage: this is four times the largest frame, and a sparse file can claim 2 GiB.

Compatibility: RocketMQ accepts any size up to that of the file.
"""
RECORDS_MAX = 65_536
"""Bound of the records in one answer, unless the caller expects fewer."""

# The head of a record, from the total size to the body size, for each combination of the two address widths:
# (sysFlag >> 4) & 3.
RECORD_HEADS = tuple(Struct(f">iiiiiqqiq{born}sq{store}siqi") for born, store in ((8, 8), (20, 8), (8, 20), (20, 20)))
RECORD_HEAD = RECORD_HEADS[0]
PROPERTIES_SIZE = Struct(">h")
TOTAL_AND_MAGIC = Struct(">ii")
_SYS_FLAG = Struct(">36xi")
_ADDRESS_FLAGS = BORN_HOST_V6_FLAG | STORE_HOST_V6_FLAG
BLANK_SIZE_MIN = TOTAL_AND_MAGIC.size
RECORD_SIZE_MIN = RECORD_HEADS[0].size + 1 + PROPERTIES_SIZE.size
assert [part.size for part in RECORD_HEADS] == [88, 100, 100, 112]
assert RECORD_SIZE_MIN == 91
assert BLANK_SIZE_MIN == 8

# The fields in front of the body, as the struct gives them; the last one is the size of the body.
_Fields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, bytes, int, bytes, int, int, int]


class RecordStatus(Enum):
    """Result of :func:`check_message`."""

    MESSAGE = "message"
    BLANK = "blank"
    NOTHING = "nothing"  # no magic number: preallocated space after the last record
    DAMAGED = "damaged"  # the magic number of a record, but an inconsistent one


@attrs.define(eq=False)
class CheckedMessage:
    """The fields of a record that recovery and dispatch need.

    ``size`` is the record's, and for BLANK what it claims to be left of the file; 0 otherwise. ``why`` explains
    DAMAGED. The rest has meaning for MESSAGE only. Properties are decoded when first asked for: most recoveries trust
    the queues and never ask.
    """

    status: RecordStatus
    size: int = 0
    topic: str = ""
    queue_id: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    store_timestamp: int = 0
    prepared_transaction_offset: int = 0
    properties_text: bytes = b""
    why: str = ""
    _properties: dict[str, str] | None = None

    @property
    def properties(self) -> dict[str, str]:
        """The properties; the dict is this object's own."""
        if self._properties is None:
            self._properties = decode_properties(self.properties_text.decode("utf-8", "replace"))
        return self._properties

    @property
    def tags_code(self) -> int:
        """The hash of the tags; that a delayed message's unit holds its time of delivery is for the store to know."""
        return tags_code(self.properties.get(PROPERTY_TAGS))

    @property
    def keys(self) -> str:
        """The property KEYS: keys separated by spaces; empty without any."""
        return self.properties.get(PROPERTY_KEYS, "")

    def index_keys(self, count_max: int = INDEX_KEYS_MAX) -> tuple[bytes, ...]:
        """Return the keys under which the index has the record; none of a rolled back transaction's end, as in Java."""
        if self.sys_flag & TRANSACTION_TYPE_MASK == TRANSACTION_ROLLBACK_TYPE:
            return ()
        return index_keys_of(self.properties, count_max)

    @property
    def uniq_key(self) -> str | None:
        """The client's unique key."""
        return self.properties.get(PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX)


def body_crc(body: Buffer) -> int:
    """Return the checksum of ``body``, between 0 and 2**31 - 1.

    It is CRC-32 (zlib's polynomial) with the sign bit cleared, so it differs from ``zlib.crc32`` for half of all
    bodies. It covers the bytes as sent and stored, that is the *compressed* body; for an empty body it is 0.
    """
    return crc32(body) & 0x7FFF_FFFF


def decode_message(
    buffer: Buffer,
    position: int = 0,
    *,
    decompress: bool = True,
    check_crc: bool = False,
    broker_name: str = "",
    unpacked_max: int = DECOMPRESSED_SIZE_MAX,
) -> MessageExt:
    """Return the message of the record at ``position``.

    With ``decompress`` the body is what the producer was given (at most ``unpacked_max`` bytes), and
    ``sys_flag`` still says how it was compressed. Raises :class:`~rocketpy.errors.RemoteProtocolError` naming the
    position when there is no whole, consistent record, the checksum is wrong or the body does not decompress, and
    :class:`~rocketpy.errors.LocalProtocolError` when the package for its compression is missing.

    Compatibility: Java's decoder checks neither magic nor lengths, and silently drops the rest of a buffer.
    """
    if position + TOTAL_AND_MAGIC.size <= len(buffer):
        _, magic = TOTAL_AND_MAGIC.unpack_from(buffer, position)
        if magic != MESSAGE_MAGIC_CODE:
            raise RemoteProtocolError(f"record at {position}: expected magic {MESSAGE_MAGIC_CODE}, found {magic}")
    fields, body_start, body_end, topic_end = _measure(buffer, position, len(buffer))
    size, _, crc, queue_id, flag, queue_offset, physical_offset, sys_flag = fields[:8]
    body = bytes(buffer[body_start:body_end])
    if check_crc and body_crc(body) != crc:
        raise RemoteProtocolError(f"record at {position}: expected body CRC {crc}, found {body_crc(body)}")
    if decompress and sys_flag & COMPRESSED_FLAG and body:
        body = _decompressed(body, sys_flag, position, unpacked_max)
    return MessageExt(
        str(buffer[body_end + 1 : topic_end], "utf-8", "replace"),
        body,
        decode_properties(str(buffer[topic_end + 2 : position + size], "utf-8", "replace")),
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag,
        fields[8],
        decode_host(fields[9]),
        fields[10],
        decode_host(fields[11]),
        fields[12],
        fields[13],
        crc,
        size,
        broker_name,
    )


def decode_messages(
    buffer: Buffer,
    *,
    decompress: bool = True,
    broker_name: str = "",
    count_max: int = RECORDS_MAX,
    unpacked_max: int = DECOMPRESSED_SIZE_MAX,
) -> list[MessageExt]:
    """Return the messages of records back to back, the body of a pull answer; errors as in :func:`decode_message`.

    RemoteProtocolError also for more than ``count_max`` of them, and when the bodies of those before the last have
    more than ``unpacked_max`` bytes: 16 MiB may hold records that grow a thousandfold.
    """
    messages: list[MessageExt] = []
    position = size = 0
    while position < len(buffer):
        if len(messages) >= count_max:
            raise RemoteProtocolError(f"record at {position}: expected at most {count_max} records, found more")
        if size > unpacked_max:
            raise UnpackedSizeError(
                f"record at {position}: expected at most {unpacked_max} bytes in bodies before, found {size}"
            )
        message = decode_message(
            buffer, position, decompress=decompress, broker_name=broker_name, unpacked_max=unpacked_max
        )
        messages.append(message)
        position += message.store_size
        size += len(message.body)
    return messages


def decode_record_properties(record: bytes) -> dict[str, str]:
    """Return the properties of one whole record, all that a selector reads; none if it is not a valid record."""
    try:
        (sys_flag,) = _SYS_FLAG.unpack_from(record)
        body_start = RECORD_HEADS[sys_flag >> 4 & 3].size
        body_end = body_start + int.from_bytes(record[body_start - 4 : body_start])
        text = record[body_end + record[body_end] + 3 :]
    except (struct.error, IndexError):
        return {}
    return decode_properties(text.decode("utf-8", "replace"))


def encode_message(message: MessageExt) -> bytes:
    """Return the record of ``message``: its body unchanged (compressed or not), the checksum and sizes computed.

    The two address bits of sysFlag follow the hosts. Raises :class:`~rocketpy.errors.LocalProtocolError` when a
    field does not fit.
    """
    born_host, store_host = encode_host(message.born_host), encode_host(message.store_host)
    body, topic = message.body, message.topic.encode("utf-8", "replace")
    properties = encode_properties(message.properties).encode("utf-8", "replace")
    if len(topic) > TOPIC_SIZE_MAX or len(properties) > PROPERTIES_SIZE_MAX:
        raise LocalProtocolError(
            f"record: expected at most {TOPIC_SIZE_MAX} bytes of topic and {PROPERTIES_SIZE_MAX} of properties, "
            f"found {len(topic)} and {len(properties)}"
        )
    try:
        head = pack_record_head(
            record_head_size(born_host, store_host) + len(body) + 1 + len(topic) + 2 + len(properties),
            body_crc(body),
            message.queue_id,
            message.flag,
            message.queue_offset,
            message.physical_offset,
            message.sys_flag,
            message.born_timestamp,
            born_host,
            message.store_timestamp,
            store_host,
            message.reconsume_times,
            message.prepared_transaction_offset,
            len(body),
        )
    except struct.error as error:
        raise LocalProtocolError(f"record: {error} in {attrs.evolve(message, body=b'')!r}") from None
    return b"".join((head, body, bytes((len(topic),)), topic, PROPERTIES_SIZE.pack(len(properties)), properties))


def record_head_size(born_host: bytes, store_host: bytes) -> int:
    """Return the size of the head of a record with these addresses."""
    return RECORD_HEADS[_address_flags(born_host, store_host) >> 4].size


def store_timestamp_position(sys_flag: int) -> int:
    """Return the position of storeTimestamp in a record: after a born host of 8 or 20 bytes."""
    return 68 if sys_flag & BORN_HOST_V6_FLAG else 56


def pack_record_head(
    size: int,
    crc: int,
    queue_id: int,
    flag: int,
    queue_offset: int,
    physical_offset: int,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_transaction_offset: int,
    body_size: int,
) -> bytes:
    """Return the head of a record: all before its body. ``struct.error`` when a number does not fit its field.

    The address bits of ``sys_flag`` are set from the addresses, whatever it says: a client that claims others would
    shift every field after them.
    """
    address_flags = _address_flags(born_host, store_host)
    return RECORD_HEADS[address_flags >> 4].pack(
        size,
        MESSAGE_MAGIC_CODE,
        crc,
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag & ~_ADDRESS_FLAGS | address_flags,
        born_timestamp,
        born_host,
        store_timestamp,
        store_host,
        reconsume_times,
        prepared_transaction_offset,
        body_size,
    )


def _address_flags(born_host: bytes, store_host: bytes) -> int:
    flags = 0
    if len(born_host) != HOST_V4_SIZE:
        flags = BORN_HOST_V6_FLAG
    if len(store_host) != HOST_V4_SIZE:
        flags |= STORE_HOST_V6_FLAG
    return flags


def encode_blank(size: int) -> bytes:
    """Return the 8 bytes that end a CommitLog file with ``size`` bytes left."""
    return TOTAL_AND_MAGIC.pack(size, BLANK_MAGIC_CODE)


def check_message(
    buffer: Buffer, position: int, size_available: int, *, check_crc: bool = True, read_body: bool = True
) -> CheckedMessage:
    """Classify the bytes at ``position``, reading at most ``size_available`` of them; never raises.

    Meant for scans of whole files: the body is not copied. With ``read_body`` false the body is skipped, and its
    checksum is not compared even with ``check_crc``.
    """
    if size_available < BLANK_SIZE_MIN:
        return CheckedMessage(RecordStatus.NOTHING)
    total_size, magic = TOTAL_AND_MAGIC.unpack_from(buffer, position)
    if magic == BLANK_MAGIC_CODE:
        if total_size >= BLANK_SIZE_MIN:
            return CheckedMessage(RecordStatus.BLANK, total_size)
        return CheckedMessage(RecordStatus.DAMAGED, why=f"blank at {position}: a size of {total_size}")
    if magic != MESSAGE_MAGIC_CODE:
        return CheckedMessage(RecordStatus.NOTHING)
    if total_size > RECORD_SIZE_MAX:
        why = f"record at {position}: expected a total size of at most {RECORD_SIZE_MAX}, found {total_size}"
        return CheckedMessage(RecordStatus.DAMAGED, why=why)
    try:
        fields, body_start, body_end, topic_end = _measure(buffer, position, position + size_available)
    except RemoteProtocolError as error:
        return CheckedMessage(RecordStatus.DAMAGED, why=str(error))
    if check_crc and read_body:
        crc = crc32(memoryview(buffer)[body_start:body_end]) & 0x7FFF_FFFF
        if crc != fields[2]:
            why = f"record at {position}: expected body CRC {fields[2]}, found {crc}"
            return CheckedMessage(RecordStatus.DAMAGED, why=why)
    return CheckedMessage(
        RecordStatus.MESSAGE,
        total_size,
        str(buffer[body_end + 1 : topic_end], "utf-8", "replace"),
        fields[3],
        fields[5],
        fields[6],
        fields[7],
        fields[8],
        fields[10],
        fields[13],
        bytes(buffer[topic_end + 2 : position + total_size]),
    )


def _measure(buffer: Buffer, position: int, limit: int) -> tuple[_Fields, int, int, int]:
    """Return the fixed fields, the begin and end of the body, and the end of the topic.

    Bytes from ``limit`` on are not read. RemoteProtocolError unless the lengths add up to the total size.
    """
    if position + RECORD_SIZE_MIN > limit:
        raise _inconsistent(position, f"at least {RECORD_SIZE_MIN} bytes", limit - position)
    (sys_flag,) = _SYS_FLAG.unpack_from(buffer, position)
    part = RECORD_HEADS[sys_flag >> 4 & 3]
    body_start = position + part.size
    if body_start > limit:
        raise _inconsistent(position, f"at least {part.size} bytes", limit - position)
    fields: _Fields = part.unpack_from(buffer, position)
    record_end = position + fields[0]
    body_end = body_start + fields[14]
    if not body_start < record_end <= limit:
        raise _inconsistent(position, f"a total size of {part.size + 3} to {limit - position}", fields[0])
    if not body_start <= body_end < record_end:
        raise _inconsistent(position, f"a body of 0 to {record_end - body_start - 3} bytes", fields[14])
    topic_size = buffer[body_end]
    topic_end = body_end + 1 + topic_size
    if topic_size > TOPIC_SIZE_MAX or topic_end + 2 > record_end:
        raise _inconsistent(position, f"a topic of 0 to {TOPIC_SIZE_MAX} bytes within the record", topic_size)
    (properties_size,) = PROPERTIES_SIZE.unpack_from(buffer, topic_end)
    if topic_end + 2 + properties_size != record_end:
        raise _inconsistent(position, f"properties of {record_end - topic_end - 2} bytes", properties_size)
    return fields, body_start, body_end, topic_end


def _decompressed(body: bytes, sys_flag: int, position: int, size_max: int) -> bytes:
    try:
        compression = compression_type(sys_flag)
        assert compression is not None, "the caller has looked at the flag"
        return decompress_body(body, compression, size_max=size_max)
    except RemoteProtocolError as error:
        raise type(error)(f"record at {position}: {error}") from None


def _inconsistent(position: int, expected: str, found: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"record at {position}: expected {expected}, found {found}")
