"""The file that is there while a broker runs: who finds it at start knows that the last one did not end in order.

It is made when recovery is over and removed as the very last act of an orderly end, when everything else is durable.
"""

from __future__ import annotations

import os.path
from contextlib import suppress

import attrs

from rocketpy.errors import ShortageError, StoreError
from rocketpy.store.disk.interface import Disk


@attrs.frozen
class AbortFile:
    """The marker of one store."""

    _disk: Disk
    _path: str

    def exists(self) -> bool:
        """Whether the last end was not an orderly one. StoreError if it is no file, before anything is recovered."""
        if self._disk.is_directory(self._path):
            raise StoreError("expected a file, found a directory", path=self._path)
        return self._disk.exists(self._path)

    def create(self) -> None:
        """Make it, durable on return: a crash from here on is seen."""
        self._disk.open(self._path, create=True).close()
        self._disk.sync_directory(os.path.dirname(self._path))

    def remove(self) -> None:
        """Remove it, durable on return unless there is no descriptor: one that comes back costs time, no message."""
        self._disk.unlink(self._path)
        with suppress(ShortageError):
            self._disk.sync_directory(os.path.dirname(self._path))
