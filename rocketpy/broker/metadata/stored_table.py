"""JSON file of one of the broker's tables: read at start, written after changes.

A table calls :meth:`StoredTable.changed` after each change and never waits. Other code writes the file: PersistService
soon after a change, an administrative request before it answers. The worker thread that writes a snapshot also encodes
it, so a large table does not block the event loop.

The file has RocketMQ's bytes (pretty fastjson text). Peers choose the names in it, so it is read without fastjson's
references: a group named ``$ref`` is a group. No Java broker writes a reference into these files, because no object
occurs twice in one of them.

People edit these files. What a table leaves out, or takes for something else than it says, has a WARN line
(:class:`~rocketpy.protocol.fastjson.file_notes.FileNotes`); what no table could hold is refused, as malformed text is.

Compatibility: ``ConfigManager`` of 4.9.8, which writes during the change, does not sync,
and has a moment without any file.
"""

from __future__ import annotations

import logging
import os.path
from collections.abc import Awaitable, Callable
from typing import TypeVar

import attrs
import trio

from rocketpy.errors import RemoteProtocolError, ShortageError, StartError, StoreError, TableWriteError
from rocketpy.protocol import fastjson
from rocketpy.protocol.bodies.codec import encode_value
from rocketpy.protocol.fastjson.file_notes import FileNotes
from rocketpy.protocol.fastjson.file_text import loads_file
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk
from rocketpy.store.disk.text_files import persist_text, read_text

T = TypeVar("T")

_log = logging.getLogger("rocketpy.broker")


class StoredTable:
    """One file. ``snapshot`` returns the content, a body or plain values, which must not change afterwards.

    A table that keeps the text of its entries returns a list of pieces, which ``joined`` makes the text of the file.
    """

    def __init__(
        self,
        *,
        path: str,
        disk: Disk,
        run_blocking: RunBlocking,
        snapshot: Callable[[], object],
        joined: Callable[[list[str]], str] | None = None,
    ) -> None:
        self.path = path
        self.change_count = 0
        """Number of changes so far, for :meth:`wait_changed`."""
        self.before_write: Callable[[], Awaitable[None]] | None = None
        """Write-ahead hook, awaited between snapshot and write: makes the log data that the table refers to durable."""
        self._disk = disk
        self._run_blocking = run_blocking
        self._snapshot = snapshot
        self._joined = joined
        self._persisted_count = 0
        self._is_damaged = False  # the file is malformed, so the next write must not copy it over the .bak
        self._waiting = trio.lowlevel.ParkingLot()
        # A write awaits, and two concurrent writers would share the temporary file.
        self._writing = trio.Lock()

    def load(self, decode: Callable[[object, FileNotes], T]) -> T | None:
        """Read the file and return the decoded content, None when there is no file.

        ``decode`` is given the parsed file, and notes what it does not take as it stands.
        A malformed file is replaced by its ``.bak``; StartError names both when the backup is malformed too.
        """
        text = read_text(self._disk, self.path) or ""
        backup = read_text(self._disk, self.path + ".bak") or ""
        if not text.strip() and not backup.strip():
            return None
        try:
            return _decoded(text, self.path, decode)
        except RemoteProtocolError as failure:
            try:
                loaded = _decoded(backup, self.path + ".bak", decode)
            except RemoteProtocolError:
                raise StartError(f"{self.path} and its .bak cannot be read: {failure}") from failure
            self._is_damaged = True
            _log.warning("%s cannot be read, its .bak is used instead: %s", self.path, failure)
            return loaded

    def changed(self) -> None:
        """Mark the table as changed and wake the tasks in :meth:`wait_changed`."""
        self.change_count += 1
        if self._waiting:
            self._waiting.unpark_all()

    @property
    def has_changes(self) -> bool:
        """Whether the table has changes that are not in the file."""
        return self.change_count != self._persisted_count

    async def wait_changed(self, beyond_count: int) -> int:
        """Wait until the number of changes exceeds ``beyond_count``; return it."""
        while self.change_count <= beyond_count:
            await self._waiting.park()
        return self.change_count

    async def persist(self) -> None:
        """Write the table if it has changed; durable on return.

        ShortageError when the write fails; the changes stay pending, and the next call retries. StoreError, which ends
        the broker, only for a sync that has failed.
        """
        async with self._writing:
            change_count = self.change_count
            if change_count != self._persisted_count:
                snapshot = self._snapshot()
                if self.before_write is not None:
                    await self.before_write()
                await self._run_blocking(self._write, snapshot)
                self._persisted_count = change_count

    def _write(self, snapshot: object) -> None:
        text = self._text(snapshot)
        try:
            self._disk.make_directories(os.path.dirname(self.path))
            persist_text(self._disk, self.path, text, keeps_backup=self._is_damaged)
        except ShortageError:
            raise
        except (StartError, StoreError) as failure:
            if self._disk.has_failed_sync:
                raise  # final wherever it was: what the page cache has may not be on the disk
            message = f"the table is not in its file yet: {failure}"
            raise TableWriteError(message, path=self.path) from failure
        self._is_damaged = False

    def _text(self, snapshot: object) -> str:
        if self._joined is not None:
            assert isinstance(snapshot, list), "pieces of text"
            return self._joined(snapshot)
        value = encode_value(snapshot) if attrs.has(type(snapshot)) else snapshot
        return fastjson.dumps(value, pretty=True)


def _decoded(text: str, path: str, decode: Callable[[object, FileNotes], T]) -> T:
    notes = FileNotes()
    loaded = decode(loads_file(text, notes), notes)
    notes.write(path, _log.warning, _log.info)
    return loaded
