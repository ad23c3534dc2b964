"""The mark that a store's last life ended with a failing disk.

A sync that fails may leave pages of the page cache marked as clean that never reached the disk. Who finds them after a
restart reads them, a later sync passes over them, and with the next loss of power they are gone: after everybody was
told that they are durable. So the end of a life by a StoreError leaves a mark, and recovery that finds it writes again
all that is not known to be durable, and syncs that, before anything is served.

The mark needs no sync of its own: it is lost with the power only, and so are the pages that it warns of. Under
SYNC_FLUSH recovery writes again after every crash and needs no mark; it is for ASYNC_FLUSH, where that costs a second
for each GiB and is seldom due.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

import attrs

from rocketpy.errors import DamagedStoreError, StoreError
from rocketpy.store.disk import Disk


@attrs.frozen
class FailedSyncMark:
    """The marker of one store. As a context it notes whether what happens inside ends with a StoreError."""

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
        """Leave the mark if the disk has failed; damage that was found only by reading is no such failure."""
        if failure is None or not any(_is_failure_of_disk(each) for each in _leaves(failure)):
            return
        try:
            self._disk.open(self._path, create=True).close()
        except StoreError as second:
            failure.add_note(f"and the mark of that could not be made: {second}")


def _is_failure_of_disk(failure: BaseException) -> bool:
    return isinstance(failure, StoreError) and not isinstance(failure, DamagedStoreError)


def _leaves(failure: BaseException) -> Iterator[BaseException]:
    if isinstance(failure, BaseExceptionGroup):
        for each in failure.exceptions:
            yield from _leaves(each)
    else:
        yield failure
