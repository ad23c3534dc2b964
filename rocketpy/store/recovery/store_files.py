"""The files of one store as one object: opened, recovered and made ready for appends, in the order that is crash-safe.

Order: checkpoint and abort file are read, the log finds its end and the queues follow it, everything past the end is
cleared durably, the index drops what the checkpoint does not cover; only then comes the abort file, and only then may
something be appended. Nothing here awaits or runs in the background.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterator

import attrs

from rocketpy.protocol.stored_message import RECORD_SIZE_MAX, RecordStatus, check_message
from rocketpy.store import layout
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.disk.descriptor_budget import DescriptorBudget, descriptor_budget
from rocketpy.store.disk.interface import Disk
from rocketpy.store.environment import StoreEnvironment
from rocketpy.store.files.mapped_file import OpenFiles
from rocketpy.store.ha.tail_cut import CutReport
from rocketpy.store.index.file import IndexLayout
from rocketpy.store.index.file_list import IndexFileList
from rocketpy.store.index.hash import hash_index_key
from rocketpy.store.index.service import IndexService
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.store.log.directories import LogDirectories
from rocketpy.store.queue.extension import BitMapOf, ExtLocation
from rocketpy.store.queue.record_units import TagsCodeOf
from rocketpy.store.queue.table import ConsumeQueueTable
from rocketpy.store.recovery.checkpoint import DurableEnds, StoreCheckpoint, load_checkpoint
from rocketpy.store.recovery.last_stop import LastStop
from rocketpy.store.recovery.marker_files import (
    AbortFile,
    FailedSyncMark,
    OrderlyEnd,
    RecoveryMark,
    digest_of_queues,
    load_orderly_end,
    persist_orderly_end,
)
from rocketpy.store.recovery.recovery import RecoveryReport, StoreRecovery
from rocketpy.store.recovery.recovery_note import RecoveryNote, RecoveryNoteFile, read_believed
from rocketpy.store.retention import RetentionPolicy, disk_usage
from rocketpy.store.services.allocate_mapped_file import AllocateMappedFileService


class StoreFiles:
    """Log, queues, index, checkpoint and abort file of one store."""

    def __init__(
        self,
        config: MessageStoreConfig,
        *,
        environment: StoreEnvironment,
        descriptors: DescriptorBudget | None = None,
        cut_report: CutReport | None = None,
    ) -> None:
        self.cut_report = cut_report
        """What this opening has done about an order to cut the log; None without one."""
        budget = descriptors if descriptors is not None else descriptor_budget(config)
        self._config = config
        self._disk = disk = environment.disk
        self.abort_file = AbortFile(disk, os.path.join(config.root, layout.ABORT_FILE))
        self.failed_sync_mark = FailedSyncMark(disk, os.path.join(config.root, layout.FAILED_SYNC_FILE))
        self._recovery_mark = RecoveryMark(disk, os.path.join(config.root, layout.RECOVERING_FILE))
        self._note_file = RecoveryNoteFile(disk, os.path.join(config.root, layout.RECOVERY_NOTE_FILE))
        self._orderly_end_path = os.path.join(config.root, layout.ORDERLY_END_FILE)
        self.checkpoint = load_checkpoint(disk, os.path.join(config.root, layout.CHECKPOINT_FILE))
        self.open_files = OpenFiles(disk=disk, open_max=budget.open_files_max)
        self.retention_policy = policy = _retention_policy(config)
        self.commit_log = CommitLog(
            directories=LogDirectories(
                config.commit_log_paths,
                read_only=config.read_only_commit_log_paths,
                takes_new_files=lambda path: policy.takes_new_files(disk_usage(disk, path)),
            ),
            disk=disk,
            open_files=self.open_files,
            file_size=config.mapped_file_size_commit_log,
        )
        self.queues = _queue_table(config, disk, self.open_files, self.checkpoint, budget)
        self.index = _index_service(config, environment, self.checkpoint)
        self.allocate_files = AllocateMappedFileService(
            disk=disk,
            run_blocking=environment.run_blocking,
            is_zero_filled=config.is_zero_filled,
            sync_each_bytes=config.warm_sync_bytes,
        )
        self._was_clean = True
        self._orderly_end: OrderlyEnd | None = None
        self._recovery: StoreRecovery | None = None  # while it runs: it knows every queue
        self._report: RecoveryReport | None = None

    @property
    def report(self) -> RecoveryReport:
        """Result of the recovery."""
        assert self._report is not None, "recovery has run"
        return self._report

    @property
    def recovery_progress(self) -> tuple[int, int]:
        """Progress of recovery: its offset in the log, and the end of the last file; (0, 0) while it does not walk."""
        return (0, 0) if self._recovery is None else self._recovery.progress

    @property
    def index_begin_offset(self) -> int:
        """From where on the log must be read again for the index; its end if the index is complete."""
        report = self.report
        if self.index is None:
            return report.end_offset
        if self._was_clean:
            noted = self._orderly_end
            if noted is not None and noted.index_end != self._index_end():
                return min(report.end_offset, self.index.end_physical_offset)  # files of it were removed by hand
            # As in RocketMQ the index is trusted, unless queues were missing: then it is as well.
            begin = report.end_offset if report.first_unit_offset is None else report.first_unit_offset
            return min(report.end_offset, max(begin, self.index.end_physical_offset))
        return min(report.end_offset, self.index.end_physical_offset)

    def recover(self, tags_code: TagsCodeOf, bit_map_of: BitMapOf | None = None) -> Iterator[None]:
        """Recover, yielding about every 10 ms. Blocks."""
        note, checkpoint_fault = self._read_note(), self.checkpoint.fault
        self._orderly_end = load_orderly_end(self._disk, self._orderly_end_path)
        self._recovery = recovery = StoreRecovery(
            disk=self._disk,
            commit_log=self.commit_log,
            queues=self.queues,
            tags_code=tags_code,
            last_stop=LastStop.of(
                has_abort_file=self.abort_file.exists(), checkpoint=self.checkpoint, note=self._orderly_end
            ),
            checkpoint=self.checkpoint,
            check_crc=self._config.check_crc_on_recover,
            rewrite=self._config.is_sync_flush or self.failed_sync_mark.exists(),
            bit_map_of=bit_map_of,
            is_multi_dispatch=self._config.enable_multi_dispatch,
            mark=self._recovery_mark,
            was_only_killed=isinstance(note, RecoveryNote),
        )
        yield from recovery.run()
        self._recovery = None
        self._report, self._was_clean = recovery.report, recovery.is_clean
        why = self._load_index(note)
        if self.index is not None:
            yield from self.index.repair()
        if not self._was_clean:
            self._report = attrs.evolve(self.report, is_crash=True, note_objection=why)
        self._report = attrs.evolve(
            self.report, index_begin_offset=self.index_begin_offset, checkpoint_fault=checkpoint_fault
        )

    def _read_note(self) -> RecoveryNote | str:
        """Return the note of the last run if it is to be believed, else why not."""
        return read_believed(
            self._note_file,
            self.checkpoint.ends,
            sync_failed=self.failed_sync_mark.exists(),
            recovery_was_killed=self._recovery_mark.exists(),
        )

    def _load_index(self, note: RecoveryNote | str) -> str:
        """Find the files of the index; return why the note is not believed, empty if it is."""
        why = note if isinstance(note, str) else ""
        if self.index is None:
            return why
        noted = None if isinstance(note, str) else note.index
        objection = self.index.load(
            is_clean=self._was_clean,
            log_end_offset=self.report.end_offset,
            noted=noted,
            leads_to=self._leads_to,
        )
        if noted is None and not why:
            why = "it was written before there was an index"
        return why or objection

    def _leads_to(self, physical_offset: int, key_hash: int) -> bool:
        """Whether the log has a message with a key of a hash at an offset; also if that was deleted since."""
        if physical_offset < self.commit_log.min_offset:
            return True
        mapped_file = self.commit_log.files.find(physical_offset)
        if mapped_file is None:
            return False
        position = physical_offset - mapped_file.base_offset
        file = mapped_file.file()
        size = int.from_bytes(file.read(position, 4), "big")
        content = file.read(position, min(size, RECORD_SIZE_MAX))
        record = check_message(content, 0, len(content), check_crc=False, read_body=False)
        if record.status is not RecordStatus.MESSAGE or record.physical_offset != physical_offset:
            return False
        return key_hash in {hash_index_key(record.topic, key.decode("utf-8", "replace")) for key in record.index_keys()}

    def begin(self, *, seconds: float = 0.0) -> None:
        """Make the abort file, durable, and let the log be appended to; ``seconds`` is how long recovery took.

        A store that comes from a Java broker's clean shutdown gets our checkpoint first, if recovery has not written it
        because units were missing: from then on a missing abort file alone does not count as a clean shutdown. A new
        store has no checkpoint yet, and does not count as cleanly shut down without one.
        """
        self._report = report = attrs.evolve(self.report, seconds=seconds)
        checkpoint = self.checkpoint
        if checkpoint.ends is None and self._was_clean:
            checkpoint.ends = DurableEnds(report.end_offset, report.end_offset, self.queues.unit_count)
            checkpoint.flush()
        # The recovery's mark goes only here, when its every change is durable. The mark of a failed sync goes after the
        # abort file: killed in between, the next recovery finds both, and rewrites once more than needed.
        self._recovery_mark.remove()
        self.abort_file.create()
        self.failed_sync_mark.remove()
        # From here on each checkpoint is followed by a note. The one before goes first: it knows nothing of this run.
        self._note_file.remove()
        checkpoint.flushed = self._write_note
        self._write_note()
        timestamp_ms = max(report.timestamp_ms, checkpoint.physic_msg_timestamp_ms, checkpoint.logics_msg_timestamp_ms)
        self.commit_log.open_at(
            report.end_offset,
            timestamp_ms=timestamp_ms,
            allocator=self.allocate_files,
        )

    def _write_note(self) -> None:
        """Note what a start may trust after a kill. In a worker thread, or before the store is open."""
        self._note_file.write(self.checkpoint.ends, None if self.index is None else self.index.noted_file)

    def _index_end(self) -> int:
        if self.index is None:
            return -2
        return self.index.end_physical_offset if self.index.statistics().file_count else -1

    def persist_orderly_end(self) -> None:
        """Note where everything ends, for the next start: when all of it is durable, before the abort file goes.

        The note for a start after a kill is of no use then, and another broker may have the store next.
        """
        self.checkpoint.flushed = _nothing
        self._note_file.remove()
        commit_log = self.commit_log
        noted = OrderlyEnd(
            commit_log.wrote_offset,
            commit_log.wrote_timestamp_ms,
            digest_of_queues(self.queues),
            self._index_end(),
        )
        persist_orderly_end(self._disk, self._orderly_end_path, noted)

    def settings_changed(self) -> None:
        """Go on with what the settings say now about deletion."""
        self.retention_policy.become(_retention_policy(self._config))

    def close(self) -> None:
        """Give every descriptor back; makes nothing durable."""
        if self.index is not None:
            self.index.close()
        self.open_files.close_all()


def _nothing() -> None:
    pass


def _queue_table(
    config: MessageStoreConfig, disk: Disk, open_files: OpenFiles, checkpoint: StoreCheckpoint, budget: DescriptorBudget
) -> ConsumeQueueTable:
    return ConsumeQueueTable(
        path=config.consume_queue_path,
        disk=disk,
        open_files=open_files,
        file_size=config.consume_queue_file_size,
        ext_location=ExtLocation(
            path=config.consume_queue_ext_path,
            file_size=config.mapped_file_size_consume_queue_ext,
            is_written=config.enable_consume_queue_ext,
        ),
        units_removed=checkpoint.units_removed,
        files_per_flush_max=budget.files_per_flush_max,
    )


def _index_service(
    config: MessageStoreConfig, environment: StoreEnvironment, checkpoint: StoreCheckpoint
) -> IndexService | None:
    """Return the key index, not loaded yet; None if the settings want none."""
    if not config.message_index_enable:
        return None
    return IndexService(
        files=IndexFileList(
            path=config.index_path,
            disk=environment.disk,
            clock=environment.clock,
            checkpoint=checkpoint,
            layout=IndexLayout(config.max_hash_slot_num, config.max_index_num),
        ),
        disk=environment.disk,
        run_blocking=environment.run_blocking,
        query_count_max=config.max_msgs_num_batch,
    )


def _retention_policy(config: MessageStoreConfig) -> RetentionPolicy:
    return RetentionPolicy.of(
        delete_hours=config.delete_hours,
        file_reserved_hours=config.file_reserved_time,
        max_used_percent=config.disk_max_used_space_ratio,
        clean_forcibly_percent=config.disk_space_clean_forcibly_ratio,
        warning_percent=config.disk_space_warning_level_ratio,
        is_forcible=config.clean_file_forcibly_enable,
    )
