"""Every ConsumeQueue of a store, by topic and queue id, and what of them is not durable yet.

Any (topic, queue id) asked for exists: it is made in memory at first use, its directory only with its first unit.
Nothing here awaits; a flush is begun and ended on the loop and synced in a worker thread between.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Collection, Iterator
from itertools import islice

import attrs

from rocketpy.errors import ShortageError
from rocketpy.store import layout
from rocketpy.store.disk.descriptor_budget import FILES_PER_FLUSH_MAX
from rocketpy.store.disk.interface import PAGE_SIZE, Disk, DiskFile, remove_directory_if_empty, sync_directory_if_there
from rocketpy.store.files.mapped_file import MappedFile, OpenFiles
from rocketpy.store.layout import UNIT_SIZE
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.queue.extension import ConsumeQueueExt, ExtLocation

QUEUES_PER_FLUSH_MAX = 4096
"""Bound of the queues in one flush range: with tens of thousands of them the others follow in the next."""


@attrs.define(eq=False)
class QueueFlushRange:
    """The units that one flush of queues makes durable."""

    queues: list[tuple[ConsumeQueue, int]]  # with the queue offset up to which it is flushed afterwards
    files: list[tuple[MappedFile, DiskFile]]  # held until end_flush
    with_new_files: list[ConsumeQueue | ConsumeQueueExt]  # whose directories are synced too
    disk: Disk
    is_last: bool
    """Whether the range takes all that was unflushed when it was begun."""
    exts: list[tuple[ConsumeQueueExt, int]] = attrs.Factory(list)  # up to where each is flushed afterwards

    def add(self, queue: ConsumeQueue) -> None:
        """Take a queue with its extension, which is as durable as the units. ShortageError takes nothing of it."""
        ext = queue.ext
        held: list[tuple[MappedFile, DiskFile]] = []
        try:
            for part in (queue,) if ext is None else (queue, ext):
                for each in part.hold_unflushed():
                    held.append(each)
        except ShortageError:
            for mapped_file, _ in held:
                mapped_file.release()
            raise
        self.files += held
        queue.cut_offset = queue.max_offset
        self.queues.append((queue, queue.max_offset))
        if ext is not None and ext.has_begun:  # else its end is not known yet
            self.exts.append((ext, ext.wrote_offset))
        for part in (queue,) if ext is None else (queue, ext):
            if part.has_new_file:
                part.has_new_file = False
                self.with_new_files.append(part)

    def sync(self) -> None:
        """Sync files, then the directories of new ones. Blocks: for a worker thread.

        A ShortageError is for another try; any other StoreError is final.
        """
        for _, file in self.files:
            file.sync()
        for part in self.with_new_files:
            sync_directory_if_there(self.disk, part.files.path)


class ConsumeQueueTable:
    """The queues of one store."""

    def __init__(
        self,
        *,
        path: str,
        disk: Disk,
        open_files: OpenFiles,
        file_size: int,
        ext_location: ExtLocation | None = None,
        files_per_flush_max: int = FILES_PER_FLUSH_MAX,
        units_removed: Callable[[int], None] | None = None,
    ) -> None:
        self._units_removed = units_removed  # called with how many go, before the files of deleted queues do
        self._files_per_flush_max = files_per_flush_max
        self.path = path
        self._ext_location = ext_location
        self._disk = disk
        self._open_files = open_files
        self._file_size = file_size
        self.topics: dict[str, dict[int, ConsumeQueue]] = {}
        self._tails: dict[str, dict[int, bytes]] = {}
        self.unflushed: dict[ConsumeQueue, None] = {}  # in the order in which they got units
        self.deleted_before: dict[str, int] = {}  # records of a topic before this physical offset were deleted with it

    @property
    def pending_max(self) -> int:
        """Bound of the queues with pending units, whose files stay open: half of the files that may be open."""
        return max(self._open_files.open_max // 2, 1)

    def __iter__(self) -> Iterator[ConsumeQueue]:
        for queues in list(self.topics.values()):
            yield from list(queues.values())

    def __len__(self) -> int:
        return sum(map(len, self.topics.values()))

    def load(self) -> Iterator[None]:
        """Find the queues on disk, yielding after each topic. What is no queue's directory is left alone."""
        if not self._disk.is_directory(self.path):
            self._disk.make_directories(self.path)
        for topic in self._directories(self.path):
            for name in self._disk.list_directory(os.path.join(self.path, topic)):
                queue_id = layout.queue_id_of(name)
                if queue_id is not None:
                    queue = self.find(topic, queue_id)
                    queue.files.load(drop_after_gap=True)
                    # Asked only where nothing was found: there are tens of thousands of queues.
                    if not queue.files and not self._disk.is_directory(f"{self.path}/{topic}/{name}"):
                        self._forget(topic, queue_id)
                elif (physical_offset := layout.deletion_of(name)) is not None:
                    self._forget_deletion(topic)  # names come in order: a later deletion replaces an earlier one
                    self.deleted_before[topic] = physical_offset
            yield
        if self._ext_location is not None:
            yield from self._load_exts(self._ext_location.path)

    def _forget(self, topic: str, queue_id: int) -> None:
        """Take a queue out of memory that turned out to be a foreign file."""
        queues = self.topics[topic]
        del queues[queue_id]
        if not queues:
            del self.topics[topic]

    def _load_exts(self, path: str) -> Iterator[None]:
        """Find what queues have in extensions; one may be left of a queue that is gone."""
        for topic in self._directories(path):
            for name in self._disk.list_directory(os.path.join(path, topic)):
                queue_id = self._queue_id_of(path, topic, name)
                if queue_id is not None:
                    self.find(topic, queue_id).load_ext()
            yield

    def sync_directories(self) -> Iterator[None]:
        """Make durable which queues there are, and which files these have. Blocks; yields after each topic."""
        paths = [self.path] if self._ext_location is None else [self.path, self._ext_location.path]
        for path in paths:
            for topic in self._directories(path):
                above = os.path.join(path, topic)
                for name in self._directories(above):
                    self._disk.sync_directory(os.path.join(above, name))
                self._disk.sync_directory(above)
                yield
            if self._disk.is_directory(path):
                self._disk.sync_directory(path)

    def _queue_id_of(self, path: str, topic: str, name: str) -> int | None:
        """Return the id of the queue whose directory has this name; None for what is foreign, and left alone."""
        queue_id = layout.queue_id_of(name)
        return queue_id if queue_id is not None and self._disk.is_directory(f"{path}/{topic}/{name}") else None

    def _directories(self, path: str) -> list[str]:
        """Return the names of directories in one: those of topics. A file in there is foreign."""
        return [name for name in self._disk.list_directory(path) if self._disk.is_directory(os.path.join(path, name))]

    @property
    def usual_file_size(self) -> int:
        """The length that files have: the configured one, unless the store was made with another and has none such.

        What is shorter and has no successor tells nothing: a crash may have left it while its tail was being cut.
        """
        configured = self._file_size
        sizes = {mapped_file.size for queue in self for mapped_file in queue.files}
        if configured in sizes:
            return configured
        followed = {mapped_file.size for queue in self for mapped_file in list(queue.files)[:-1]}
        return max(followed | {size for size in sizes if size > configured}, default=configured)

    def find(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return the queue, making it in memory if it is new."""
        queues = self.topics.setdefault(topic, {})
        queue = queues.get(queue_id)
        if queue is None:
            queue = queues[queue_id] = ConsumeQueue(
                topic,
                queue_id,
                tails=self._tails.setdefault(topic, {}),
                path=f"{self.path}/{topic}/{queue_id}",
                disk=self._disk,
                open_files=self._open_files,
                file_size=self._file_size,
                ext_location=self._ext_location,
            )
        return queue

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return the queue, or None if it was never asked for."""
        queues = self.topics.get(topic)
        return None if queues is None else queues.get(queue_id)

    def remove_topic(self, topic: str, physical_offset: int) -> None:
        """Delete a topic's queues with their files; its records before a physical offset never come back.

        A file in the topic's directory keeps that offset for recovery, as long as the log has such records. (RocketMQ
        brings a deleted topic back when it recovers after a crash.)
        """
        self._note_deletion(topic, physical_offset)
        queues = self.topics.pop(topic, {}).values()
        if self._units_removed is not None:
            self._units_removed(sum(queue.max_offset for queue in queues))
        for queue in queues:
            self.unflushed.pop(queue, None)
            queue.remove_files()
        self._tails.pop(topic, None)
        if self._ext_location is not None:
            remove_directory_if_empty(self._disk, f"{self._ext_location.path}/{topic}")

    def remove_queues_of_deleted(self, gone: Collection[ConsumeQueue], topic: str, physical_offset: int) -> None:
        """Delete those queues of a topic that have no record from a physical offset on: the topic was deleted there.

        As :meth:`remove_topic`, but for the queues that began again since.
        """
        if len(gone) == len(self.topics.get(topic, ())):
            self.remove_topic(topic, physical_offset)
            return
        self._note_deletion(topic, physical_offset)
        for queue in gone:
            self.remove_queue(queue)

    def remove_queue(self, queue: ConsumeQueue) -> str:
        """Delete a queue of which the log has no message any more; its next message begins at 0 again.

        Return the topic's directory, to be synced.
        """
        queues = self.topics[queue.topic]
        del queues[queue.queue_id]
        if not queues:
            del self.topics[queue.topic]
            self._tails.pop(queue.topic, None)
        self.unflushed.pop(queue, None)
        if self._units_removed is not None:
            self._units_removed(queue.max_offset)
        queue.remove_files()
        return f"{self.path}/{queue.topic}"

    def cut_queue(self, queue: ConsumeQueue, queue_offset: int) -> None:
        """Drop the units of a queue from an offset on while the store is open, see :meth:`ConsumeQueue.cut`."""
        if self._units_removed is not None:
            self._units_removed(queue.max_offset - queue_offset)
        queue.cut(queue_offset)
        self.unflushed[queue] = None

    def forget_deletions(self, log_min_offset: int) -> None:
        """Forget deletions of records that the log has no more."""
        for topic, physical_offset in list(self.deleted_before.items()):
            if physical_offset <= log_min_offset:
                self._forget_deletion(topic)
                remove_directory_if_empty(self._disk, f"{self.path}/{topic}")

    def limit_deletions(self, log_end_offset: int) -> None:
        """Let no deletion reach past the end of the log, durably: new records there are not deleted ones. Blocks.

        The deletion may have outlived a loss of power that took the end of the log, as it was then.
        """
        for topic, physical_offset in list(self.deleted_before.items()):
            if physical_offset > log_end_offset:
                directory = f"{self.path}/{topic}"
                self._disk.open(f"{directory}/{layout.deletion_name(log_end_offset)}", create=True).close()
                self._forget_deletion(topic)
                self.deleted_before[topic] = log_end_offset
                self._disk.sync_directory(directory)

    def _note_deletion(self, topic: str, physical_offset: int) -> None:
        directory = f"{self.path}/{topic}"
        if self._disk.is_directory(directory) and self.deleted_before.get(topic) != physical_offset:
            self._disk.open(f"{directory}/{layout.deletion_name(physical_offset)}", create=True).close()
            self._forget_deletion(topic)
            self.deleted_before[topic] = physical_offset

    def _forget_deletion(self, topic: str) -> None:
        physical_offset = self.deleted_before.pop(topic, None)
        if physical_offset is not None:
            self._disk.unlink(f"{self.path}/{topic}/{layout.deletion_name(physical_offset)}")

    @property
    def unit_count(self) -> int:
        """Number of units of all queues, counted from the beginning of each: expired ones too."""
        return sum(queue.max_offset for queue in self)

    # ---- flush ----------------------------------------------------------------------------------------------------

    def begin_flush(self, *, least_pages: int = 0) -> QueueFlushRange | None:
        """Return what is to be synced now, None when nothing is; at most ``files_per_flush_max`` files or so.

        Queues with fewer unflushed pages than asked for wait for a later flush, after those not looked at yet. When
        there are no descriptors for more files, it is those that could be opened, or a ShortageError if none could.
        """
        flush_range = QueueFlushRange([], [], [], self._disk, len(self.unflushed) <= QUEUES_PER_FLUSH_MAX)
        for queue in list(islice(self.unflushed, QUEUES_PER_FLUSH_MAX)):
            if len(flush_range.files) >= self._files_per_flush_max:
                flush_range.is_last = False
                break
            pages = queue.max_offset * UNIT_SIZE // PAGE_SIZE - queue.flushed_offset * UNIT_SIZE // PAGE_SIZE
            if pages < least_pages:
                flush_range.is_last = False
                del self.unflushed[queue]
                self.unflushed[queue] = None
                continue
            try:
                flush_range.add(queue)
            except ShortageError:
                if not flush_range.queues:
                    raise
                flush_range.is_last = False
                break
            del self.unflushed[queue]
        return flush_range if flush_range.queues else None

    def end_flush(self, flush_range: QueueFlushRange, *, is_synced: bool) -> None:
        """The sync has returned, or failed: give the files back, and count what is durable now."""
        for mapped_file, _ in flush_range.files:
            mapped_file.release()
        if not is_synced:  # where that is not final it is tried again
            for part in flush_range.with_new_files:
                part.has_new_file = True
            self.unflushed.update((queue, None) for queue, _ in flush_range.queues if self._is_there(queue))
            return
        for queue, flushed_offset in flush_range.queues:
            queue.flushed_offset = max(queue.flushed_offset, min(flushed_offset, queue.cut_offset))
        for ext, flushed_offset in flush_range.exts:
            ext.flushed_offset = max(ext.flushed_offset, flushed_offset)

    def _is_there(self, queue: ConsumeQueue) -> bool:
        """Whether a queue was not deleted meanwhile."""
        return self.get(queue.topic, queue.queue_id) is queue
