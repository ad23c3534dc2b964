"""Reads of the broker's own services: the units of a queue, single records, and what stands in the heads of records.

Pulls want many records at once and limits on them; a service that works through a queue of its own wants to see each
unit, with what it holds, and to know which record is gone. Nothing here blocks the event loop: what is cold is read in
a worker thread. Nothing is appended or moved.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import attrs

from rocketpy.protocol.stored_message import BLANK_MAGIC_CODE, MESSAGE_MAGIC_CODE
from rocketpy.runner import RunBlocking
from rocketpy.store import layout
from rocketpy.store.commit_log import CommitLog
from rocketpy.store.consume_queue import ConsumeQueue
from rocketpy.store.consume_queue_ext import is_ext_address, read_ext_unit
from rocketpy.store.consume_queue_table import ConsumeQueueTable
from rocketpy.store.layout import UNIT, UNIT_SIZE
from rocketpy.store.read_steps import Reads, Steps, read_anywhere

_WINDOW_SIZE = 1 << 20
_HEAD = struct.Struct(">ii28xi36xq")  # totalSize, magic, sysFlag, preparedTransactionOffset of a record with IPv4 hosts
_PREPARED = struct.Struct(">q")
_PREPARED_AT = 76
_V6_MORE = 12  # bytes that an IPv6 address is longer
_SIZE_AND_MAGIC = struct.Struct(">ii")
_PLACE = struct.Struct(">ii20xq")  # totalSize, magic, physicalOffset


@attrs.frozen(slots=True)
class QueueUnit:
    """A unit of a queue. ``tags_code`` is None when it was in an extension that is lost."""

    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int | None


@attrs.frozen
class LogWindow:
    """A stretch of the log: the record that begins at each place, with its preparedTransactionOffset."""

    prepared_offsets: Sequence[tuple[int, int]]
    next_offset: int


class QueueReader:
    """Reads one store. Made when it is open."""

    def __init__(
        self,
        *,
        commit_log: CommitLog,
        queues: ConsumeQueueTable,
        run_blocking: RunBlocking,
        end_burst: Callable[[], None],
    ) -> None:
        self._commit_log = commit_log
        self._queues = queues
        self._run_blocking = run_blocking
        self._end_burst = end_burst

    async def units(self, topic: str, queue_id: int, queue_offset: int, count: int) -> list[QueueUnit]:
        """Return up to ``count`` units of a queue: fewer at the end of one of its files, none outside of the queue."""
        self._end_burst()
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return []
        return await read_anywhere(lambda: _units(queue, queue_offset, count), self._run_blocking)

    async def records(self, units: Sequence[QueueUnit]) -> list[bytes | None]:
        """Return the record of each unit, None for one that has left the log or is not there."""
        self._end_burst()
        return await read_anywhere(lambda: self._records(units), self._run_blocking)

    async def prepared_offsets(self, physical_offset: int) -> LogWindow | None:
        """Return what the next records from a place on say of others; None at the end of the log.

        A place before the log begins is taken for its beginning. What is damaged is passed over, up to the next file.
        """
        self._end_burst()
        begin = max(physical_offset, self._commit_log.min_offset)
        if begin >= self._commit_log.wrote_offset:
            return None
        return await read_anywhere(lambda: self._window(begin), self._run_blocking)

    # ---- as steps -------------------------------------------------------------------------------------------------

    def _records(self, units: Sequence[QueueUnit]) -> Steps[list[bytes | None]]:
        places = [self._commit_log.locate(unit.physical_offset, unit.size) for unit in units]
        reads: Reads = [(*place, unit.size) for place, unit in zip(places, units, strict=True) if place is not None]
        contents = iter((yield reads) if reads else ())
        records: list[bytes | None] = []
        for place, unit in zip(places, units, strict=True):
            content = next(contents) if place is not None else b""
            records.append(content if _is_record_of(unit, content) else None)
        return records

    def _window(self, begin: int) -> Steps[LogWindow]:
        commit_log = self._commit_log
        mapped_file = commit_log.files.find(begin)
        if mapped_file is None:
            return LogWindow((), commit_log.next_file_offset(begin))
        size = min(_WINDOW_SIZE, mapped_file.end_offset - begin, commit_log.wrote_offset - begin)
        (window,) = yield [(mapped_file, begin - mapped_file.base_offset, size)]
        found: list[tuple[int, int]] = []
        position = 0
        while position + _HEAD.size <= len(window):
            record_size, magic, sys_flag, prepared_offset = _HEAD.unpack_from(window, position)
            if magic != MESSAGE_MAGIC_CODE or record_size < _HEAD.size:
                break
            if sys_flag & (layout.SYS_FLAG_BORN_V6 | layout.SYS_FLAG_STORE_V6):
                at = position + _PREPARED_AT
                at += _V6_MORE * (bool(sys_flag & layout.SYS_FLAG_BORN_V6) + bool(sys_flag & layout.SYS_FLAG_STORE_V6))
                if at + _PREPARED.size > len(window):
                    break
                (prepared_offset,) = _PREPARED.unpack_from(window, at)
            found.append((begin + position, prepared_offset))
            position += record_size
        next_offset = begin + position
        if not found or _is_blank(window, position) or next_offset >= mapped_file.end_offset:
            # The file's BLANK; or no record where one must be: a damaged log, in which others may still be read.
            next_offset = commit_log.next_file_offset(begin)
        return LogWindow(found, next_offset)


def _units(queue: ConsumeQueue, queue_offset: int, count: int) -> Steps[list[QueueUnit]]:
    if count <= 0 or not queue.min_offset <= queue_offset < queue.max_offset:
        return []
    (content,) = yield [queue.locate(queue_offset, count)]
    fields = list(UNIT.iter_unpack(content[: len(content) // UNIT_SIZE * UNIT_SIZE]))
    codes: dict[int, int] = {}
    addresses = sorted(code for _, _, code in fields if is_ext_address(code))
    if addresses and queue.ext is not None:
        groups = queue.ext.groups(addresses)
        contents = (yield [place for _, place in groups]) if groups else []
        for (of_group, _), extensions in zip(groups, contents, strict=True):
            for address in of_group:
                unit = read_ext_unit(extensions, address - of_group[0])
                if unit is not None:
                    codes[address] = unit.tags_code
    return [
        QueueUnit(at, physical_offset, size, codes.get(code) if is_ext_address(code) else code)
        for at, (physical_offset, size, code) in enumerate(fields, queue_offset)
    ]


def _is_record_of(unit: QueueUnit, content: bytes) -> bool:
    if len(content) != unit.size or unit.size < _PLACE.size:
        return False
    return bool(_PLACE.unpack_from(content) == (unit.size, MESSAGE_MAGIC_CODE, unit.physical_offset))


def _is_blank(window: bytes, position: int) -> bool:
    if position + _SIZE_AND_MAGIC.size > len(window):
        return False
    return bool(_SIZE_AND_MAGIC.unpack_from(window, position)[1] == BLANK_MAGIC_CODE)
