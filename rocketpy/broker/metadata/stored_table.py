"""The JSON file behind a table of the broker: read at start, written again after changes.

A table says :meth:`StoredTable.changed` after each change and never waits. Services write it: PersistService soon after
a change, an administrative command before it answers. A snapshot is encoded in the worker thread that writes it, so a
big table does not hold up the loop.

The file is RocketMQ's byte for byte (pretty fastjson text). Names in it are chosen by peers, so it is read without
fastjson's references: a group named ``$ref`` is a group. No Java broker writes a reference into these files, because
no object is in one of them twice. Compatibility: ``ConfigManager`` of 4.9.8, which writes inside the change, without
syncing, and has a moment in which there is no file.
"""

from __future__ import annotations

import logging
import os.path
from collections.abc import Awaitable, Callable
from typing import TypeVar

import attrs
import trio

from rocketpy.errors import RemoteProtocolError, StartError
from rocketpy.protocol import fastjson
from rocketpy.protocol.bodies.codec import encode_value
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk
from rocketpy.store.disk.text_files import persist_text, read_text

T = TypeVar("T")

_log = logging.getLogger("rocketpy.broker")


class StoredTable:
    """One file. ``snapshot`` returns what to write, a body or plain values, which nobody changes afterwards."""

    def __init__(self, *, path: str, disk: Disk, run_blocking: RunBlocking, snapshot: Callable[[], object]) -> None:
        self.path = path
        self.change_count = 0
        """How many changes there were; for :meth:`wait_changed`."""
        self.before_write: Callable[[], Awaitable[None]] | None = None
        """Awaited between the snapshot and the write: what a table speaks of has to be on disk before the table is."""
        self._disk = disk
        self._run_blocking = run_blocking
        self._snapshot = snapshot
        self._persisted_count = 0
        self._is_damaged = False  # the file, not its .bak: which must not be overwritten with it
        self._waiting = trio.lowlevel.ParkingLot()
        # Writing awaits, and two writers of one file would share its temporary file.
        self._writing = trio.Lock()

    def load(self, decode: Callable[[object], T]) -> T | None:
        """Read the file and return what ``decode`` makes of it, None when there is none.

        A file that does not parse is passed over for its ``.bak``; StartError names both when that does not either.
        """
        text = read_text(self._disk, self.path) or ""
        backup = read_text(self._disk, self.path + ".bak") or ""
        if not text.strip() and not backup.strip():
            return None
        try:
            return decode(fastjson.loads(text, references=False))
        except RemoteProtocolError as failure:
            try:
                loaded = decode(fastjson.loads(backup, references=False))
            except RemoteProtocolError:
                raise StartError(f"{self.path} and its .bak cannot be read: {failure}") from failure
            self._is_damaged = True
            _log.warning("%s cannot be read, its .bak takes its place: %s", self.path, failure)
            return loaded

    def changed(self) -> None:
        """Note that the table differs from the file; whoever waits for that wakes up."""
        self.change_count += 1
        if self._waiting:
            self._waiting.unpark_all()

    @property
    def has_changes(self) -> bool:
        """Whether the file is older than the table."""
        return self.change_count != self._persisted_count

    async def wait_changed(self, beyond_count: int) -> int:
        """Wait until there were more than ``beyond_count`` changes; return how many there are."""
        while self.change_count <= beyond_count:
            await self._waiting.park()
        return self.change_count

    async def persist(self) -> None:
        """Write the table if it has changed; durable on return. StoreError when the disk refuses: nothing is lost,
        the next call tries again."""
        async with self._writing:
            change_count = self.change_count
            if change_count != self._persisted_count:
                snapshot = self._snapshot()
                if self.before_write is not None:
                    await self.before_write()
                await self._run_blocking(self._write, snapshot)
                self._persisted_count = change_count

    def _write(self, snapshot: object) -> None:
        self._disk.make_directories(os.path.dirname(self.path))
        value = encode_value(snapshot) if attrs.has(type(snapshot)) else snapshot
        text = fastjson.dumps(value, pretty=True)
        persist_text(self._disk, self.path, text, keeps_backup=self._is_damaged)
        self._is_damaged = False
