"""Every file of a store directory: its place, its name, and the boxes and structs of what is in it.

Numbers are big-endian and signed. This module only lays out bytes: it opens nothing and decides nothing. A record's
whole codec is :mod:`rocketpy.protocol.stored_message`; what stands here is what append, dispatch and recovery need.

::

    <root>/commitlog/00000000000000000000           records, the name is the offset of the first byte
    <root>/consumequeue/<TOPIC>/<QUEUE ID>/00000000000000000000    units, the name is a byte offset in the queue
    <root>/index/20260131235959123                  hash index, the name is the local time of creation
    <root>/checkpoint                               three times in 4096 bytes
    <root>/abort                                    there while a broker runs, and after one was killed
    <root>/lock                                     a record lock on byte 0 keeps a second broker out
    <root>/config/*.json                            the broker's tables
"""

from __future__ import annotations

import struct

COMMIT_LOG_DIRECTORY = "commitlog"
CONSUME_QUEUE_DIRECTORY = "consumequeue"
INDEX_DIRECTORY = "index"
CHECKPOINT_FILE = "checkpoint"
ABORT_FILE = "abort"
LOCK_FILE = "lock"

# ---- CommitLog ------------------------------------------------------------------------------------------------------
#
# One record. Positions are those of two IPv4 hosts; each IPv6 host (sysFlag 0x10 and 0x20) adds 12 to what follows it.
#
#    0 totalSize i32     | 20 queueOffset i64    | 40 bornTimestamp i64    | 72 reconsumeTimes i32
#    4 magic i32         | 28 physicalOffset i64 | 48 bornHost 4 + i32     | 76 preparedTransactionOffset i64
#    8 bodyCRC i32       | 36 sysFlag i32        | 56 storeTimestamp i64   | 84 bodyLen i32, body
#   12 queueId i32       |                       | 64 storeHost 4 + i32    |    topicLen i8, topic
#   16 flag i32          |                       |                         |    propertiesLen i16, properties

MESSAGE_MAGIC_CODE = -626843481  # 0xDAA320A7
BLANK_MAGIC_CODE = -875286124  # 0xCBD43194

RECORD_HEAD = struct.Struct(">iiiiiqqiq8sq8siqi")  # both hosts IPv4, up to and including bodyLen
RECORD_HEAD_BORN_V6 = struct.Struct(">iiiiiqqiq20sq8siqi")
RECORD_HEAD_STORE_V6 = struct.Struct(">iiiiiqqiq8sq20siqi")
RECORD_HEAD_V6 = struct.Struct(">iiiiiqqiq20sq20siqi")
RECORD_FIXED_SIZE = 91
"""Bytes of a record with IPv4 hosts that are neither body, topic nor properties."""
assert RECORD_HEAD.size == 88 and RECORD_FIXED_SIZE == RECORD_HEAD.size + 3

RECORD_PREFIX = struct.Struct(">iiiiiqqi")  # totalSize to sysFlag: the part whose places do not depend on the hosts
assert RECORD_PREFIX.size == 40
PROPERTIES_SIZE = struct.Struct(">h")
TOPIC_SIZE_MAX = 127
PROPERTIES_SIZE_MAX = 32_767

SYS_FLAG_BORN_V6 = 0x10
SYS_FLAG_STORE_V6 = 0x20
SYS_FLAG_TRANSACTION_MASK = 0xC
SYS_FLAG_TRANSACTION_ROLLBACK = 0xC
SYS_FLAG_NO_QUEUE = 0x4
"""Set in both prepared (0x4) and rollback (0xC): such a record gets no queue offset and no unit."""

# The end of a full file: a BLANK of all the bytes that are left (at least 8), of which only the first 8 mean anything.
#
#    0 remaining bytes i32, these included  |  4 magic i32  |  8 anything

BLANK = struct.Struct(">ii")
BLANK_SIZE_MIN = 8
assert BLANK.size == BLANK_SIZE_MIN

# ---- ConsumeQueue ---------------------------------------------------------------------------------------------------
#
# Unit n is at byte n * 20 of the queue.
#
#    0 physicalOffset i64  |  8 size i32  |  12 tagsCode i64
#
# A queue that does not begin at 0 begins with pre-blank units (0, 0x7FFFFFFF, 0) up to its first message.

UNIT = struct.Struct(">qiq")
UNIT_SIZE = 20
assert UNIT.size == UNIT_SIZE
PRE_BLANK_UNIT = UNIT.pack(0, 0x7FFFFFFF, 0)
PRE_BLANK_SIZE = 0x7FFFFFFF


def file_name(base_offset: int) -> str:
    """Return the name of the file that begins at an offset.

    >>> file_name(1073741824)
    '00000000001073741824'
    """
    return f"{base_offset:020d}"


def base_offset_of(name: str) -> int | None:
    """Return the offset that a file's name says, or None if it is no name of a log or queue file.

    >>> base_offset_of("00000000001073741824"), base_offset_of(".DS_Store")
    (1073741824, None)
    """
    return int(name) if len(name) == 20 and name.isascii() and name.isdigit() else None


def transaction_type_has_queue(sys_flag: int) -> bool:
    """Whether records of this sysFlag take a place in their queue: plain and committed ones do."""
    return not sys_flag & SYS_FLAG_NO_QUEUE


def store_timestamp_position(sys_flag: int) -> int:
    """Return where in a record its storeTimestamp is: behind a born host of 8 or 20 bytes."""
    return 68 if sys_flag & SYS_FLAG_BORN_V6 else 56


def record_fixed_size(sys_flag: int) -> int:
    """Return the bytes of a record that are neither body, topic nor properties."""
    size = RECORD_FIXED_SIZE
    if sys_flag & SYS_FLAG_BORN_V6:
        size += 12
    if sys_flag & SYS_FLAG_STORE_V6:
        size += 12
    return size
