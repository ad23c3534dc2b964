"""Locks of small files that several processes of a machine read, change and write in turn.

The lock is one of ``flock`` on a file beside the one that is changed, which is made for it and stays. It also keeps out
other threads, and ends with the process that has it.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Final

LOCK_SECONDS: Final = 10.0
"""How long a change waits for another process that makes one: usually milliseconds."""

_PAUSE_SECONDS: Final = 0.005


class FileLock:
    """A file that is open, and locked thereby; as a context, until the end of the block."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Close the file, which stays for the next one. Releasing twice is harmless."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> None:
        """The file is locked already."""

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Release the lock."""
        self.release()


def wait_file_lock(path: str) -> FileLock:
    """Lock a file that only its owner may open, and wait for whoever has the lock. Blocks.

    OSError if it cannot be made; of these BlockingIOError if another one has the lock for :data:`LOCK_SECONDS`.
    """
    deadline = time.monotonic() + LOCK_SECONDS
    with ExitStack() as unless_locked:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        unless_locked.callback(os.close, descriptor)
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                unless_locked.pop_all()
                return FileLock(descriptor)
            except BlockingIOError as failure:
                if time.monotonic() > deadline:
                    why = f"another process has it locked for {LOCK_SECONDS:g} s"
                    raise BlockingIOError(failure.errno, why, path) from None
            time.sleep(_PAUSE_SECONDS)
