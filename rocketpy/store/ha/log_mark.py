"""Marks of places in a log: what stands for a place is true on a log that has the record which ends there.

A table beside the log (consumer offsets, progress of delayed messages, deletions of topics) counts what the log has. An
offset in bytes alone does not say of which log: one that was cut, or that lost its end with the power, and grew past
that offset since, has the place and not the records. So a mark also has the digest of the record that ends there. A
record contains its own offset, its times and its hosts, so that no two logs have the same one unless they were one log
when it was written; and a log that has a record has all that came before it.

Whoever keeps such a table takes a mark after the table's content and before it is written; a reader asks whether the
log has it.
"""

from __future__ import annotations

from typing import TypeGuard

import attrs

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.fastjson.file_notes import FileNotes
from rocketpy.store.ha.divergence import RecordRange
from rocketpy.store.ha.record_digest import RecordDigests, digest_of
from rocketpy.store.ha.recorded_log import CommitLogRecords
from rocketpy.store.log.commit_log import CommitLog

_INT64_MAX = (1 << 63) - 1
_DIGEST_SIZE = 64
_MARK_KEYS = ("digest", "offset", "size")
_DIGITS = frozenset("0123456789abcdef")


@attrs.frozen
class LogMark:
    """The end of a record, in bytes, the record's size and its SHA-256 in hexadecimal digits.

    >>> LogMark().is_beginning, LogMark(374, 187, "e3b0").is_beginning
    (True, False)
    """

    offset: int = 0
    size: int = 0
    digest: str = ""

    @property
    def is_beginning(self) -> bool:
        """Whether it marks the beginning of a log, which every log has."""
        return self.offset == 0

    def as_json(self) -> dict[str, object]:
        """Return its form in files and answers."""
        return {"digest": self.digest, "offset": self.offset, "size": self.size}

    @classmethod
    def from_json(cls, value: object, where: str) -> LogMark:
        """Return the mark in a parsed file or answer; RemoteProtocolError names ``where`` when it is malformed."""
        if isinstance(value, dict):
            offset, size, digest = value.get("offset"), value.get("size"), value.get("digest")
            if _is_number(offset) and _is_number(size) and isinstance(digest, str):
                return cls.checked(offset, size, digest, where)
        raise RemoteProtocolError(f"{where}: expected offset, size and digest of a record, found {str(value)[:200]!r}")

    @classmethod
    def checked(cls, offset: int, size: int, digest: str, where: str) -> LogMark:
        """Return the mark of what a file or a peer says; RemoteProtocolError names ``where`` when it cannot be one."""
        is_record = 0 < size <= offset <= _INT64_MAX and len(digest) == _DIGEST_SIZE and _DIGITS.issuperset(digest)
        if not is_record and (offset, size, digest) != (0, 0, ""):
            raise RemoteProtocolError(
                f"{where}: expected the end of a record, its size and SHA-256, found {offset}, {size}, {digest[:80]!r}"
            )
        return cls(offset, size, digest)


def marks_in(content: object, key: str, notes: FileNotes) -> dict[str, LogMark]:
    """Return the marks by name that a parsed file has under its one key; RemoteProtocolError for a malformed one."""
    marks = content.get(key) if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(marks, dict):
        raise RemoteProtocolError(f"expected an object with {key}")
    notes.unknown_keys(content, (key,))
    found = {}
    for name, mark in marks.items():
        found[str(name)] = LogMark.from_json(mark, f"{key}: {name!s:.128}")
        notes.unknown_keys(mark, _MARK_KEYS, f"{key}.{name}")
    return found


class LogMarks:
    """The marks of one open log."""

    def __init__(self, commit_log: CommitLog, records: CommitLogRecords, digests: RecordDigests) -> None:
        self._commit_log = commit_log
        self._records = records
        self._digests = digests
        self._last = LogMark()  # a mark that this log has

    async def now(self) -> LogMark:
        """Return the mark of the last record that is in files now, whatever is appended meanwhile.

        It reads what the last burst wrote. The first time after an opening that appended nothing since it walks from
        the last mark that the log was found to have, or else the last file.
        """
        begin, end = max(self._commit_log.last_write_offset, self._last.offset), self._commit_log.wrote_offset
        if self._last.offset == end:
            return self._last
        record = await self._last_record(begin, end)
        if record is not None:
            content = await self._records.compared_bytes(record)
            self._last = max(self._last, LogMark(record.end_offset, record.size, digest_of(content)), key=_offset_of)
        return self._last

    async def has(self, mark: LogMark) -> bool:
        """Whether the log has the record that a mark names; one that has expired counts as had."""
        if mark.is_beginning or mark.offset <= self._commit_log.min_offset:
            return mark.offset <= self._commit_log.wrote_offset
        has_record = await self._digests.has(mark.offset - mark.size, mark.size, mark.digest)
        if has_record and mark.offset > self._last.offset:
            self._last = mark
        return has_record

    async def latest(self, marks: list[LogMark]) -> LogMark:
        """Return the last one of several marks of one log that this log has: it has all before that one too."""
        for mark in sorted(marks, key=_offset_of, reverse=True):
            if await self.has(mark):
                return mark
        return LogMark()

    async def _last_record(self, begin: int, end: int) -> RecordRange | None:
        """Return the last record, no BLANK, that ends at ``end`` or before; None if none does after ``begin``."""
        last = None
        if begin == 0:
            begins = [each for each in self._records.file_offsets if each < end]
            begin = begins[-1] if begins else end
        while begin < end:
            records = await self._records.records_from(begin)
            inside = [each for each in records if each.end_offset <= end]
            last = next((each for each in reversed(inside) if not each.is_blank), last)
            if not inside or inside[-1].end_offset >= end:
                break
            begin = inside[-1].end_offset
        return last


def _offset_of(mark: LogMark) -> int:
    return mark.offset


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
