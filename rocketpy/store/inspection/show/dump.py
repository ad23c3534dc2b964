"""Dump of any file of a store, item by item: ``rocketpy dump``. Shows items without validating relations between them.

The kind of a file (:class:`FileKind`) is derived from its directory and name, otherwise from its first bytes. A
directory is dumped file by file; all files of a log are dumped as one log. Read-only.
"""

from __future__ import annotations

import enum
import os.path
from collections.abc import Iterator, Sequence

import attrs

from rocketpy.errors import LocalProtocolError, RemoteProtocolError, StoreError
from rocketpy.protocol import fastjson
from rocketpy.protocol.stored_message import BLANK_MAGIC_CODE, MESSAGE_MAGIC_CODE, decode_message
from rocketpy.store import layout
from rocketpy.store.disk.interface import Disk
from rocketpy.store.disk.text_files import TEXT_SIZE_MAX
from rocketpy.store.index.file import ENTRY, ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE, unpack_index_header
from rocketpy.store.inspection.show.message_fields import body_fields, body_text, message_fields
from rocketpy.store.inspection.verify.index_inspection import layout_of
from rocketpy.store.inspection.verify.inventory import StoreFile, measured
from rocketpy.store.inspection.verify.log_walk import LogWalk, read_record
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.store.queue.extension import is_ext_address, read_ext_unit
from rocketpy.store.recovery import marker_files
from rocketpy.store.recovery.checkpoint import load_checkpoint
from rocketpy.store.recovery.recovery_note import NOTE_FIELDS

_BODY_SHOWN = 100
_CHUNK_UNITS = 4096
_RAW_SHOWN = 64
_FOREVER = 1 << 62
_MARKERS = frozenset(
    {layout.ABORT_FILE, layout.LOCK_FILE, layout.FAILED_SYNC_FILE, layout.RECOVERING_FILE, layout.CUT_FILE}
)


class FileKind(enum.Enum):
    """The kind of a file."""

    LOG = "CommitLog"
    QUEUE = "ConsumeQueue"
    EXT = "ConsumeQueueExt"
    INDEX = "IndexFile"
    CHECKPOINT = "checkpoint"
    ORDERLY_END = "orderly-end"
    RECOVERY_NOTE = "recovery-note"
    MARKER = "marker"
    TABLE = "JSON"


@attrs.frozen(kw_only=True)
class DumpOptions:
    """Selection of items, and the format of bodies."""

    begin: int | None = None
    """The first physical offset, queue offset or entry."""
    count: int | None = None
    """Limit of the items of each file, or of a log."""
    offset: int | None = None
    """Only the item at this physical offset, queue offset or entry; in a log also bytes that are no record."""
    is_full: bool = False
    as_hex: bool = False
    with_slots: bool = False
    as_json: bool = False
    """Bodies as in an export, instead of for display."""


@attrs.frozen
class Item:
    """One item of a file."""

    kind: str
    fields: dict[str, object]


class StoreDump:
    """One dump. :meth:`close` it."""

    def __init__(self, disk: Disk, options: DumpOptions) -> None:
        self._disk = disk
        self._options = options
        self._opened = ReadOnlyFiles(disk)

    def close(self) -> None:
        """Close every file."""
        self._opened.close()

    def items(self, path: str) -> Iterator[Item]:
        """Yield the items of a file or directory. StoreError if it is no file of a store, or cannot be opened."""
        path = path.rstrip("/") or "/"
        if self._disk.is_directory(path):
            yield from self._directory(path)
        else:
            kind = kind_of(path, self._opened)
            if kind is None:
                raise StoreError("no file of a store", path=path)
            yield from self._file(path, kind)
        for each in self._opened.unreadable:
            yield Item("unreadable", {"path": each.path, "position": each.position, "why": each.why})

    def _directory(self, path: str) -> Iterator[Item]:
        logs: list[str] = []
        for name in self._disk.list_directory(path):
            below = f"{path}/{name}"
            if self._disk.is_directory(below):
                yield from self._directory(below)
                continue
            kind = kind_of(below, self._opened)
            if kind is FileKind.LOG:
                logs.append(below)
            elif kind is not None:
                yield from self._file(below, kind)
            else:
                yield Item("file", {"path": below, "holds": "foreign", "length": self._disk.file_size(below)})
        if logs:
            yield from self._log(logs)

    def _file(self, path: str, kind: FileKind) -> Iterator[Item]:
        if kind is FileKind.LOG:
            yield from self._log([path])
            return
        yield Item("file", {"path": path, "holds": kind.value, "length": self._disk.file_size(path)})
        if kind is FileKind.QUEUE:
            yield from self._units(path)
        elif kind is FileKind.EXT:
            yield from self._ext_units(path)
        elif kind is FileKind.INDEX:
            yield from self._index(path)
        elif kind is FileKind.CHECKPOINT:
            yield from self._checkpoint(path)
        elif kind is FileKind.ORDERLY_END:
            yield _orderly_end(self._opened.read(path, 0, 4096).decode("utf-8", "replace"))
        elif kind is FileKind.RECOVERY_NOTE:
            yield _recovery_note(self._opened.read(path, 0, 4096).decode("utf-8", "replace"))
        elif kind is FileKind.TABLE:
            yield self._table(path)

    # ---- the log --------------------------------------------------------------------------------------------------

    def _log(self, paths: Sequence[str]) -> Iterator[Item]:
        options = self._options
        files = self._log_files(paths)
        if options.offset is not None:
            yield self._record_at(files, options.offset)
            return
        for file in files:
            fields = {"path": file.path, "holds": FileKind.LOG.value, "begin": file.base_offset, "length": file.length}
            yield Item("file", fields)
        walk = LogWalk(files, self._opened, begin_offset=options.begin)
        left = _FOREVER if options.count is None else options.count
        for found in walk.slices():
            for record in found.records:
                if not left:
                    return
                left -= 1
                yield self._record(files, record.physical_offset, record.size)
            damage = found.damage
            if damage is not None and damage.begin_offset != options.begin:
                yield Item(
                    "damage",
                    {
                        "physical_offset": damage.begin_offset,
                        "size": damage.size,
                        "path": damage.path,
                        "position": damage.position,
                        "why": damage.why,
                    },
                )
        after = next((each.why for each in walk.tail if not each.is_zero), "free space" if walk.tail else "nothing")
        yield Item("end", {"physical_offset": walk.end_offset, "behind": after})

    def _log_files(self, paths: Sequence[str]) -> list[StoreFile]:
        listed = []
        for path in paths:
            base_offset = layout.base_offset_of(os.path.basename(path)) or 0
            listed.append((path, base_offset, self._disk.file_size(path)))
        files, _ = measured(sorted(listed, key=lambda each: each[1]))
        return files

    def _record(self, files: Sequence[StoreFile], physical_offset: int, size: int) -> Item:
        file = next(each for each in files if physical_offset < each.end_offset)
        content = self._opened.read(file.path, physical_offset - file.base_offset, size)
        try:
            message = decode_message(content)
        except (RemoteProtocolError, LocalProtocolError):
            message = decode_message(content, decompress=False)
        return Item("record", message_fields(message) | self._body(message.body))

    def _record_at(self, files: Sequence[StoreFile], offset: int) -> Item:
        record = read_record(files, self._opened, offset)
        if record is not None:
            return self._record(files, offset, record.size)
        file = next((each for each in files if each.base_offset <= offset < each.end_offset), None)
        if file is None:
            return Item("nothing", {"physical_offset": offset, "why": "in none of the files"})
        position = offset - file.base_offset
        raw = self._opened.read(file.path, position, _RAW_SHOWN)
        size, magic = int.from_bytes(raw[:4], "big"), int.from_bytes(raw[4:8], "big", signed=True)
        where = {"physical_offset": offset, "path": file.path, "position": position}
        if magic == BLANK_MAGIC_CODE:
            return Item("blank", {**where, "size": size})
        why = "a damaged record" if magic == MESSAGE_MAGIC_CODE else "no record"
        return Item("nothing", {**where, "why": why, "bytes": f"0x{raw.hex()}"})

    def _body(self, body: bytes) -> dict[str, object]:
        options = self._options
        if options.as_json and options.is_full:
            return body_fields(body)
        return {"body": body_text(body, size_max=None if options.is_full else _BODY_SHOWN, as_hex=options.as_hex)}

    # ---- queues ---------------------------------------------------------------------------------------------------

    def _range(self, first: int, end: int) -> range:
        """Return the numbers of the selected items of a file."""
        options = self._options
        if options.offset is not None:
            return range(max(first, options.offset), min(end, options.offset + 1))
        begin = max(first, options.begin or 0)
        return range(begin, end if options.count is None else min(end, begin + options.count))

    def _units(self, path: str) -> Iterator[Item]:
        first = (layout.base_offset_of(os.path.basename(path)) or 0) // layout.UNIT_SIZE
        wanted = self._range(first, first + self._disk.file_size(path) // layout.UNIT_SIZE)
        for begin in range(wanted.start, wanted.stop, _CHUNK_UNITS):
            count = min(_CHUNK_UNITS, wanted.stop - begin)
            content = self._opened.read(path, (begin - first) * layout.UNIT_SIZE, count * layout.UNIT_SIZE)
            content = content[: len(content) // layout.UNIT_SIZE * layout.UNIT_SIZE]
            for number, (physical_offset, size, tags_code) in enumerate(layout.UNIT.iter_unpack(content), begin):
                if (physical_offset, size, tags_code) == (0, 0, 0) and self._options.offset is None:
                    continue  # free space
                fields: dict[str, object] = {
                    "queue_offset": number,
                    "physical_offset": physical_offset,
                    "size": size,
                    "tags_code": tags_code,
                }
                if is_ext_address(tags_code):
                    fields["ext_offset"] = tags_code + layout.EXT_ADDRESS_SIGN
                yield Item("unit", fields)

    def _ext_units(self, path: str) -> Iterator[Item]:
        options = self._options
        base_offset = layout.base_offset_of(os.path.basename(path)) or 0
        content = self._opened.read(path, 0, self._disk.file_size(path))
        position, left = 0, _FOREVER if options.count is None else options.count
        while left and (unit := read_ext_unit(content, position)) is not None:
            offset = base_offset + position
            if offset >= (options.begin or 0) and options.offset in (None, offset):
                left -= 1
                yield Item(
                    "ext-unit",
                    {
                        "ext_offset": offset,
                        "size": unit.size,
                        "tags_code": unit.tags_code,
                        "store_timestamp": unit.store_timestamp_ms,
                        "bit_map": f"0x{unit.bit_map.hex()}",
                    },
                )
            position += unit.size

    # ---- the index ------------------------------------------------------------------------------------------------

    def _index(self, path: str) -> Iterator[Item]:
        header = unpack_index_header(self._opened.read(path, 0, HEADER_SIZE))
        index_layout = layout_of(self._opened, path, self._disk.file_size(path))
        fields: dict[str, object] = dict(attrs.asdict(header))
        if index_layout is None:
            yield Item("index-header", {**fields, "slots": "unknown: nothing fits the newest entry"})
            return
        yield Item("index-header", {**fields, "slots": index_layout.slot_count, "room": index_layout.entry_count})
        if self._options.with_slots:
            content = self._opened.read(path, HEADER_SIZE, index_layout.slot_count * SLOT_SIZE)
            for number in range(index_layout.slot_count):
                newest = int.from_bytes(content[number * SLOT_SIZE : (number + 1) * SLOT_SIZE], "big", signed=True)
                if newest:
                    yield Item("slot", {"number": number, "newest_entry": newest})
        for number in self._range(1, min(header.index_count, index_layout.entry_count)):
            content = self._opened.read(path, index_layout.entries_position + number * ENTRY_SIZE, ENTRY_SIZE)
            if len(content) < ENTRY_SIZE:
                return
            hashed, physical_offset, seconds, older = ENTRY.unpack(content)
            yield Item(
                "entry",
                {
                    "number": number,
                    "slot": hashed % index_layout.slot_count,
                    "key_hash": hashed,
                    "physical_offset": physical_offset,
                    "store_timestamp": header.begin_timestamp_ms + seconds * 1000,
                    "older_entry": older,
                },
            )

    # ---- small files ----------------------------------------------------------------------------------------------

    def _checkpoint(self, path: str) -> Iterator[Item]:
        checkpoint = load_checkpoint(self._disk, path)
        physic_ms, logics_ms, index_ms = checkpoint.times_in_file
        fields: dict[str, object] = {
            "physic_msg_timestamp": physic_ms,
            "logics_msg_timestamp": logics_ms,
            "index_msg_timestamp": index_ms,
        }
        yield Item("checkpoint", fields if checkpoint.ends is None else fields | attrs.asdict(checkpoint.ends))

    def _table(self, path: str) -> Item:
        size = self._disk.file_size(path)
        if size > TEXT_SIZE_MAX:
            return Item("damage", {"path": path, "why": f"{size} bytes, expected at most {TEXT_SIZE_MAX}"})
        content = self._opened.read(path, 0, size)
        try:
            value = fastjson.loads(content, references=False)
        except RemoteProtocolError as failure:
            return Item("damage", {"path": path, "why": str(failure)})
        return Item("table", {"text": fastjson.dumps(value, standard=True)})


def kind_of(path: str, opened: ReadOnlyFiles) -> FileKind | None:
    """Return the kind of a file by its name and directory; None if it is no file of a store."""
    directory, name = os.path.split(os.path.abspath(path))
    above = os.path.basename(os.path.dirname(os.path.dirname(directory)))
    if layout.base_offset_of(name) is not None:
        if above == layout.CONSUME_QUEUE_DIRECTORY:
            return FileKind.QUEUE
        if above == layout.CONSUME_QUEUE_EXT_DIRECTORY:
            return FileKind.EXT
        return _numbered_kind(path, opened)
    if layout.is_index_file_name(name):
        return FileKind.INDEX
    if name == layout.CHECKPOINT_FILE:
        return FileKind.CHECKPOINT
    if name.removesuffix(".bak") == layout.ORDERLY_END_FILE:
        return FileKind.ORDERLY_END
    if name == layout.RECOVERY_NOTE_FILE:
        return FileKind.RECOVERY_NOTE
    if name.removesuffix(".bak").endswith(".json"):
        return FileKind.TABLE
    return FileKind.MARKER if name in _MARKERS else None


def _orderly_end(text: str) -> Item:
    return _words_of_line("orderly-end", marker_files.FIELDS, text)


def _recovery_note(text: str) -> Item:
    return _words_of_line("recovery-note", NOTE_FIELDS, text)


def _words_of_line(kind: str, names: Sequence[str], text: str) -> Item:
    """Return the words of a line by their names; older or newer versions may have fewer or more."""
    words = text.split()
    fields: dict[str, object] = dict(zip(names, words, strict=False))
    if len(words) > len(names):
        fields["more"] = " ".join(words[len(names) :])
    return Item(kind, fields)


def _numbered_kind(path: str, opened: ReadOnlyFiles) -> FileKind:
    """Distinguish a log file from a queue file that was copied out of its directory."""
    head = opened.read(path, 0, layout.UNIT_SIZE)
    magic = int.from_bytes(head[4:8], "big", signed=True)
    if magic in (MESSAGE_MAGIC_CODE, BLANK_MAGIC_CODE) or len(head) < layout.UNIT_SIZE:
        return FileKind.LOG
    physical_offset, size, _ = layout.UNIT.unpack(head)
    return FileKind.QUEUE if physical_offset >= 0 and 0 < size <= layout.PRE_BLANK_SIZE else FileKind.LOG
