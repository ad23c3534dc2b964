"""The steps of a repair: their descriptions, and their crash-safe execution.

Each step first makes a durable backup of the bytes that it changes, and is durable itself on return. Steps are
idempotent: executed a second time, or again after a crash in the middle, a step leads to the same store.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable
from typing import Protocol

import attrs

from rocketpy.store import layout
from rocketpy.store.disk.interface import Disk
from rocketpy.store.disk.text_files import persist_text, read_text
from rocketpy.store.inspection.repair.kept_pieces import KeptPieces
from rocketpy.store.inspection.repair.log_filling import Hole, LogFilling, Piece
from rocketpy.store.inspection.verify.inventory import QueueFiles, StoreFile
from rocketpy.store.layout import UNIT_SIZE
from rocketpy.store.recovery.checkpoint import CHECKPOINT_SIZE, DurableEnds, StoreCheckpoint
from rocketpy.store.recovery.marker_files import AbortFile

_CHUNK_SIZE = 1 << 20
STAGING_SUFFIX = ".repaired"


@attrs.frozen
class RepairContext:
    """Shared context of the steps of one repair."""

    disk: Disk
    root: str
    kept: KeptPieces
    filling: LogFilling
    """Another pass over the holes, in the order of the steps."""


class RepairStep(Protocol):
    """One step. ``begin`` and ``end`` are positions in the file, None for the whole file."""

    @property
    def path(self) -> str:
        """The file or directory."""
        ...

    @property
    def begin(self) -> int | None:
        """The first byte that changes."""
        ...

    @property
    def end(self) -> int | None:
        """The position after the last byte that changes."""
        ...

    @property
    def does(self) -> str:
        """A description of the change."""
        ...

    @property
    def why(self) -> str:
        """The reason."""
        ...

    @property
    def kept_bytes(self) -> int:
        """Upper bound of the backup's size; moved files need no additional space."""
        ...

    def apply(self, context: RepairContext) -> None:
        """Do it; durable on return."""
        ...


@attrs.frozen(kw_only=True)
class MoveAway:
    """Takes a file or directory out of the store."""

    path: str
    why: str
    begin: None = None
    end: None = None
    does: str = "moves it away"
    kept_bytes: int = 0

    def apply(self, context: RepairContext) -> None:
        """Move it."""
        if context.disk.exists(self.path):
            context.kept.move(self.path, self.why)


@attrs.frozen(kw_only=True)
class SetLength:
    """Gives a file its nominal length."""

    path: str
    size: int
    length: int
    item_size: int = 1
    """A partial item at the end is removed."""
    why: str = "a Java broker refuses files of other lengths, and so does a start where bytes are missing"

    @property
    def begin(self) -> int:
        """The smaller of the two lengths."""
        return min(self.size, self.length)

    @property
    def end(self) -> int:
        """The larger of the two lengths."""
        return max(self.size, self.length)

    @property
    def kept_bytes(self) -> int:
        """The size of the truncated part."""
        return max(0, self.length - self.size)

    @property
    def does(self) -> str:
        """Extends or truncates."""
        return f"extends it by zeros to {self.size}" if self.length < self.size else f"truncates it to {self.size}"

    def apply(self, context: RepairContext) -> None:
        """Back up the truncated part, then set the length."""
        whole = min(self.size, self.length - self.length % self.item_size)
        context.kept.keep(self.path, whole, self.length, self.why)
        file = context.disk.open(self.path)
        try:
            file.truncate(whole)
            file.truncate(self.size)
            file.sync()
        finally:
            file.close()


@attrs.frozen(kw_only=True)
class SetTime:
    """Gives a record a plausible storeTimestamp."""

    path: str
    begin: int
    timestamp_ms: int
    why: str
    kept_bytes: int = 8

    @property
    def end(self) -> int:
        """The position after the eight bytes."""
        return self.begin + 8

    @property
    def does(self) -> str:
        """With the timestamp."""
        return f"writes the storeTimestamp {self.timestamp_ms}"

    def apply(self, context: RepairContext) -> None:
        """Write it."""
        context.kept.keep(self.path, self.begin, self.end, self.why)
        file = context.disk.open(self.path)
        try:
            file.write(self.begin, self.timestamp_ms.to_bytes(8, "big"))
            file.sync()
        finally:
            file.close()


@attrs.frozen(kw_only=True)
class FillHole:
    """Fills a damaged range of the log with records."""

    hole: Hole
    placeholder_count: int
    why: str

    @property
    def path(self) -> str:
        """The log file."""
        return self.hole.path

    @property
    def begin(self) -> int:
        """The position at which the damage begins."""
        return self.hole.begin_offset - self.hole.base_offset

    @property
    def end(self) -> int:
        """The position after the damage."""
        return self.hole.end_offset - self.hole.base_offset

    @property
    def kept_bytes(self) -> int:
        """The size of the overwritten range."""
        return 0 if self.hole.is_new_file else self.end - self.begin

    @property
    def does(self) -> str:
        """With the number of messages that are known to be lost."""
        what = f"{self.placeholder_count} placeholders of lost messages, the rest is covered by fillers"
        return f"creates a file of {what}" if self.hole.is_new_file else f"writes {what}"

    def apply(self, context: RepairContext) -> None:
        """Write the records; a new file appears atomically."""
        if self.hole.is_new_file:
            self._make_file(context)
            return
        context.kept.keep(self.path, self.begin, self.end, self.why)
        file = context.disk.open(self.path)
        try:
            buffer = bytearray()
            position = self.begin
            for part in _bytes_of(context.filling.pieces(self.hole)):
                buffer += part
                if len(buffer) >= _CHUNK_SIZE:
                    file.write(position, buffer)
                    position += len(buffer)
                    buffer.clear()
            file.write(position, buffer)
            assert position + len(buffer) == self.end, (self, position, len(buffer))
            file.sync()
        finally:
            file.close()

    def _make_file(self, context: RepairContext) -> None:
        disk = context.disk
        directory = os.path.dirname(self.path)
        staging_path = directory + STAGING_SUFFIX
        file = disk.open(staging_path, create=True)
        try:
            file.truncate(0)
            file.truncate(self.hole.end_offset - self.hole.base_offset)
            for piece in context.filling.pieces(self.hole):
                position = piece.offset - self.hole.base_offset
                file.write(position, piece.head)
                if piece.tail:
                    file.write(position + len(piece.head) + piece.zero_size, piece.tail)
            file.sync()
        finally:
            file.close()
        disk.rename(staging_path, self.path)
        disk.sync_directory(directory)


def _bytes_of(pieces: Iterable[Piece]) -> Iterable[bytes]:
    for piece in pieces:
        yield piece.head
        for begin in range(0, piece.zero_size, _CHUNK_SIZE):
            yield bytes(min(_CHUNK_SIZE, piece.zero_size - begin))
        yield piece.tail


@attrs.frozen(kw_only=True)
class RewindCheckpoint:
    """Makes the next start recover log and queues from an offset on: as after a crash, with an older checkpoint."""

    root: str
    why: str
    ends: DurableEnds
    physic_msg_timestamp_ms: int
    """For Java, whose checkpoint has no offsets: the latest storeTimestamp that counts as durable."""
    index_msg_timestamp_ms: int
    begin: None = None
    end: None = None
    kept_bytes: int = CHECKPOINT_SIZE

    @property
    def path(self) -> str:
        """The checkpoint; the step also changes the abort file and the note of a clean shutdown."""
        return f"{self.root}/{layout.CHECKPOINT_FILE}"

    @property
    def does(self) -> str:
        """With the offset."""
        return f"has the next start scan the log from {self.ends.durable_offset} on"

    def apply(self, context: RepairContext) -> None:
        """Create the abort file, then write the checkpoint, then move the note of a clean shutdown away.

        The order matters: with an abort file a start ignores the note, and before the checkpoint is older, a start does
        what it would have done without the repair.
        """
        disk = context.disk
        abort_file = AbortFile(disk, f"{self.root}/{layout.ABORT_FILE}")
        if not abort_file.exists():
            abort_file.create()
        if disk.exists(self.path):
            context.kept.keep(self.path, 0, CHECKPOINT_SIZE, self.why)
        times = self.physic_msg_timestamp_ms, self.physic_msg_timestamp_ms, self.index_msg_timestamp_ms
        StoreCheckpoint(disk, self.path, *times, self.ends).flush()
        disk.sync_directory(self.root)
        for name in (layout.ORDERLY_END_FILE, layout.ORDERLY_END_FILE + ".bak"):
            if disk.exists(f"{self.root}/{name}"):
                context.kept.move(f"{self.root}/{name}", self.why)


@attrs.frozen(kw_only=True)
class CutLog:
    """Truncates the log at an offset."""

    files: tuple[StoreFile, ...]
    """The file that contains the offset, if there is one, and all files after it."""
    offset: int
    lost_bytes: int
    why: str
    end: None = None

    @property
    def path(self) -> str:
        """The first file that changes."""
        return self.files[0].path

    @property
    def begin(self) -> int:
        """The new end of the log in that file."""
        return max(0, self.offset - self.files[0].base_offset)

    @property
    def kept_bytes(self) -> int:
        """The bytes that are removed from the first file."""
        return self.files[0].end_offset - max(self.offset, self.files[0].base_offset)

    @property
    def does(self) -> str:
        """With the number of bytes lost."""
        return f"truncates the log at offset {self.offset}: {self.lost_bytes} bytes up to its last record are lost"

    def apply(self, context: RepairContext) -> None:
        """Move files away, last one first, so that there never is a gap; then clear the rest of the first."""
        first, *later = self.files
        if first.base_offset > self.offset:
            later = list(self.files)
        for file in reversed(later):
            context.kept.move(file.path, self.why)
        if first.base_offset <= self.offset:
            clear_from(context, first, self.offset - first.base_offset, self.why)


@attrs.frozen(kw_only=True)
class CutQueue:
    """Truncates a queue at a queue offset."""

    queue: QueueFiles
    queue_offset: int
    why: str
    end: None = None

    @property
    def path(self) -> str:
        """The first file that changes."""
        return self._files[0].path if self._files else self.queue.path

    @property
    def begin(self) -> int:
        """The new end of the queue in that file."""
        return max(0, self.queue_offset * UNIT_SIZE - self._files[0].base_offset) if self._files else 0

    @property
    def kept_bytes(self) -> int:
        """The bytes that are removed from the first file."""
        return self._files[0].size if self._files else 0

    @property
    def does(self) -> str:
        """With the queue offset."""
        return f"truncates the queue at queue offset {self.queue_offset}; it is rebuilt from there"

    @property
    def _files(self) -> list[StoreFile]:
        position = self.queue_offset * UNIT_SIZE
        return [file for file in self.queue.files if file.end_offset > position]

    def apply(self, context: RepairContext) -> None:
        """Move files away, last one first, then clear the rest of the first."""
        position = self.queue_offset * UNIT_SIZE
        for file in reversed(self._files):
            if file.base_offset < position:
                clear_from(context, file, position - file.base_offset, self.why)
            else:
                context.kept.move(file.path, self.why)


@attrs.frozen(kw_only=True)
class RestoreTable:
    """Restores a JSON table from its ``.bak``."""

    path: str
    why: str
    begin: None = None
    end: None = None
    does: str = "restores it from its .bak"
    kept_bytes: int = 0

    def apply(self, context: RepairContext) -> None:
        """Move the broken file away, then write. If a crash comes in between, a start reads the ``.bak``."""
        if context.disk.exists(self.path):
            context.kept.move(self.path, self.why)
        text = read_text(context.disk, self.path)
        if text is not None:
            persist_text(context.disk, self.path, text)


def clear_from(context: RepairContext, file: StoreFile, position: int, why: str) -> None:
    """Back up a file from a position on, and overwrite that part with zeros."""
    context.kept.keep(file.path, position, max(file.size, file.length), why)
    opened = context.disk.open(file.path)
    try:
        opened.truncate(position)
        opened.truncate(file.size)
        opened.sync()
    finally:
        opened.close()
