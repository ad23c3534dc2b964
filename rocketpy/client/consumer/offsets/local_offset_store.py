"""Offsets of a broadcasting consumer: a file of its own, since every member consumes every queue.

The file is ``DIRECTORY/CLIENT_ID/GROUP/offsets.json``. A new version is written beside it, the previous one becomes
``offsets.json.bak``, and then the new one takes its place: one of the two is whole after any crash.

Rule: clients that are given one ``instance_name`` have one client id on a machine, and so one file. Each reads, merges
and writes with ``offsets.json.lock`` locked, so that none renames what another has written in part.

Compatibility: ``LocalFileOffsetStore`` (4.9.8), byte for byte the same file. There the file is deleted before the new
one is renamed; here the rename replaces it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import trio

from rocketpy.client.consumer.offsets.offset_store import OffsetTable
from rocketpy.client.validators import UNSPECIFIED
from rocketpy.errors import ClientError, RemoteProtocolError
from rocketpy.protocol import fastjson
from rocketpy.protocol.bodies.codec import decode_body, encode_value
from rocketpy.protocol.bodies.offset import OffsetSerializeWrapper
from rocketpy.protocol.message import MessageQueue

T = TypeVar("T")
RunBlocking = Callable[[Callable[[], T]], Awaitable[T]]

_LOCK_SECONDS = 10.0
"""How long a write waits for another client's, which takes milliseconds."""

_LOCK_PAUSE_SECONDS = 0.005

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

    async def load(self) -> None:
        """Read the file into memory, its backup where it is damaged; ClientError when both are."""
        offsets = await trio.to_thread.run_sync(self._read)
        for queue, consumer_offset in offsets.items():
            self.table.update(queue, consumer_offset, increase_only=False)

    async def fetch(self, queue: MessageQueue) -> int | None:
        """Return the offset that the file has."""
        return (await trio.to_thread.run_sync(self._read)).get(queue)

    async def persist(self, queues: Iterable[MessageQueue]) -> None:
        """Write the offsets; what the file has of other queues stays."""
        wanted = set(queues)
        offsets = {queue: offset for queue, offset in self.table.of_topic("").items() if queue in wanted}
        if not offsets:
            return
        async with self._writing:
            try:
                await trio.to_thread.run_sync(self._write, offsets)
            except OSError as failure:
                _log.warning("offsets were not written to %s: %s", self._path, failure)

    async def persist_soon(self, queues: Iterable[MessageQueue]) -> None:
        """Write the offsets as :meth:`persist` does: a file is fast."""
        await self.persist(queues)

    def _read(self) -> dict[MessageQueue, int]:
        try:
            return _parsed(self._path.read_bytes())
        except FileNotFoundError:
            if not self._backup.exists():
                return {}
        except (OSError, RemoteProtocolError) as failure:
            _log.warning("offsets in %s cannot be read, the backup is used: %s", self._path, failure)
        try:
            return _parsed(self._backup.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, RemoteProtocolError) as failure:
            raise ClientError(UNSPECIFIED, f"readLocalOffset Exception: {self._backup}: {failure}") from failure

    def _write(self, offsets: dict[MessageQueue, int]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked():
            self._replace(self._read() | offsets)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other clients of the same id from writing; OSError if one of them does not let go."""
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            deadline = time.monotonic() + _LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_LOCK_PAUSE_SECONDS)
            yield
        finally:
            os.close(descriptor)  # and with it the lock is free

    def _replace(self, merged: dict[MessageQueue, int]) -> None:
        text = fastjson.dumps(encode_value(OffsetSerializeWrapper(merged)), pretty=True)
        with self._new.open("wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        if self._path.exists():
            self._backup.write_bytes(self._path.read_bytes())
        os.replace(self._new, self._path)


def _parsed(content: bytes) -> dict[MessageQueue, int]:
    """Return the offsets in a file; none of an empty file. RemoteProtocolError for anything else."""
    if not content.strip():
        return {}
    return dict(decode_body(content, OffsetSerializeWrapper).offset_table)
