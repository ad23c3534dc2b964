"""How far log, queues and index are known to be durable, as three storeTimestamps.

What was stored up to a time is durable, so the times must be captured *before* the flush that makes them true begins.
After a crash recovery starts with the last file that begins before the smallest of them.

::

     0 +--------------------------+
       | physicMsgTimestamp i64   |  the log
     8 +--------------------------+
       | logicsMsgTimestamp i64   |  the queues
    16 +--------------------------+
       | indexMsgTimestamp i64    |  the index: end of the last full index file
    24 +--------------------------+
       | zeros up to 4096         |

All 24 bytes lie in one sector, so a torn page leaves the old times or the new ones.
"""

from __future__ import annotations

import struct

import attrs

from rocketpy.errors import DiskFullError
from rocketpy.store.disk import Disk

CHECKPOINT_SIZE = 4096
_TIMES = struct.Struct(">qqq")
_TOLERANCE_MS = 3000
assert _TIMES.size == 24


@attrs.define(eq=False)
class StoreCheckpoint:
    """The three times, and the file that keeps them. Change them on the event loop; they only ever grow."""

    _disk: Disk
    _path: str
    physic_msg_timestamp_ms: int = 0
    logics_msg_timestamp_ms: int = 0
    index_msg_timestamp_ms: int = 0

    @property
    def min_timestamp_ms(self) -> int:
        """What was stored up to here is durable in log and queues; RocketMQ's three seconds of caution included."""
        return max(0, min(self.physic_msg_timestamp_ms, self.logics_msg_timestamp_ms) - _TOLERANCE_MS)

    @property
    def min_timestamp_index_ms(self) -> int:
        """What was stored up to here is durable in the index too."""
        return min(self.min_timestamp_ms, self.index_msg_timestamp_ms)

    def flush(self) -> None:
        """Write the times, durable on return. Blocks: for a worker thread. StoreError is final.

        On a full disk that has no checkpoint yet nothing is written: recovery then walks more, and finds the same.
        """
        content = _TIMES.pack(self.physic_msg_timestamp_ms, self.logics_msg_timestamp_ms, self.index_msg_timestamp_ms)
        file = self._disk.open(self._path, create=True)
        try:
            if file.size() < CHECKPOINT_SIZE:
                file.reserve(0, CHECKPOINT_SIZE)
            file.write(0, content)
            file.sync()
        except DiskFullError:
            pass
        finally:
            file.close()


def load_checkpoint(disk: Disk, path: str) -> StoreCheckpoint:
    """Return the checkpoint of a store. A missing or short file counts as zeros: nothing is known to be durable."""
    content = b""
    if disk.exists(path):
        file = disk.open(path, read_only=True)
        try:
            content = file.read(0, _TIMES.size)
        finally:
            file.close()
    times = _TIMES.unpack(content.ljust(_TIMES.size, b"\0"))
    return StoreCheckpoint(disk, path, *times)
