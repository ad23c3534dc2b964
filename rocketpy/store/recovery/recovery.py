"""Recovery of a store at its opening: finds the end of the log, and makes log and queues agree again.

Runs before any request is served: it blocks, and yields about every 10 ms so that signals and progress come through.

- After a clean shutdown of rocketpy the queues end as the shutdown noted, and are trusted. The walk begins at the noted
  end of the log and finds nothing. If the queues do not end as noted, it was no clean shutdown, even without an abort
  file. After a clean shutdown of a Java broker the last three log files are walked to find the end.
- After a crash the walk begins where log and queues were durable when the checkpoint was written. Units after that are
  kept if they match their records; the others are written again.

Then everything past the end is cleared and synced, before the first message is accepted: RocketMQ leaves it there, and
a second crash brings it back. An earlier recovery may have been killed before what it had cleared or removed was
durable. The log is synced in any case, the queues if :class:`RecoveryMark` shows that a recovery was killed.

Units that were durable and are missing are made again from their records, and are in the page cache only until the next
flush: with a kill before that they would pass for durable ones, because they are as many as the checkpoint says. So the
checkpoint is set back to the beginning of the walk that makes them, durably, before the first of them is written. A
start that finds it so begins with the same walk, takes no unit after its beginning for durable, and syncs all of them
with its first flush, before the next checkpoint. A kill or a loss of power in that walk changes nothing.

A store as a crash leaves it is never refused: with files preallocated but empty, half written or cut short by the last
recovery, with queues or index missing. Recovery is idempotent. But if the log ends before an offset up to which it is
known to be durable, no crash has done that: :class:`DamagedStoreError` names the offset. Nothing of log, checkpoint and
index has changed then, and where units are missing no queue was removed or begun anew: the log is checked before. What
may have changed are queues: bytes after their last unit are zeros, units of records before the damage were completed or
corrected, and the files of a queue that cannot be right (:meth:`LastStop.is_inconsistent`), or of extensions without a
queue, are gone.

Compatibility: ``CommitLog.recoverNormally`` and ``recoverAbnormally`` (4.9.8), which cut the log at the first record
that is damaged, whenever and wherever. A queue that is shorter than the log is noticed after a clean shutdown too, and
completed. A log without files whose queues are not empty is refused; RocketMQ deletes the queues.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import attrs

from rocketpy.errors import DamagedStoreError
from rocketpy.protocol.stored_message import BLANK_SIZE_MIN
from rocketpy.store.disk.interface import Disk
from rocketpy.store.log.commit_log import CommitLog, first_store_timestamp
from rocketpy.store.log.scanner import LogScanner
from rocketpy.store.queue.extension import BitMapOf
from rocketpy.store.queue.record_units import TagsCodeOf
from rocketpy.store.queue.table import ConsumeQueueTable
from rocketpy.store.recovery.checkpoint import DurableEnds, StoreCheckpoint
from rocketpy.store.recovery.dispatcher import LogDispatcher, LostUnit, QueueGap
from rocketpy.store.recovery.last_stop import (
    RECORD_BEGIN,
    LastStop,
    LogEnds,
    QueueEnd,
    WalkBegin,
    begins_too_late,
    is_boundary,
)
from rocketpy.store.recovery.marker_files import RecoveryMark
from rocketpy.store.recovery.queue_recovery import QueueRecoveries

_QUEUES_PER_SLICE = 50
_COPY_SIZE = 1 << 20


@attrs.frozen
class RecoveryReport:
    """Result of a recovery: its findings and changes."""

    end_offset: int
    timestamp_ms: int  # the latest storeTimestamp of the scanned records, 0 without any
    scanned_from: int
    record_count: int
    unit_count: int  # written because they were missing, or after a crash not trusted
    first_unit_offset: int | None  # the physical offset of the first such unit's record
    removed_files: int
    why: str  # why the bytes at the end of the log are no record, if they look like a damaged one
    index_begin_offset: int = 0  # from here on the log is read again for the index
    is_crash: bool = False  # the last run ended without a clean shutdown
    note_objection: str = ""  # then: why its recovery note was not believed, empty if it was
    checkpoint_fault: str = ""  # what the checkpoint has that was not believed
    seconds: float = 0.0  # from the lock to the first message that may be appended

    @property
    def after_a_crash(self) -> str:
        """What recovery believed and read after a crash, in one sentence; empty after a shutdown or without any."""
        if not self.is_crash or not self.end_offset:
            return ""
        walked = f"{self.end_offset - self.scanned_from} bytes of the log were read in {self.seconds:.2f} s"
        left = self.end_offset - self.index_begin_offset
        if self.note_objection:
            return f"{walked}; the recovery note is not believed: {self.note_objection}; {left} bytes are left to index"
        return f"{walked}; the recovery note says that only the process has ended; {left} bytes are left to index"


class StoreRecovery:
    """One recovery of one store."""

    def __init__(
        self,
        *,
        disk: Disk,
        commit_log: CommitLog,
        queues: ConsumeQueueTable,
        tags_code: TagsCodeOf,
        last_stop: LastStop,
        checkpoint: StoreCheckpoint,
        check_crc: bool,
        rewrite: bool,
        bit_map_of: BitMapOf | None = None,
        is_multi_dispatch: bool = False,
        mark: RecoveryMark,
        was_only_killed: bool = False,
    ) -> None:
        self._disk = disk
        self._commit_log = commit_log
        self._queues = queues
        self._recoveries = QueueRecoveries(queues, disk=disk, before_clearing=mark.create)
        self._dispatcher = LogDispatcher(
            queues=queues,
            recoveries=self._recoveries,
            tags_code=tags_code,
            bit_map_of=bit_map_of,
            is_multi_dispatch=is_multi_dispatch,
        )
        self._is_multi_dispatch = is_multi_dispatch
        self._last_stop = last_stop
        self._checkpoint = checkpoint
        self.is_clean = last_stop.seems_clean
        """Whether the last stop was a clean shutdown; preliminary until the queues were compared with the note."""
        self._check_crc = check_crc
        self._rewrite = rewrite  # pages that a failed sync marked as clean are made dirty again
        self._mark = mark
        self._was_only_killed = was_only_killed  # no loss of power: units of queues have no holes
        self._trusts_clear = True  # what reads as zeros, or is missing, is so on the disk too
        self._progress: LogScanner | None = None
        self._durable_end = 0  # the log must be valid up to here; known when the queues are read
        self.report = RecoveryReport(0, 0, 0, 0, 0, None, 0, "")

    def run(self) -> Iterator[None]:
        """Recover; when the iterator ends the report is there, and everything found is durable.

        The mark is for the caller to remove, when what else it changes is durable too.
        """
        self._trusts_clear = not self._mark.exists()
        try:
            yield from self._recover()
        except DamagedStoreError:
            # The store is refused, and everything that was cleared until now is durable. So the mark is not needed,
            # unless an earlier recovery left it: what that one cleared has not been synced yet.
            if self._trusts_clear:
                self._mark.remove()
            raise

    def _recover(self) -> Iterator[None]:
        self._commit_log.load()
        yield from self._queues.load()
        # Before the queues get new units: from then on an orphaned extension would look like the queue's own.
        yield from self._remove_orphaned_extensions()
        if not self._trusts_clear:
            # A recovery that was killed may have removed files of queues. Without this sync they could come back with
            # the next loss of power, beside the units that are written now.
            yield from self._queues.sync_directories()
        files = self._commit_log.files
        yield from self._recover_queues()
        log = LogEnds(
            [(each.base_offset, each.end_offset) for each in files],
            lambda index: first_store_timestamp(files[index].file()),
        )
        self._durable_end = durable_end = self._last_stop.durable_end(self._queue_ends())
        if files.end_offset >= durable_end:  # else the log is damaged: that is said, and nothing is deleted
            self._remove_inconsistent_queues(log)
        begin = self._last_stop.walk_begin(self._queue_ends(), log)
        if begin.is_clean != self.is_clean:
            # The ends were searched by bisection, which holds only after a clean shutdown. This was none, so they are
            # searched again, unit by unit.
            self.is_clean = begin.is_clean
            yield from self._recover_queues()
        if not files:
            self._remove_all_queues(durable_end)
            return
        self._dispatcher.durable_offset = log.end_offset if begin.is_clean else begin.offset_in(log)
        if begin.offset is not None and not begin.is_clean and not self._is_boundary(begin.first_file, begin.offset):
            begin = attrs.evolve(begin, first_file=0, offset=None)
        scanner = yield from self._walk(begin)
        # Before anything of the log is removed: a log that ends too early is damage, and a tool may repair it.
        self._require(durable_end, scanner.end_offset, scanner.why or "no record")
        # A kill from here on is harmless: the next walk finds the same end of the log, and cuts the same again.
        yield from self._cut_queues(scanner.end_offset)
        removed = yield from self._cut_log(begin, scanner)
        note = self._last_stop.note
        self.report = RecoveryReport(
            end_offset=scanner.end_offset,
            timestamp_ms=max(scanner.timestamp_ms, 0 if note is None else note.timestamp_ms),
            scanned_from=scanner.begin_offset,
            record_count=scanner.record_count,
            unit_count=self._dispatcher.unit_count,
            first_unit_offset=self._dispatcher.first_offset,
            removed_files=removed,
            why=scanner.why,
        )

    @property
    def progress(self) -> tuple[int, int]:
        """Progress of the scan: its offset, and the end of the last file."""
        return (0, 0) if self._progress is None else (self._progress.end_offset, self._commit_log.files.end_offset)

    def _recover_queues(self) -> Iterator[None]:
        file_size = self._queues.usual_file_size
        for count, recovery in enumerate(self._recoveries):
            recovery.recover(
                is_clean=self.is_clean,
                file_size=file_size,
                was_only_killed=self._was_only_killed,
                trusts_clear=self._trusts_clear,
            )
            if count % _QUEUES_PER_SLICE == 0:
                yield

    # ---- what must be there ---------------------------------------------------------------------------------------

    def _queue_ends(self) -> list[QueueEnd]:
        return [recovery.end() for recovery in self._recoveries if recovery.queue.files]

    def _require(self, durable_end: int, end_offset: int, found: str) -> None:
        """Raise DamagedStoreError if the log ends before the offset up to which it was durable."""
        if end_offset >= durable_end:
            return
        files = self._commit_log.files
        damaged = next((each for each in files if each.base_offset <= end_offset < each.end_offset), None)
        raise DamagedStoreError(
            f"expected a record at offset {end_offset} of the log, durable up to {durable_end}, found {found}",
            path=files.path if damaged is None else damaged.path,
            position=None if damaged is None else end_offset - damaged.base_offset,
        )

    def _remove_orphaned_extensions(self) -> Iterator[None]:
        """Delete the extensions of queues that are gone: old units would lead to the tags of new messages."""
        for recovery in self._recoveries:
            if recovery.queue.ext is not None and not recovery.queue.files:
                recovery.remove_files()
                yield

    def _remove_all_queues(self, durable_end: int) -> None:
        """Delete the files of all queues, because the log has none.

        An empty log is valid only if nothing of it was durable. RocketMQ deletes the queues in either case, and with
        them the only evidence that messages are lost.
        """
        self._require(durable_end, 0, "no file")
        for recovery in self._recoveries:
            if recovery.queue.files:
                recovery.remove_files()
        self._queues.limit_deletions(0)
        self._queues.forget_deletions(0)

    def _remove_inconsistent_queues(self, log: LogEnds) -> None:
        """Delete the files of queues that cannot be right: the walk rebuilds them."""
        for recovery in self._recoveries:
            if recovery.queue.files and self._last_stop.is_inconsistent(recovery.end(), log):
                recovery.remove_files()

    # ---- the walk -------------------------------------------------------------------------------------------------

    def _walk(self, begin: WalkBegin) -> Generator[None, None, LogScanner]:
        """Walk to the end of the log, completing queues; from the beginning if a queue needs that."""
        while True:
            try:
                return (yield from self._walk_from(begin))
            except LostUnit:
                yield from self._set_back(begin)  # what is walked again then counts as not durable
            except QueueGap as gap:
                # The queue ends before the unit that comes next, so records before the walk have no unit. Their offsets
                # are not known: only a walk from the beginning finds them, and it rebuilds the whole queue.
                begin = attrs.evolve(begin, first_file=0, offset=None)
                yield from self._set_back(begin)
                if gap.recovery.queue.files:
                    gap.recovery.remove_files()

    def _set_back(self, begin: WalkBegin) -> Generator[None, None, None]:
        """Set the checkpoint back to the beginning of a walk, durably: before that makes units that were durable.

        From the beginning of the log that is 0: the log begins somewhere else when files of it have expired.
        """
        yield from self._check_log(begin)
        files = self._commit_log.files
        offset = files[begin.first_file].base_offset if begin.offset is None else begin.offset
        offset = 0 if offset == files.min_offset else min(offset, self._durable_end)
        self._checkpoint.set_back(DurableEnds(self._durable_end, offset, 0))
        self._dispatcher.durable_offset = offset

    def _check_log(self, begin: WalkBegin) -> Generator[None, None, None]:
        """Raise DamagedStoreError if a walk would not come as far as the log was durable.

        Before the checkpoint is set back, and a queue is removed or begun anew for that walk. Its units say which
        records were in a damaged place: a tool that repairs the log needs them. To read the log twice is the price, for
        stores that have lost units.
        """
        if not self._durable_end:
            return
        self._progress = scanner = LogScanner(
            self._commit_log,
            first_file=begin.first_file,
            begin_offset=begin.offset,
            check_crc=self._check_crc,
            built_end=_all_built,
            is_multi_dispatch=self._is_multi_dispatch,
        )
        for _ in scanner.slices():
            yield
        self._require(self._durable_end, scanner.end_offset, scanner.why or "no record")

    def _is_boundary(self, first_file: int, physical_offset: int) -> bool:
        mapped_file = self._commit_log.files[first_file]
        position = physical_offset - mapped_file.base_offset
        return is_boundary(
            physical_offset,
            (mapped_file.base_offset, mapped_file.end_offset),
            mapped_file.file().read(position, RECORD_BEGIN.size),
            (recovery.ends_before(physical_offset) for recovery in self._recoveries if recovery.queue.files),
        )

    def _walk_from(self, begin: WalkBegin) -> Generator[None, None, LogScanner]:
        first_file, begin_offset = begin.first_file, begin.offset
        base_offset = self._commit_log.files[first_file].base_offset
        unit_count = yield from self._prepare_queues(base_offset if begin_offset is None else begin_offset)
        is_from_beginning = first_file == 0 and begin_offset is None
        # The checkpoint counts the durable units. Fewer means that a queue was lost or cut. If it has no record after
        # the beginning of the walk, no gap would show that.
        if self._last_stop.misses_units(begin, unit_count):
            begin = attrs.evolve(begin, first_file=0, offset=None)
            yield from self._set_back(begin)
            return (yield from self._walk_from(begin))
        self._progress = scanner = LogScanner(
            self._commit_log,
            first_file=first_file,
            begin_offset=begin_offset,
            check_crc=self._check_crc,
            built_end=self._dispatcher.built_end,
            is_multi_dispatch=self._is_multi_dispatch,
        )
        for found in scanner.slices():
            self._dispatcher.dispatch_slice(found, scanner.record_of, is_from_beginning=is_from_beginning)
            yield
        return scanner

    def _prepare_queues(self, walk_begin: int) -> Generator[None, None, int]:
        """Set which units to trust: all of them, or after a crash those of records before the walk.

        Return their number, counted from the beginning of each queue.
        """
        unit_count = 0
        for count, recovery in enumerate(self._recoveries):
            queue = recovery.queue
            if self.is_clean:
                # Records up to here have their units, so the walk only completes a queue that lost its last ones.
                recovery.built_end = recovery.physical_end()
            elif begins_too_late(queue.files.min_offset, self._commit_log.min_offset):
                # The log has every record of it, so it is rebuilt from the log.
                recovery.remove_files()
            elif queue.files:
                recovery.rewind(recovery.first_at_or_after(walk_begin))
            unit_count += queue.max_offset
            if count % _QUEUES_PER_SLICE == 0:
                yield
        return unit_count

    # ---- the end --------------------------------------------------------------------------------------------------

    def _cut_queues(self, end_offset: int) -> Iterator[None]:
        """Drop units of records that are not in the log, at its end and at its beginning."""
        log_min_offset = self._commit_log.min_offset
        self._queues.limit_deletions(end_offset)
        self._queues.forget_deletions(log_min_offset)
        for count, recovery in enumerate(self._recoveries):
            queue = recovery.queue
            is_longer = queue.files and recovery.physical_end() > end_offset
            if queue.files and (is_longer or not self.is_clean or not self._trusts_clear):
                # No search where none is needed: a damaged unit in the middle would mislead it.
                queue_end = recovery.first_at_or_after(end_offset) if is_longer else queue.max_offset
                recovery.truncate(queue_end, trusts_clear=self._trusts_clear)
                self._queues.unflushed[queue] = None
            recovery.correct_min_offset(log_min_offset)
            if count % _QUEUES_PER_SLICE == 0:
                yield

    def _cut_log(self, begin: WalkBegin, scanner: LogScanner) -> Generator[None, None, int]:
        """Remove and clear everything past the end of the log, durably; return the number of removed files."""
        files = self._commit_log.files
        removed = 0
        while files.remove_last_after(scanner.end_offset):
            # From the last backwards, each durably before the next, and all before the tail is cut: if power is lost in
            # between, the files that are left must be without a gap, because a gap is taken for damage.
            files.sync_directories()
            removed += 1
            yield
        is_noted = scanner.end_offset == begin.noted_end  # then the stop that noted it left it clear and durable
        if not is_noted or not self._trusts_clear:
            # A recovery that was killed may have removed and cut the same, and none of it need be durable.
            files.sync_directories()
            self._clear_tail(scanner.end_offset)
        # After the cut, which gives up the space of the tail; append counts on that space.
        self._commit_log.reserve_tail(scanner.end_offset)
        if not is_noted or not self._trusts_clear:
            yield from self._make_durable(scanner.first_file, scanner.end_offset)
        return removed

    def _clear_tail(self, end_offset: int) -> None:
        """Make everything past the end zeros; a file that was cut short gets its length back."""
        files = self._commit_log.files
        last = files[len(files) - 1]
        position = end_offset - last.base_offset
        if position > last.size - BLANK_SIZE_MIN:
            # No record ends here without room for a BLANK: an earlier recovery was killed while it cleared the tail.
            previous_size = files[len(files) - 2].size if len(files) > 1 else 0
            last.size = max(last.size, previous_size or self._commit_log.file_size)
        file = last.file()
        if file.size() != last.size or not file.reads_zero_from(position):
            # Two truncates make a hole of zeros without writing it. Old records would be valid again if new ones of the
            # same sizes ended exactly where they begin. _make_durable syncs this.
            file.truncate(position)
            file.truncate(last.size)

    def _make_durable(self, first_file: int, end_offset: int) -> Iterator[None]:
        """Sync what was walked and cleared: what is served from now on survives, and what was cut stays cut."""
        files = self._commit_log.files
        ends = self._last_stop.ends
        known_offset = 0 if ends is None else ends.log_flushed_offset
        for index in range(min(first_file, len(files) - 1), len(files)):
            mapped_file = files[index]
            file = mapped_file.file()
            if self._rewrite and not self.is_clean:
                # A sync that failed may have marked these pages clean although the disk never got them. Written again
                # they are dirty, and this sync really writes them; else the next loss of power would drop messages
                # that were acknowledged as durable.
                end = min(mapped_file.end_offset, end_offset) - mapped_file.base_offset
                begin = max(0, known_offset - mapped_file.base_offset)
                for position in range(begin, end, _COPY_SIZE):
                    file.write(position, file.read(position, min(_COPY_SIZE, end - position)))
                    yield
            file.sync()
            yield


def _all_built(topic: str, queue_id: int) -> int:
    """Return an offset past every log, so that a scan checks the records of a queue and yields none."""
    return (1 << 63) - 1
