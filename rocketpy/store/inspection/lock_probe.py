"""Probe for a store's lock, without taking the lock or changing its file.

Not for the process that holds the lock: POSIX does not report a process's own locks, and releases them when the process
closes any descriptor of the file.
"""

from __future__ import annotations

import fcntl
import os
import struct

_FLOCK = struct.Struct("@hhqqi4x")  # struct flock on 64-bit Linux: type, whence, start, length, pid


def is_locked(lock_path: str) -> bool:
    """Whether another process holds RocketMQ's lock on byte 0 of a file. A file that cannot be opened is not locked."""
    try:
        descriptor = os.open(lock_path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        question = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        lock_type, *_ = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, question))
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return bool(lock_type != fcntl.F_UNLCK)
