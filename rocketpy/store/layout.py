"""On-disk layout of a store: the path and name of every file, and the structs of its contents.

Numbers are big-endian and signed. This module only lays out bytes: it opens nothing and decides nothing. The complete
codec of a record is :mod:`rocketpy.protocol.stored_message`; here is the part that append, dispatch and recovery need.

::

    <root>/commitlog/00000000000000000000           records, the name is the offset of the first byte
    <root>/consumequeue/<TOPIC>/<QUEUE ID>/00000000000000000000    units, the name is a byte offset in the queue
    <root>/consumequeue_ext/<TOPIC>/<QUEUE ID>/00000000000000000000    with enableConsumeQueueExt, names as above
    <root>/index/20260131235959123                  hash index, the name is the local time of creation
    <root>/checkpoint                               three timestamps in 4096 bytes
    <root>/abort                                    present while a broker runs, and after it was killed
    <root>/orderly-end                              ours: where log and queues ended, after a clean shutdown
    <root>/recovery-note                            ours: what a start may trust after a kill
    <root>/failed-sync                              ours: a sync failed in the last run
    <root>/recovering                               ours: a recovery is in progress, or was killed
    <root>/cut                                      ours: an order to cut the log where it parts from a master's
    <root>/diverged/<OFFSET>-<TIME>/00000000000000000000    ours: records that were cut, the name is their offset
    <root>/lock                                     a record lock on byte 0 excludes a second broker
    <root>/config/*.json                            the broker's tables
"""

from __future__ import annotations

import struct

from rocketpy.protocol.stored_message import TOPIC_SIZE_MAX

COMMIT_LOG_DIRECTORY = "commitlog"
CONSUME_QUEUE_DIRECTORY = "consumequeue"
CONSUME_QUEUE_EXT_DIRECTORY = "consumequeue_ext"
INDEX_DIRECTORY = "index"
CHECKPOINT_FILE = "checkpoint"
ABORT_FILE = "abort"
LOCK_FILE = "lock"
ORDERLY_END_FILE = "orderly-end"
RECOVERY_NOTE_FILE = "recovery-note"
FAILED_SYNC_FILE = "failed-sync"
RECOVERING_FILE = "recovering"
CUT_FILE = "cut"
DIVERGED_DIRECTORY = "diverged"

# ---- CommitLog ------------------------------------------------------------------------------------------------------
#
# Records back to back: their box is in protocol/stored_message. A full file ends in a BLANK that covers all remaining
# bytes; a record fits only if it leaves the 8 bytes that a BLANK needs.

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

# ---- ConsumeQueueExt ------------------------------------------------------------------------------------------------
#
# Units back to back, each with its own size; none crosses a file boundary. With this extension, a ConsumeQueue unit's
# tagsCode field is the address of a unit here: its offset with the sign bit set. Real tags codes are never below -2^31:
# they are signed hashes of 32 bits, or delivery times.
#
#    0 size i16 (20 + bitMapSize)  |  2 tagsCode i64  |  10 msgStoreTime i64  |  18 bitMapSize i16  |  20 bitMap
#
# After the last unit of a full file there is a size of -1.

EXT_UNIT = struct.Struct(">hqqh")
assert EXT_UNIT.size == 20
EXT_UNIT_SIZE_MAX = 32_767
EXT_UNIT_END = struct.pack(">h", -1)
EXT_ADDRESS_MAX = -(1 << 31) - 1
EXT_ADDRESS_SIGN = 1 << 63
"""The address of a unit is its offset less this: the offset with the sign bit set."""


def file_name(base_offset: int) -> str:
    """Return the name of the file that begins at an offset.

    >>> file_name(1073741824)
    '00000000001073741824'
    """
    return f"{base_offset:020d}"


def is_index_file_name(name: str) -> bool:
    """Whether a file's name is a time of 17 digits, as an index file has it.

    >>> is_index_file_name("20260131235959123"), is_index_file_name("20260131235959123.tmp")
    (True, False)
    """
    return len(name) == 17 and name.isascii() and name.isdigit()


_DELETED_PREFIX = "deleted-before-"
QUEUE_ID_MAX = 0x7FFF_FFFF


def base_offset_of(name: str) -> int | None:
    """Return the offset encoded in a file's name, or None if it is not the name of a log or queue file.

    >>> base_offset_of("00000000001073741824"), base_offset_of(".DS_Store")
    (1073741824, None)
    """
    return int(name) if len(name) == 20 and name.isascii() and name.isdigit() else None


def deletion_name(physical_offset: int) -> str:
    """Return the name of the file that says that a topic's records before an offset were deleted with the topic.

    It is in the topic's directory of ConsumeQueues.

    >>> deletion_name(1073741824)
    'deleted-before-00000000001073741824'
    """
    return _DELETED_PREFIX + file_name(physical_offset)


def deletion_of(name: str) -> int | None:
    """Return the offset encoded in such a name, 0 if it cannot be read; None if the file says something else.

    >>> deletion_of("deleted-before-00000000001073741824"), deletion_of("deleted-before-x"), deletion_of("0")
    (1073741824, 0, None)
    """
    if not name.startswith(_DELETED_PREFIX):
        return None
    return base_offset_of(name.removeprefix(_DELETED_PREFIX)) or 0


def queue_id_of(name: str) -> int | None:
    """Return the queue id encoded in a directory's name, or None if no store creates such a name.

    Each id has exactly one valid name. If ``0`` and ``00`` both counted, one queue would hide the other.

    >>> queue_id_of("0"), queue_id_of("12"), queue_id_of("00"), queue_id_of("2147483648")
    (0, 12, None, None)
    """
    if not (name.isascii() and name.isdigit()) or len(name) > 10 or (name[0] == "0" and name != "0"):
        return None
    queue_id = int(name)
    return queue_id if queue_id <= QUEUE_ID_MAX else None


def names_a_directory(topic: str) -> bool:
    """Whether a topic is usable as the directory name of its queues: short enough, and no path traversal.

    >>> names_a_directory("%RETRY%group"), names_a_directory("../config")
    (True, False)
    """
    size = len(topic.encode("utf-8", "replace"))
    return 0 < size <= TOPIC_SIZE_MAX and "/" not in topic and "\0" not in topic and topic not in (".", "..")
