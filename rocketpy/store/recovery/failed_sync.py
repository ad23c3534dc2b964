"""The mark that a sync has failed in a store's last life.

A sync that fails may leave pages of the page cache marked as clean that never reached the disk. Who finds them after a
restart reads them, a later sync passes over them, and with the next loss of power they are gone: after everybody was
told that they are durable. So a life in which a sync has failed leaves a mark, and recovery that finds it writes again
all that is not known to be durable, and syncs that, before anything is served.

The mark needs no sync of its own: it is lost with the power only, and so are the pages that it warns of. Under
SYNC_FLUSH recovery writes again after every crash and needs no mark; it is for ASYNC_FLUSH, where that costs a second
for each GiB and is seldom due.
"""

from __future__ import annotations

from types import TracebackType

import attrs

from rocketpy.errors import StoreError
from rocketpy.store.disk.interface import Disk


@attrs.frozen
class FailedSyncMark:
    """The marker of one store. As a context it notes whether a sync has failed when the block ends."""

    _disk: Disk
    _path: str

    def exists(self) -> bool:
        """Whether the last life may have left pages that no sync will write."""
        return self._disk.exists(self._path)

    def remove(self) -> None:
        """Remove it, when everything that was found is durable. A crash may bring it back, which does no harm."""
        if self._disk.exists(self._path):
            self._disk.unlink(self._path)

    def __enter__(self) -> None:
        """Begin to watch."""

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the mark, if it is due."""
        if not self._disk.has_failed_sync:
            return
        try:
            self._disk.open(self._path, create=True).close()
        except StoreError as second:
            if failure is None:
                raise
            failure.add_note(f"and the mark of that could not be made: {second}")
