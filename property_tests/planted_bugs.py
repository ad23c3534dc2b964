"""Deliberate bugs: what finds none of them proves nothing.

Each is a small change of the real classes, switched on for a while by ``PlantedBug.planted``. The bugs are of the kind
that passes every test without a crash in it. The state machine in ``test_store_machine.py`` must find each of them, and
the enumeration in ``crash/`` those that show within two lives. Of those about the recovery note it is the other way
round: the enumeration must find each, and the machine one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from property_tests.hunts import Function, PlantedBug
from rocketpy.errors import StoreError
from rocketpy.store.files.mapped_file_queue import MappedFileQueue
from rocketpy.store.index.file_list import IndexFileList
from rocketpy.store.log import commit_log
from rocketpy.store.log.commit_log import CommitLog, FlushRange
from rocketpy.store.recovery import dispatcher as log_dispatcher
from rocketpy.store.recovery import recovery_note, store_files
from rocketpy.store.recovery.checkpoint import DurableEnds, StoreCheckpoint
from rocketpy.store.recovery.dispatcher import LogDispatcher
from rocketpy.store.recovery.marker_files import AbortFile, RecoveryMark
from rocketpy.store.recovery.queue_recovery import QueueRecovery
from rocketpy.store.recovery.recovery import StoreRecovery
from rocketpy.store.recovery.recovery_note import RecoveryNote
from rocketpy.store.recovery.store_files import StoreFiles
from rocketpy.store.results import PutMessageStatus
from rocketpy.store.services.allocate_mapped_file import AllocateMappedFileService
from rocketpy.store.services.flush_consume_queue import FlushConsumeQueueService
from rocketpy.store.services.flush_once import flush_once
from rocketpy.store.services.group_commit import GroupCommitService
from rocketpy.testing.sim.disk import SimDisk

# ---- the changes: each takes the right function and returns the wrong one -------------------------------------------


def _answers_first(begin: Function) -> Function:
    def begin_wanted(self: Any) -> None:
        self._answer(PutMessageStatus.PUT_OK, self._take(len(self._requests)))
        begin(self)

    return begin_wanted


def _without_directory_sync(init: Function) -> Function:
    def begin(self: Any, *, disk: Any, **others: Any) -> None:
        init(self, disk=_SkipsDirectorySync(disk), **others)

    return begin


class _SkipsDirectorySync:
    def __init__(self, disk: Any) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def sync_directory(self, path: str) -> None:
        pass


def _checkpoint_first(flush_thoroughly: Function) -> Function:
    async def flush_too_late(self: Any, **_: object) -> None:
        queues, self._queues = self._queues, _AsIfFlushed(self._queues)
        # Without a flush of the log: with one the number of units in the checkpoint would give the bug away, and the
        # queues would be built again.
        await flush_thoroughly(self)
        self._queues = queues
        while await flush_once(queues, self._run_blocking) is not None:
            pass

    return flush_too_late


class _AsIfFlushed:
    """Queues that have nothing to flush."""

    unflushed = ()

    def __init__(self, queues: Any) -> None:
        self._queues = queues

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queues, name)

    def begin_flush(self, *, least_pages: int = 0) -> None:
        return None


def _without_crc(init: Function) -> Function:
    def begin(self: Any, *, check_crc: bool, **others: Any) -> None:
        init(self, check_crc=False, **others)

    return begin


def _in_memory_only(truncate: Function) -> Function:
    def forgets_the_bytes(self: Any, queue_offset: int, **_: object) -> None:
        self.queue.set_end(queue_offset)

    return forgets_the_bytes


def _nothing(function: Function) -> Function:
    return lambda *_: None


def _one_byte_short(encode_blank: Function) -> Function:
    return lambda size: encode_blank(max(8, size - 1))


def _not_cut(clear_tail: Function) -> Function:
    return lambda *_: False


def _tries_again(sync: Function) -> Function:
    def sync_until_it_works(self: Any) -> None:
        try:
            sync(self)
        except StoreError:
            sync(self)

    return sync_until_it_works


def _forgets_failures(sync_inode: Function) -> Function:
    """The disk itself refuses a second sync; so it must be made as forgetful as the operating system is."""

    def sync_as_the_system_does(self: Any, inode: Any, path: str) -> None:
        try:
            sync_inode(self, inode, path)
        finally:
            self._failed_syncs.discard(inode)

    return sync_as_the_system_does


def _says_it_is_reserved(reserve_tail: Function) -> Function:
    def reserve_nothing(self: Any, end_offset: int) -> None:
        self.reserved_offset = self.files.end_offset

    return reserve_nothing


def _trusting_after_a_stop(cut_queues: Function) -> Function:
    def cut_if_they_are_longer(self: Any, end_offset: int) -> Any:
        trusted, self._trusts_clear = self._trusts_clear, self._trusts_clear or self.is_clean
        yield from cut_queues(self, end_offset)
        self._trusts_clear = trusted

    return cut_if_they_are_longer


def _trusts_names(init: Function) -> Function:
    def begin(self: Any, *, is_multi_dispatch: bool, **others: Any) -> None:
        init(self, is_multi_dispatch=True, **others)

    return begin


def _always(function: Function) -> Function:
    return lambda *_, **__: True


def _never(function: Function) -> Function:
    return lambda *_, **__: False


def _last_file_only(make_durable: Function) -> Function:
    def make_last_durable(self: Any, first_file: int, end_offset: int) -> Any:
        return make_durable(self, len(self._commit_log.files) - 1, end_offset)

    return make_last_durable


def _removes_the_mark_first(recover: Function) -> Function:
    def recover_unmarked(self: Any, *arguments: Any) -> Any:
        is_marked = self.failed_sync_mark.exists()
        self.failed_sync_mark.remove()
        was_sync_flush, self._config = self._config, _Rewrites(self._config) if is_marked else self._config
        try:
            yield from recover(self, *arguments)
        finally:
            self._config = was_sync_flush

    return recover_unmarked


class _Rewrites:
    """Settings that ask for what the mark asks for."""

    is_sync_flush = True

    def __init__(self, config: Any) -> None:
        self._config = config

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name)


# ---- changes that are about the recovery note ------------------------------------------------------------------------


def _forgets_boots(identity: Function) -> Function:
    return lambda self, path: identity(self, path).partition("/")[2]


def _nothing_to_do(repair: Function) -> Function:
    return lambda self: iter(())


def _as_if_durable(load: Function) -> Function:
    def load_files(self: Any, **arguments: Any) -> str:
        why: str = load(self, **arguments)
        self.unsynced.clear()
        return why

    return load_files


def _whatever_failed(read_believed: Function) -> Function:
    def read_always(*arguments: Any, sync_failed: bool, **others: Any) -> Any:
        return read_believed(*arguments, sync_failed=False, **others)

    return read_always


def _as_far_as_the_queues(index_begin_offset: Any) -> Any:
    def end_of_queues(self: Any) -> int:
        begin: int = index_begin_offset.fget(self)
        if self.checkpoint.ends is None or not self.report.is_crash or self.report.note_objection:
            return begin
        return max(begin, min(self.report.end_offset, self.checkpoint.ends.durable_offset))

    return property(end_of_queues)


def _notes_first(flush_thoroughly: Function) -> Function:
    async def note_and_flush(self: Any, **arguments: Any) -> None:
        self._end_burst()
        checkpoint, offset = self._checkpoint, self._commit_log.wrote_offset
        ends, checkpoint.ends = checkpoint.ends, DurableEnds(offset, offset, self._queues.unit_count)
        checkpoint.flushed()
        checkpoint.ends = ends
        await flush_thoroughly(self, **arguments)

    return note_and_flush


def _though_it_is_newer(objection: Function) -> Function:
    return lambda note, identity, ends: objection(note, identity, note.ends)


def _with_its_offset(read_note: Function) -> Function:
    def take_offset(self: Any) -> Any:
        note = read_note(self)
        if isinstance(note, RecoveryNote) and note.ends is not None:
            self.checkpoint.ends = note.ends
        return note

    return take_offset


PLANTED: Mapping[str, PlantedBug] = {
    "acknowledge before sync": PlantedBug(
        "GroupCommitService answers waiting requests before the sync",
        [(GroupCommitService, "begin_wanted", _answers_first)],
    ),
    "skip a directory sync": PlantedBug(
        "a new CommitLog file has its name, but the name is not durable before records go into it",
        [(AllocateMappedFileService, "__init__", _without_directory_sync)],
    ),
    "write the checkpoint too early": PlantedBug(
        "the checkpoint says that queues are durable, and then they are synced",
        [(FlushConsumeQueueService, "flush_thoroughly", _checkpoint_first)],
    ),
    "no CRC check": PlantedBug(
        "recovery trusts a record whose body is not what was written",
        [(StoreRecovery, "__init__", _without_crc)],
    ),
    "forget consume-queue truncation": PlantedBug(
        "units of records that were cut stay in the files of their queues",
        [(QueueRecovery, "truncate", _in_memory_only)],
    ),
    "lose the abort file": PlantedBug(
        "an open store has no abort file, so a start cannot see how it ended",
        [(AbortFile, "create", _nothing), (AbortFile, "remove", _nothing)],
    ),
    "off-by-one at roll over": PlantedBug(
        "the BLANK at the end of a full file is a byte short",
        [(commit_log, "encode_blank", _one_byte_short)],
    ),
    "leave the stale tail": PlantedBug(
        "recovery finds the end of the log, and leaves the bytes after it",
        [(StoreRecovery, "_clear_tail", _not_cut)],
    ),
    "sync again after a failed sync": PlantedBug(
        "a sync that fails is tried again; the second one finds clean pages and works",
        [(FlushRange, "sync", _tries_again), (SimDisk, "sync_inode", _forgets_failures)],
    ),
    "leave the tail unreserved": PlantedBug(
        "messages are accepted into a log file whose space is not reserved",
        [(CommitLog, "reserve_tail", _says_it_is_reserved)],
    ),
    "trust what a dead recovery has cleared": PlantedBug(
        "what an earlier recovery has cleared and not synced is taken for clear",
        [(RecoveryMark, "exists", _never)],
    ),
    "trust what a dead recovery has cleared after a stop": PlantedBug(
        "the note of a stop agrees with queues that an earlier recovery has cut and not synced: they are left alone",
        [(StoreRecovery, "_cut_queues", _trusting_after_a_stop)],
    ),
    "take units that were made again for durable": PlantedBug(
        "the checkpoint counts units that a recovery has made again before they are durable",
        [(StoreCheckpoint, "set_back", _nothing)],
    ),
    "trust what a record names": PlantedBug(
        "a record of one topic says where a queue of another one goes on",
        [(LogDispatcher, "__init__", _trusts_names), (log_dispatcher, "may_take", _always)],
    ),
    "forget what was removed from the log": PlantedBug(
        "files of the log that recovery has removed may come back with a loss of power",
        [(MappedFileQueue, "sync_directories", _nothing)],
    ),
    "sync the last file only": PlantedBug(
        "recovery serves all that it has found, and has synced the last file of it",
        [(StoreRecovery, "_make_durable", _last_file_only)],
    ),
    "forget a failed sync too early": PlantedBug(
        "recovery removes the mark of a failed sync before it has written again what may be lost",
        [(StoreFiles, "recover", _removes_the_mark_first)],
    ),
    "believe the note after a loss of power": PlantedBug(
        "the identity of a file does not say in which boot the note was written",
        [(SimDisk, "identity", _forgets_boots)],
    ),
    "leave a torn burst of the index": PlantedBug(
        "the note is believed, and the slots of a burst of keys that a kill has ended are left as they are",
        [(IndexFileList, "repair", _nothing_to_do)],
    ),
    "take a noted index for durable": PlantedBug(
        "full index files that were kept because of the note are not synced before the checkpoint covers them",
        [(IndexFileList, "load", _as_if_durable)],
    ),
    "believe the note after a failed sync": PlantedBug(
        "the note vouches for an index file of which a sync has failed",
        [(store_files, "read_believed", _whatever_failed)],
    ),
    "trust the index as far as the queues": PlantedBug(
        "the note says that log and queues are durable up to an offset, and the index is taken to be complete up to it",
        [(StoreFiles, "index_begin_offset", _as_far_as_the_queues)],
    ),
    "write the note before the flush": PlantedBug(
        "the note has the offset that a flush is about to make durable, and a start walks from there",
        [
            (FlushConsumeQueueService, "flush_thoroughly", _notes_first),
            (recovery_note, "_objection", _though_it_is_newer),
            (StoreFiles, "_read_note", _with_its_offset),
        ],
    ),
}
