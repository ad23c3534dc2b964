"""Compares the entries of the index with the records of the log, in the same pass as the queues.

Entries are in log order, so memory is one chunk of them per file. The number of slots is not stored in a file: it is
found by trial, because the slot of the newest entry must point to that entry. A start does not search on purpose: it
takes the configured layout or that of Java by the size alone, and skips a file of any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from rocketpy.protocol.properties import ALL_INDEX_KEYS
from rocketpy.protocol.stored_message import CheckedMessage
from rocketpy.store.index.file import (
    ENTRY,
    ENTRY_SIZE,
    HEADER_SIZE,
    SLOT,
    SLOT_SIZE,
    IndexHeader,
    IndexLayout,
    unpack_index_header,
)
from rocketpy.store.index.hash import hash_index_keys
from rocketpy.store.inspection.repair.placeholders import is_placeholder
from rocketpy.store.inspection.verify.findings import NOTHING, Finding, Severity
from rocketpy.store.inspection.verify.inventory import IndexFiles, Inventory
from rocketpy.store.inspection.verify.log_walk import Damage
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles

_CHUNK_ENTRIES = 4096
_ENTRIES_PER_SLOT = 4  # 20 million entries, 5 million slots; smaller files are usually made in proportion
_KNOWN_SLOT_COUNTS = (5_000_000, 250_000)  # of a Java broker, and of ours when it is started without a file
_SEARCH_SLOTS_MAX = 20_000
_WORDS_PER_ENTRY = ENTRY_SIZE // SLOT_SIZE
_WINDOW_SIZE = 1 << 20
_MOVE = "moves it and the later ones away; the next start rebuilds them from the log"
_START = "trusts it after a clean shutdown, may rebuild it after a crash: queries by key miss messages"


def layout_of(opened: ReadOnlyFiles, path: str, size: int) -> IndexLayout | None:
    """Return the layout of a file, derived from its size, header and entries; None if no layout is consistent."""
    header = unpack_index_header(opened.read(path, 0, HEADER_SIZE))
    room = (size - HEADER_SIZE) // SLOT_SIZE  # slots + 5 * entries
    usual = room // (1 + _ENTRIES_PER_SLOT * _WORDS_PER_ENTRY)
    likely = _layout(usual, size)
    if likely is not None:
        # One of the three may be damaged itself.
        count = sum(_fits(opened, path, likely, header))
        if count == 3 or (count == 2 and _used_slots(opened, path, usual) == header.hash_slot_count):
            return likely
    if header.index_count <= 1:
        return _layout(room % _WORDS_PER_ENTRY or _WORDS_PER_ENTRY, size)
    for slot_count in _possible_slot_counts(opened, path, size, header):
        index_layout = _layout(slot_count, size)
        if (
            index_layout is not None
            and all(_fits(opened, path, index_layout, header))
            and _used_slots(opened, path, slot_count) == header.hash_slot_count
        ):
            return index_layout
    return None


def _layout(slot_count: int, size: int) -> IndexLayout | None:
    """Return the layout with so many slots of a file of a size, None if there is none."""
    room = (size - HEADER_SIZE) // SLOT_SIZE
    if slot_count <= 0 or (room - slot_count) % _WORDS_PER_ENTRY or room <= slot_count:
        return None
    index_layout = IndexLayout(slot_count, (room - slot_count) // _WORDS_PER_ENTRY)
    return index_layout if index_layout.file_size == size else None


def _possible_slot_counts(opened: ReadOnlyFiles, path: str, size: int, header: IndexHeader) -> Iterator[int]:
    """Yield possible numbers of slots: the newest entry is where the file contains its physical offset."""
    yield from _KNOWN_SLOT_COUNTS
    wanted = header.end_physical_offset.to_bytes(8, "big", signed=True)
    if not any(wanted):  # one message at the very beginning of the log: its offset, 0, cannot be searched for
        yield from range(_WORDS_PER_ENTRY, min(size // SLOT_SIZE, _SEARCH_SLOTS_MAX))
        return
    before = HEADER_SIZE + (header.index_count - 1) * ENTRY_SIZE + SLOT_SIZE  # the slots left out
    for begin in range(HEADER_SIZE, size, _WINDOW_SIZE):
        content = opened.read(path, begin, _WINDOW_SIZE + len(wanted) - 1)
        found = content.find(wanted)
        while found >= 0:
            if (begin + found - before) % SLOT_SIZE == 0:
                yield (begin + found - before) // SLOT_SIZE
            found = content.find(wanted, found + 1)


def _used_slots(opened: ReadOnlyFiles, path: str, slot_count: int) -> int:
    content = opened.read(path, HEADER_SIZE, slot_count * SLOT_SIZE)
    return sum(1 for (newest,) in SLOT.iter_unpack(content[: len(content) // SLOT_SIZE * SLOT_SIZE]) if newest)


def _fits(opened: ReadOnlyFiles, path: str, index_layout: IndexLayout, header: IndexHeader) -> tuple[bool, bool, bool]:
    """Whether the first and the last entry are those of the header, and the last one that of its slot."""
    count = header.index_count
    if count <= 1:
        return True, True, True
    first = opened.read(path, index_layout.entries_position + ENTRY_SIZE, ENTRY_SIZE)
    last = opened.read(path, index_layout.entries_position + (count - 1) * ENTRY_SIZE, ENTRY_SIZE)
    if len(first) < ENTRY_SIZE or len(last) < ENTRY_SIZE or not any(last):
        return False, False, False
    hashed, last_offset, _, _ = ENTRY.unpack(last)
    first_offset: int = ENTRY.unpack(first)[1]
    slot = b""
    if hashed >= 0:
        slot = opened.read(path, HEADER_SIZE + hashed % index_layout.slot_count * SLOT_SIZE, SLOT_SIZE)
    return (
        first_offset == header.begin_physical_offset,
        last_offset == header.end_physical_offset,
        int.from_bytes(slot, "big") == count - 1,
    )


@attrs.define(eq=False)
class _File:
    """A file in the pass."""

    path: str
    layout: IndexLayout
    header: IndexHeader
    next_entry: int = 1
    chunk: bytes = b""
    chunk_first: int = 0
    why: str = ""  # the first thing that is wrong
    where: int = 0
    wrong_count: int = 0


class IndexInspection:
    """One pass."""

    def __init__(self, inventory: Inventory, opened: ReadOnlyFiles) -> None:
        self._opened = opened
        self._inventory = inventory
        self._unknown: list[IndexFiles] = []
        self._files: list[_File] = []
        for each in inventory.index_files:
            index_layout = layout_of(opened, each.path, each.size)
            header = unpack_index_header(opened.read(each.path, 0, HEADER_SIZE))
            if index_layout is None or header.index_count > index_layout.entry_count:
                self._unknown.append(each)
            else:
                self._files.append(_File(each.path, index_layout, header))
        self.missing_count = 0
        self.first_missing = -1
        self.entry_count = 0
        self.bad_from: str | None = None
        """The first file that must be rebuilt."""
        self.rebuild_offset: int | None = None
        """The physical offset from which the index must be rebuilt."""

    @property
    def end_offset(self) -> int:
        """Physical offset of the newest entry's record; -1 without any."""
        return max((each.header.end_physical_offset for each in self._files), default=-1)

    def complete_until(self, index_timestamp_ms: int) -> tuple[int, int]:
        """Return up to which time good and full files have everything, at most the given one, and their end in the log.

        (0, 0) if there is no such file.
        """
        good = [
            each.header
            for each in self._files
            if (self.bad_from is None or each.path < self.bad_from)
            and each.header.index_count >= each.layout.entry_count
            and each.header.end_timestamp_ms <= index_timestamp_ms
        ]
        return (good[-1].end_timestamp_ms, good[-1].end_physical_offset) if good else (0, 0)

    def see(self, records: Sequence[CheckedMessage]) -> None:
        """Check the entries of valid records, in log order."""
        if not self._files:
            return
        keyed: list[tuple[CheckedMessage, int]] = []
        topics: list[str] = []
        keys: list[bytes] = []
        for record in records:
            found = () if is_placeholder(record) else record.index_keys(ALL_INDEX_KEYS)
            keyed.append((record, len(found)))
            topics += [record.topic] * len(found)
            keys += found
        hashes = iter(hash_index_keys(topics, keys))
        for record, count in keyed:
            if is_placeholder(record):
                self._skip(record.physical_offset, record.physical_offset + record.size)
            else:
                self._compare(record.physical_offset, [next(hashes) for _ in range(count)])

    def see_damage(self, damage: Damage) -> None:
        """Skip the entries of messages that were lost in a damaged range."""
        self._skip(damage.begin_offset, damage.end_offset)

    def _skip(self, begin_offset: int, end_offset: int) -> None:
        for file in self._files:
            self._look(file, begin_offset - 1, [])
            while (entry := self._entry(file)) is not None and entry[1] < end_offset:
                self._next(file)

    def _compare(self, physical_offset: int, hashes: list[int]) -> None:
        has_entry = False
        for file in self._files:
            # Usually only one file has entries near this offset; those of a file that a start skips may be duplicates.
            if file.header.begin_physical_offset <= physical_offset or file.next_entry > 1:
                has_entry |= self._look(file, physical_offset, hashes)
        if hashes and not has_entry:
            if self.first_missing < 0:
                self.first_missing = physical_offset
            self.missing_count += 1

    def _look(self, file: _File, physical_offset: int, hashes: list[int]) -> bool:
        """Check the entries of a file up to a record; return whether the record has one."""
        has_entry = False
        while (entry := self._entry(file)) is not None and (
            entry[1] <= physical_offset or self._is_out_of_order(file, physical_offset)
        ):
            if entry[1] > physical_offset:
                _wrong(file, f"an entry for {entry[1]} before one for {physical_offset} or less")
            elif entry[1] < physical_offset or not hashes:
                if entry[1] >= self._inventory.log_min_offset:
                    _wrong(file, f"an entry for {entry[1]}, where no record with keys is")
            elif entry[0] not in hashes:
                _wrong(file, f"an entry for {entry[1]} with another key")
            else:
                has_entry = True
            if not 0 <= entry[3] < file.next_entry:
                _wrong(file, f"an entry that goes on to {entry[3]}")
            self._next(file)
        return has_entry

    def _next(self, file: _File) -> None:
        file.next_entry += 1
        self.entry_count += 1

    def _is_out_of_order(self, file: _File, physical_offset: int) -> bool:
        """Whether the next entry belongs before this one: then this one's physical offset is wrong."""
        position = (file.next_entry + 1 - file.chunk_first) * ENTRY_SIZE
        if file.next_entry + 1 >= file.header.index_count or position >= len(file.chunk):
            return False
        following: int = ENTRY.unpack_from(file.chunk, position)[1]
        return following <= physical_offset

    def _entry(self, file: _File) -> tuple[int, int, int, int] | None:
        if file.next_entry >= file.header.index_count:
            file.chunk = b""
            return None
        position = (file.next_entry - file.chunk_first) * ENTRY_SIZE
        if not 0 <= position < len(file.chunk):
            file.chunk_first, position = file.next_entry, 0
            begin = file.layout.entries_position + file.next_entry * ENTRY_SIZE
            content = self._opened.read(file.path, begin, _CHUNK_ENTRIES * ENTRY_SIZE)
            file.chunk = content[: len(content) // ENTRY_SIZE * ENTRY_SIZE]
            if not file.chunk:
                _wrong(file, "the end of the file")
                file.next_entry = file.header.index_count
                return None
        return ENTRY.unpack_from(file.chunk, position)

    # ---- the end of the pass --------------------------------------------------------------------------------------

    def finish(self, log_end_offset: int, *, is_clean: bool, is_live: bool) -> Iterator[Finding]:
        """Yield what is wrong."""
        for file in self._files:
            while (entry := self._entry(file)) is not None:
                if entry[1] < log_end_offset:
                    _wrong(file, f"an entry for {entry[1]}, where no record with keys is")
                self._next(file)
        for each in self._unknown:
            self._is_bad(each.path)
            yield _finding(each.path, 0, "slots and entries as its length says", "others")
        for file in self._files:
            header = file.header
            if header.end_physical_offset >= log_end_offset and header.index_count > 1:
                if is_live:
                    continue
                yield Finding(
                    severity=Severity.NOTICE,
                    path=file.path,
                    position=24,
                    expected=f"messages before the log's end at {log_end_offset}",
                    found=f"one at {header.end_physical_offset}",
                    start="removes and rebuilds it",
                    repair=NOTHING,
                )
            elif file.why:
                self._is_bad(file.path)
                found = f"{file.why}, and {file.wrong_count - 1} like it" if file.wrong_count > 1 else file.why
                yield _finding(
                    file.path, file.where, "entries of the log's records, each linking to an older one", found
                )
            elif not _is_sane(header):
                self._is_bad(file.path)
                yield _finding(file.path, 0, "a header whose begin is before its end", str(header))
        if self.missing_count and self._files and not is_live:
            yield Finding(
                severity=Severity.NOTICE,
                path=f"{self._inventory.root}/index",
                expected=f"entries for {self.missing_count} messages from {self.first_missing} on",
                found="none: queries by key do not find them",
                start=NOTHING if is_clean else "rebuilds those after the last full file",
                repair=NOTHING,
            )

    def _is_bad(self, path: str) -> None:
        if self.bad_from is None or path < self.bad_from:
            self.bad_from = path
            before = [each.header.end_physical_offset for each in self._files if each.path < path]
            self.rebuild_offset = max(before, default=0)


def _wrong(file: _File, why: str) -> None:
    if not file.why:
        file.why = why
        file.where = file.layout.entries_position + file.next_entry * ENTRY_SIZE
    file.wrong_count += 1


def _is_sane(header: IndexHeader) -> bool:
    return (
        header.begin_timestamp_ms >= 0
        and 0 <= header.begin_physical_offset <= header.end_physical_offset
        and 0 <= header.hash_slot_count < max(1, header.index_count)
    )


def _finding(path: str, position: int, expected: str, found: str) -> Finding:
    return Finding(
        severity=Severity.WARNING,
        path=path,
        position=position,
        expected=expected,
        found=found,
        start=_START,
        repair=_MOVE,
    )
