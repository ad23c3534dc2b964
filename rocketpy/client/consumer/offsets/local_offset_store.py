"""Offsets of a broadcasting consumer: a file of its own, since every member consumes every queue.

The file is ``DIRECTORY/CLIENT_ID/GROUP/offsets.json``. A new version is written beside it, the previous one becomes
``offsets.json.bak``, and then the new one takes its place: one of the two is whole after any crash.

Rule: clients that are given one ``instance_name`` have one client id on a machine, and so one file. Each reads, merges
and writes with ``offsets.json.lock`` locked, so that none renames what another has written in part.

Compatibility: ``LocalFileOffsetStore`` (4.9.8), byte for byte the same file. There the file is deleted before the new
one is renamed; here the rename replaces it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TypeVar

import trio

from rocketpy.client.consumer.offsets.offset_store import OffsetTable
from rocketpy.client.validators import UNSPECIFIED
from rocketpy.errors import ClientError, RemoteProtocolError
from rocketpy.file_lock import wait_file_lock
from rocketpy.protocol import fastjson
from rocketpy.protocol.bodies.codec import decode_value, encode_value
from rocketpy.protocol.bodies.offset import OffsetSerializeWrapper
from rocketpy.protocol.fastjson.file_notes import FileNotes
from rocketpy.protocol.fastjson.file_text import loads_file
from rocketpy.protocol.message import MessageQueue

T = TypeVar("T")
RunBlocking = Callable[[Callable[[], T]], Awaitable[T]]

_log = logging.getLogger("rocketpy.client")


class LocalOffsetStore:
    """Offsets in memory, and in a file. Files are read and written in worker threads."""

    def __init__(self, path: Path) -> None:
        """``path`` is that of the file; its directories are created."""
        self.table = OffsetTable()
        self._path = path
        self._backup = path.with_name(f"{path.name}.bak")
        self._lock = path.with_name(f"{path.name}.lock")
        self._new = path.with_name(f"{path.name}.tmp")
        # One writer at a time: writing awaits, and two would take turns at the same files.
        self._writing = trio.Lock()
        self._failure_count = 0  # of writes since the last one that succeeded

    async def load(self) -> None:
        """Read the file into memory, its backup where it is damaged; ClientError when both are."""
        notes = FileNotes()
        offsets = await trio.to_thread.run_sync(self._read, notes)
        notes.write(str(self._path), _log.warning, _log.info)  # here alone: each write reads the file, too
        for queue, consumer_offset in offsets.items():
            self.table.update(queue, consumer_offset, increase_only=False)

    async def fetch(self, queue: MessageQueue) -> int | None:
        """Return the offset that the file has."""
        return (await trio.to_thread.run_sync(self._read, FileNotes())).get(queue)

    async def persist(self, queues: Iterable[MessageQueue]) -> None:
        """Write the offsets; what the file has of other queues stays.

        A failure is logged with the path, and ends no consumer: the offsets stay in memory, and the next call writes
        them. This call is asked for (at the end, in a rebalance), so each failure has its line.
        """
        await self._persist(queues, logs_all=True)

    async def persist_soon(self, queues: Iterable[MessageQueue]) -> None:
        """Write the offsets as :meth:`persist` does, for a file is fast; of many failures only some are logged."""
        await self._persist(queues, logs_all=False)

    async def _persist(self, queues: Iterable[MessageQueue], *, logs_all: bool) -> None:
        wanted = set(queues)
        offsets = {queue: offset for queue, offset in self.table.of_topic("").items() if queue in wanted}
        if not offsets:
            return
        async with self._writing:
            try:
                await trio.to_thread.run_sync(self._write, offsets)
            except (OSError, ClientError) as failure:  # ClientError: neither the file nor its backup can be read
                self._failure_count += 1
                if logs_all or self._failure_count & (self._failure_count - 1) == 0:  # once, twice, four times, ...
                    _log.warning("offsets were not written to %s, it is tried again: %s", self._path, failure)
            else:
                if self._failure_count:
                    _log.info("offsets are written to %s again", self._path)
                self._failure_count = 0

    def _read(self, notes: FileNotes) -> dict[MessageQueue, int]:
        damage: Exception | None = None
        try:
            return _parsed(self._path.read_bytes(), notes)
        except FileNotFoundError:
            pass
        except (OSError, RemoteProtocolError) as failure:
            damage = failure
        try:
            offsets = _parsed(self._backup.read_bytes(), notes)
        except FileNotFoundError:
            if damage is not None:
                _log.warning("offsets in %s cannot be read, and there is no backup: %s", self._path, damage)
            return {}
        except (OSError, RemoteProtocolError) as failure:
            raise ClientError(UNSPECIFIED, f"readLocalOffset Exception: {self._backup}: {failure}") from failure
        if damage is not None:
            _log.warning("offsets in %s cannot be read, the backup is used: %s", self._path, damage)
        return offsets

    def _write(self, offsets: dict[MessageQueue, int]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with wait_file_lock(str(self._lock)):  # other clients of the same id
            self._replace(self._read(FileNotes()) | offsets)

    def _replace(self, merged: dict[MessageQueue, int]) -> None:
        text = fastjson.dumps(encode_value(OffsetSerializeWrapper(merged)), pretty=True)
        with self._new.open("wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        if self._path.exists():
            self._backup.write_bytes(self._path.read_bytes())
        os.replace(self._new, self._path)


def _parsed(content: bytes, notes: FileNotes) -> dict[MessageQueue, int]:
    """Return the offsets in a file; none of an empty file. RemoteProtocolError for anything else.

    A negative offset is none, as in Java, and a queue with a negative number is no queue: they are left out.
    """
    if not content.strip():
        return {}
    document = loads_file(content.decode("utf-8", "replace"), notes)
    offsets = dict(decode_value(document, OffsetSerializeWrapper, notes).offset_table)
    for queue, offset in list(offsets.items()):
        if offset < 0 or queue.queue_id < 0:
            path = f"offsetTable.{queue.topic} {queue.broker_name} {queue.queue_id}"
            notes.value(path, offset, "a queue and an offset of 0 or more", "it is left out")
            del offsets[queue]
    return offsets
