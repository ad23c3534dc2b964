"""Reads for the broker's own services: single records, and the heads of many.

A pull reads many records at once, with limits; a service that processes a system queue needs to know of each record
whether it still exists. Nothing here blocks the event loop: cold bytes are read in a worker thread. Read-only.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import attrs

from rocketpy.protocol.stored_message import BLANK_MAGIC_CODE, MESSAGE_MAGIC_CODE
from rocketpy.protocol.sysflag import BORN_HOST_V6_FLAG, STORE_HOST_V6_FLAG
from rocketpy.runner import RunBlocking
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.read.steps import Reads, Steps, read_anywhere

_WINDOW_SIZE = 1 << 20
_HEAD = struct.Struct(">ii28xi36xq")  # totalSize, magic, sysFlag, preparedTransactionOffset of a record with IPv4 hosts
_PREPARED = struct.Struct(">q")
_PREPARED_AT = 76
_V6_MORE = 12  # additional bytes of an IPv6 address
_SIZE_AND_MAGIC = struct.Struct(">ii")
_HEAD_CHECK = struct.Struct(">ii20xq")  # totalSize, magic, physicalOffset


@attrs.frozen
class LogWindow:
    """A section of the log: the physical offset of each record, with its preparedTransactionOffset."""

    prepared_offsets: Sequence[tuple[int, int]]
    next_offset: int


class RecordReader:
    """The reader of one open store."""

    def __init__(self, *, commit_log: CommitLog, run_blocking: RunBlocking, end_burst: Callable[[], None]) -> None:
        self._commit_log = commit_log
        self._run_blocking = run_blocking
        self._end_burst = end_burst

    async def records(self, spans: Sequence[tuple[int, int]]) -> list[bytes | None]:
        """Return the record at each (physical offset, size); None where it was deleted or there is no valid record."""
        self._end_burst()
        return await read_anywhere(lambda: self._records(spans), self._run_blocking)

    async def prepared_offsets(self, physical_offset: int) -> LogWindow | None:
        """Return the preparedTransactionOffsets of the next records from an offset on; None at the end of the log.

        An offset before the beginning of the log counts as the beginning. Damage is skipped, up to the next file.
        """
        self._end_burst()
        begin = max(physical_offset, self._commit_log.min_offset)
        if begin >= self._commit_log.wrote_offset:
            return None
        return await read_anywhere(lambda: self._window(begin), self._run_blocking)

    # ---- as steps -------------------------------------------------------------------------------------------------

    def _records(self, spans: Sequence[tuple[int, int]]) -> Steps[list[bytes | None]]:
        located = [self._commit_log.locate(physical_offset, size) for physical_offset, size in spans]
        reads: Reads = [(*at, size) for at, (_, size) in zip(located, spans, strict=True) if at is not None]
        contents = iter((yield reads) if reads else ())
        records: list[bytes | None] = []
        for at, (physical_offset, size) in zip(located, spans, strict=True):
            content = next(contents) if at is not None else b""
            records.append(content if _is_record(content, physical_offset, size) else None)
        return records

    def _window(self, begin: int) -> Steps[LogWindow]:
        commit_log = self._commit_log
        located = commit_log.locate_some(begin, _WINDOW_SIZE)
        if located is None:
            return LogWindow((), commit_log.next_file_offset(begin))
        (window,) = yield [located]
        found: list[tuple[int, int]] = []
        position = 0
        while position + _HEAD.size <= len(window):
            record_size, magic, sys_flag, prepared_offset = _HEAD.unpack_from(window, position)
            if magic != MESSAGE_MAGIC_CODE or record_size < _HEAD.size:
                break
            if sys_flag & (BORN_HOST_V6_FLAG | STORE_HOST_V6_FLAG):
                at = position + _PREPARED_AT
                at += _V6_MORE * (bool(sys_flag & BORN_HOST_V6_FLAG) + bool(sys_flag & STORE_HOST_V6_FLAG))
                if at + _PREPARED.size > len(window):
                    break
                (prepared_offset,) = _PREPARED.unpack_from(window, at)
            found.append((begin + position, prepared_offset))
            position += record_size
        next_offset = begin + position
        if not found or _is_blank(window, position) or next_offset >= located[0].end_offset:
            # The file's BLANK; or no record where one is expected: the log is damaged, and later files may be readable.
            next_offset = commit_log.next_file_offset(begin)
        return LogWindow(found, next_offset)


def log_bytes(commit_log: CommitLog, physical_offset: int, size: int) -> Steps[bytes]:
    """Read at most ``size`` bytes of one file from an offset on; none if the log does not have the offset."""
    located = commit_log.locate_some(physical_offset, size)
    if located is None:
        return b""
    (content,) = yield [located]
    return content


def _is_record(content: bytes, physical_offset: int, size: int) -> bool:
    if len(content) != size or size < _HEAD_CHECK.size:
        return False
    return bool(_HEAD_CHECK.unpack_from(content) == (size, MESSAGE_MAGIC_CODE, physical_offset))


def _is_blank(window: bytes, position: int) -> bool:
    if position + _SIZE_AND_MAGIC.size > len(window):
        return False
    return bool(_SIZE_AND_MAGIC.unpack_from(window, position)[1] == BLANK_MAGIC_CODE)
