"""The small files that record how a run of a store ended: three empty markers and a one-line note.

::

    abort          exists while a broker runs: found at a start, the last run was no clean shutdown
    recovering     exists while a recovery clears and removes: found at a start, that recovery was killed
    failed-sync    written by a run in which a sync failed: what it wrote may be in the page cache only
    orderly-end    written by a clean shutdown: where log, queues and index ended

Only the abort file and the note are durable when their functions return. The other two warn of what is in the page
cache but not on the disk: a loss of power takes the warning together with what it warns of, so they need no sync.
What a start concludes from these files is in :mod:`~rocketpy.store.recovery.last_stop`; here they are read and written.
"""

from __future__ import annotations

import hashlib
import os.path
import re
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType

import attrs

from rocketpy.errors import ShortageError, StoreError
from rocketpy.store.disk.interface import Disk
from rocketpy.store.disk.text_files import persist_text, read_text
from rocketpy.store.queue.consume_queue import ConsumeQueue

FIELDS = ("version", "end_offset", "store_timestamp", "queues_digest", "index_end")
"""The words of the note's line, in their order."""

_NUMBER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_NOTE_SIZE_MAX = 4096
_VERSION = "2"


@attrs.frozen
class AbortFile:
    """The marker of a running broker: created when recovery is over, removed when everything else is durable."""

    _disk: Disk
    _path: str

    def exists(self) -> bool:
        """Whether the last run ended without a clean shutdown.

        StoreError if the path is a directory: recovery must not begin, because the marker could not be removed later.
        """
        if self._disk.is_directory(self._path):
            raise StoreError("expected a file, found a directory", path=self._path)
        return self._disk.exists(self._path)

    def create(self) -> None:
        """Create the file, durable on return: every crash from here on is detected."""
        self._disk.open(self._path, create=True).close()
        self._disk.sync_directory(os.path.dirname(self._path))

    def remove(self) -> None:
        """Remove the file, durable on return unless there is no descriptor for that.

        A file that comes back with a loss of power costs the next start time, and no message.
        """
        self._disk.unlink(self._path)
        with suppress(ShortageError):
            self._disk.sync_directory(os.path.dirname(self._path))


@attrs.frozen
class RecoveryMark:
    """The marker of a recovery that is under way, or was killed.

    Recovery clears the bytes past the ends of log and queues, removes files, and then syncs both. If it is killed in
    between, the next recovery reads zeros from the page cache, while the disk may still hold the old units: after a
    loss of power they would be back, under new records. So a recovery that finds the mark does not trust bytes that
    read as zero; it clears and syncs them again, and syncs every directory. Without a mark it skips that work: a sync
    for each of tens of thousands of queues would add many seconds to every start.
    """

    _disk: Disk
    _path: str

    def exists(self) -> bool:
        """Whether an earlier recovery did not complete."""
        return self._disk.exists(self._path)

    def create(self) -> None:
        """Create the mark. To be called before anything is cleared or removed that is synced later."""
        self._disk.open(self._path, create=True).close()

    def remove(self) -> None:
        """Remove the mark, when every change of the recovery is durable. If it comes back, that does no harm."""
        if self._disk.exists(self._path):
            self._disk.unlink(self._path)


@attrs.frozen
class FailedSyncMark:
    """The marker of a run in which a sync failed; as a context, it notes that when the block ends.

    A failed sync may leave pages of the page cache marked clean that never reached the disk. After a restart they are
    read as if they were durable, a later sync skips them, and the next loss of power drops them although they were
    acknowledged as durable. So a recovery that finds the mark rewrites all that is not known to be durable, and syncs
    it, before anything is served.

    Under SYNC_FLUSH recovery rewrites after every crash and needs no mark. Under ASYNC_FLUSH that would cost a second
    for each GiB, and is seldom due.
    """

    _disk: Disk
    _path: str

    def exists(self) -> bool:
        """Whether the last run may have left pages that no sync will write."""
        return self._disk.exists(self._path)

    def remove(self) -> None:
        """Remove the mark, when everything that was found is durable. If it comes back, that does no harm."""
        if self._disk.exists(self._path):
            self._disk.unlink(self._path)

    def __enter__(self) -> None:
        """Begin to watch."""

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Write the mark if a sync has failed."""
        if not self._disk.has_failed_sync:
            return
        try:
            self._disk.open(self._path, create=True).close()
        except StoreError as second:
            if failure is None:
                raise
            failure.add_note(f"and the mark of that could not be made: {second}")


@attrs.frozen
class OrderlyEnd:
    """Ends of log, queues and index: the note of a clean shutdown, in the file ``orderly-end``.

    It counts only after a clean shutdown, and only if the queues still end as it says. Then recovery begins its
    walk at that end instead of up to three files before it, and an index that ends elsewhere is known to be incomplete.
    RocketMQ ignores the file: if a Java broker has appended since, some queue ends elsewhere, and the walk is the usual
    one. Losing the file costs time and nothing else.
    """

    end_offset: int
    timestamp_ms: int
    """The last storeTimestamp."""
    queues_digest: str
    index_end: int
    """Physical offset of the last indexed message; -1 if there is none, -2 if the index was switched off."""


def digest_of_queues(queues: Iterable[ConsumeQueue]) -> str:
    """Return a digest of topic, id and end of every queue that has files, whatever their order."""
    return digest_of_ends((queue.topic, queue.queue_id, queue.max_offset) for queue in queues if queue.files)


def digest_of_ends(ends: Iterable[tuple[str, int, int]]) -> str:
    """Return a digest of topics, ids and ends of queues that have files, whatever their order."""
    return hashlib.blake2b(repr(sorted(ends)).encode("utf-8", "replace"), digest_size=16).hexdigest()


def load_orderly_end(disk: Disk, path: str) -> OrderlyEnd | None:
    """Return what :func:`persist_orderly_end` wrote; None if there is no file, or not one of this version and form."""
    if disk.exists(path) and disk.file_size(path) > _NOTE_SIZE_MAX:
        return None
    words = (read_text(disk, path) or "").split()
    if (
        len(words) != len(FIELDS)
        or words[0] != _VERSION
        or not all(map(_NUMBER.fullmatch, (words[1], words[2], words[4])))
    ):
        return None
    return OrderlyEnd(int(words[1]), int(words[2]), words[3], int(words[4]))


def persist_orderly_end(disk: Disk, path: str, orderly_end: OrderlyEnd) -> None:
    """Write the note, durable on return. A shortage must not fail a shutdown: then the next start walks the log."""
    with suppress(ShortageError):
        persist_text(
            disk,
            path,
            f"{_VERSION} {orderly_end.end_offset} {orderly_end.timestamp_ms} {orderly_end.queues_digest} "
            f"{orderly_end.index_end}\n",
        )
