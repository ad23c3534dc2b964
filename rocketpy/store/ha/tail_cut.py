"""Cutting the end of a slave's log where it parts from its master's: ordered while the store is open, done at its next
opening, before recovery.

::

    <root>/cut                              the order: version, phase, offset, end of the log, time (ms)
    <root>/diverged/<OFFSET>-<TIME>/<BEGIN> the bytes that were cut, a file for each file of the log

The steps, each durable before the next one begins:

1. The bytes from the offset to the end of the log are copied, and the order says so: phase ``keep`` becomes ``cut``.
2. The checkpoint is set back to the file with the last common record, so that recovery walks as after a crash: it drops
   the queue units and index files that lead beyond the end of the log.
3. Whole files are removed from the last one backwards, and the rest of the first one becomes zeros.
4. The order says so: phase ``tables``. Who keeps tables beside the log forgets what stands for the part that was cut.
5. The order is removed, by :meth:`~rocketpy.store.message_store.MessageStore.tables_were_cut`. Only then is anything
   stored in the place of what was cut.

Killed anywhere, the next opening begins again with the phase that the order names; until step 3 the log is whole, and
after each removal it is a shorter whole log. An order counts only on a slave with ``haTruncateDivergedLog``: a store
that is opened as a master's drops it. So does one whose log has changed since, or that has no space for the copy.

What was kept is never deleted here. No tail is cut while :data:`KEPT_TAILS_MAX` are kept.
"""

from __future__ import annotations

import os.path
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from struct import Struct

import attrs

from rocketpy.errors import ShortageError
from rocketpy.protocol.stored_message import BLANK_MAGIC_CODE, MESSAGE_MAGIC_CODE
from rocketpy.store import layout
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.store.disk.interface import Disk
from rocketpy.store.files.mapped_file import MappedFile, OpenFiles
from rocketpy.store.files.mapped_file_queue import MappedFileQueue
from rocketpy.store.log.commit_log import first_store_timestamp
from rocketpy.store.recovery.checkpoint import DurableEnds, StoreCheckpoint, load_checkpoint
from rocketpy.store.recovery.marker_files import AbortFile
from rocketpy.store.recovery.recovery_note import RecoveryNoteFile

KEPT_TAILS_MAX = 16
"""Directories of kept bytes: while there are so many, a person must look at them before more is cut."""

SPARE_BYTES = 64 << 20
"""Free space that must be left on the disk after the copy."""

_VERSION = "1"
_KEEP, _CUT, _TABLES = "keep", "cut", "tables"
_CHUNK_SIZE = 1 << 20
_OPEN_FILES_MAX = 8
_TOTAL_AND_MAGIC = Struct(">ii")


@attrs.frozen
class CutOrder:
    """One order. Offsets are of the log, in bytes."""

    offset: int
    """The new end of the log."""
    end_offset: int
    """Its end when the cut was ordered; nothing is appended after that."""
    timestamp_ms: int
    """When it was ordered; names the copy."""
    is_kept: bool = False
    """Whether the copy is complete and durable."""
    is_done: bool = False
    """Whether the log has been cut, and only the tables beside it may still stand for what it had."""

    @property
    def kept_name(self) -> str:
        """The directory of the copy, in ``diverged``: the offset, and the time in UTC."""
        seconds, milliseconds = divmod(self.timestamp_ms, 1000)
        moment = datetime.fromtimestamp(seconds, UTC)
        return f"{layout.file_name(self.offset)}-{moment:%Y%m%dT%H%M%S}{milliseconds:03d}Z"


@attrs.frozen
class CutReport:
    """What an opening has done about an order."""

    order: CutOrder
    kept_path: str
    """The directory with the bytes that were cut; empty when nothing was."""
    refusal: str
    """Why nothing was cut; empty when it was."""


def order_cut(disk: Disk, config: MessageStoreConfig, order: CutOrder) -> str | None:
    """Write an order, durable on return; return why there is none instead. Blocks."""
    refusal = _refusal(disk, config, order)
    if refusal is not None:
        return refusal
    try:
        _write_order(disk, config.root, order)
    except ShortageError as failure:
        return str(failure)
    return None


class TailCut:
    """Executes the order of a store that is not open, if it has one. The caller holds the store's lock."""

    def __init__(self, config: MessageStoreConfig, *, disk: Disk) -> None:
        self._config = config
        self._disk = disk
        self._root = config.root
        self.report: CutReport | None = None
        """What was done; None without an order."""

    def run(self) -> Iterator[None]:
        """Execute it, yielding after each MiB or file. Blocks. StoreError: the next opening tries again."""
        order = load_order(self._disk, self._root)
        if order is None:
            path = f"{self._root}/{layout.CUT_FILE}"
            if self._disk.exists(path):
                # Nothing is lost by not cutting: a slave that finds its log diverged orders it again.
                remove_order(self._disk, self._root)
                self.report = CutReport(CutOrder(0, 0, 0), "", f"{path} was no order, and is removed")
            return
        refusal = None
        if not order.is_done:
            refusal = _refusal(self._disk, self._config, order)
            if refusal is None:
                refusal = yield from self._execute(order)
            if refusal is None:
                _write_order(self._disk, self._root, attrs.evolve(order, is_done=True))
            else:
                remove_order(self._disk, self._root)
        kept = "" if refusal is not None else self._kept_path(order)
        self.report = CutReport(order, kept, refusal or "")

    def _execute(self, order: CutOrder) -> Generator[None, None, str | None]:
        """Keep and cut; return why not."""
        # All that the log has: files of the directories that get no new ones may lie between those of the others.
        config = self._config
        paths = list(dict.fromkeys((*config.commit_log_paths, *config.read_only_commit_log_paths)))
        open_files = OpenFiles(disk=self._disk, open_max=_OPEN_FILES_MAX)
        files = MappedFileQueue(path=paths[0], more_paths=paths[1:], disk=self._disk, open_files=open_files)
        try:
            files.load()
            if not order.is_kept:
                refusal = self._change_since(order, files)
                if refusal is not None:
                    return refusal
                try:
                    yield from self._keep(order, files)
                    order = attrs.evolve(order, is_kept=True)
                    _write_order(self._disk, self._root, order)
                except ShortageError as failure:
                    self._remove_copy(order)
                    return str(failure)
            if not self._rewind_checkpoint(order, files):
                return "the checkpoint could not be written"
            yield from self._cut(order, files)
            return None
        finally:
            open_files.close_all()

    # ---- what is still as it was ordered --------------------------------------------------------------------------

    def _change_since(self, order: CutOrder, files: MappedFileQueue) -> str | None:
        """Return what has changed in the log since the order; None if nothing that can be seen."""
        if not files.min_offset < order.offset:
            return f"expected a log that begins before {order.offset}, found one that begins at {files.min_offset}"
        if not _has_record(files, order.offset):
            return f"expected a record at {order.offset}, found none"
        if _has_record(files, order.end_offset):
            return f"expected the log to end at {order.end_offset}, found a record there"
        return None

    # ---- keep -----------------------------------------------------------------------------------------------------

    def _kept_path(self, order: CutOrder) -> str:
        return f"{self._root}/{layout.DIVERGED_DIRECTORY}/{order.kept_name}"

    def _keep(self, order: CutOrder, files: MappedFileQueue) -> Iterator[None]:
        """Copy what will be cut; durable at the end."""
        disk, path = self._disk, self._kept_path(order)
        disk.make_directories(path)
        for mapped_file in files:
            begin, end = max(mapped_file.base_offset, order.offset), min(mapped_file.end_offset, order.end_offset)
            if begin < end:
                yield from self._copy(mapped_file, begin, end, f"{path}/{layout.file_name(begin)}")
        for directory in (path, os.path.dirname(path), self._root):
            disk.sync_directory(directory)

    def _copy(self, mapped_file: MappedFile, begin: int, end: int, path: str) -> Iterator[None]:
        copy = self._disk.open(path, create=True)
        try:
            copy.truncate(0)  # of an opening that was killed here
            copy.reserve(0, end - begin)
            for offset in range(begin, end, _CHUNK_SIZE):
                size = min(_CHUNK_SIZE, end - offset)
                copy.write(offset - begin, mapped_file.file().read(offset - mapped_file.base_offset, size))
                yield
            copy.sync()
        finally:
            copy.close()

    def _remove_copy(self, order: CutOrder) -> None:
        path = self._kept_path(order)
        for name in self._disk.list_directory(path):
            self._disk.unlink(f"{path}/{name}")
        if self._disk.is_directory(path):
            self._disk.remove_directory(path)

    # ---- cut ------------------------------------------------------------------------------------------------------

    def _rewind_checkpoint(self, order: CutOrder, files: MappedFileQueue) -> bool:
        """Have recovery walk from the file with the last common record on; False if that could not be written.

        With an abort file the note of a clean shutdown counts for nothing. The times are for RocketMQ's recovery, and
        for the index: what was stored since the last common record is not durable, whatever was before.
        """
        disk, root = self._disk, self._root
        last = files.find(order.offset - 1)
        assert last is not None, "the log begins before the offset, and nothing was cut that lies before it"
        try:
            RecoveryNoteFile(disk, f"{root}/{layout.RECOVERY_NOTE_FILE}").remove()  # it knows the log as it was
            abort_file = AbortFile(disk, f"{root}/{layout.ABORT_FILE}")
            if not abort_file.exists():
                abort_file.create()
            path = f"{root}/{layout.CHECKPOINT_FILE}"
            known = load_checkpoint(disk, path)
            limit_ms = first_store_timestamp(last.file())
            physic_ms, logics_ms = known.physic_msg_timestamp_ms, known.logics_msg_timestamp_ms
            times = min(physic_ms, limit_ms), min(logics_ms, limit_ms), min(known.index_msg_timestamp_ms, limit_ms)
            begin, ends = last.base_offset, known.ends or DurableEnds(0, 0, 0)
            ends = DurableEnds(min(ends.log_flushed_offset, begin), min(ends.durable_offset, begin), 0)
            if not StoreCheckpoint(disk, path, *times, ends).flush():
                return False
            for name in (layout.ORDERLY_END_FILE, layout.ORDERLY_END_FILE + ".bak"):
                if disk.exists(f"{root}/{name}"):
                    disk.unlink(f"{root}/{name}")
            disk.sync_directory(root)
        except ShortageError:
            return False
        return True

    def _cut(self, order: CutOrder, files: MappedFileQueue) -> Iterator[None]:
        """Remove what comes after the offset: from the end backwards, so that there never is a gap."""
        while files.remove_last_after(order.offset):
            files.sync_directories()
            yield
        last = files[len(files) - 1]
        position = order.offset - last.base_offset
        if position <= last.size:
            file = last.file()
            # An opening that was killed between the two calls has left a shorter file: recovery gives it its length.
            file.truncate(position)
            file.truncate(last.size)
            file.sync()
        yield


def remove_order(disk: Disk, root: str) -> None:
    """Remove an order, durable on return: else it could come back, and cut what is stored next."""
    disk.unlink(f"{root}/{layout.CUT_FILE}")
    disk.sync_directory(root)


def load_order(disk: Disk, root: str) -> CutOrder | None:
    """Return the order of a store; None without one, or for a file that holds something else."""
    path = f"{root}/{layout.CUT_FILE}"
    if not disk.exists(path):
        return None
    file = disk.open(path, read_only=True)
    try:
        words = file.read(0, 256).decode("ascii", "replace").split()
    finally:
        file.close()
    if len(words) != 5 or words[0] != _VERSION or words[1] not in (_KEEP, _CUT, _TABLES):
        return None
    if not all(word.isascii() and word.isdigit() and len(word) < 20 for word in words[2:]):
        return None
    phase = words[1]
    return CutOrder(int(words[2]), int(words[3]), int(words[4]), is_kept=phase != _KEEP, is_done=phase == _TABLES)


def _write_order(disk: Disk, root: str, order: CutOrder) -> None:
    """Replace the order, durable on return. It has no ``.bak``, which could be mistaken for it later."""
    path = f"{root}/{layout.CUT_FILE}"
    file = disk.open(path + ".tmp", create=True)
    try:
        file.truncate(0)
        phase = _TABLES if order.is_done else _CUT if order.is_kept else _KEEP
        file.write(0, f"{_VERSION} {phase} {order.offset} {order.end_offset} {order.timestamp_ms}\n".encode())
        file.sync()
    finally:
        file.close()
    disk.rename(path + ".tmp", path)
    disk.sync_directory(root)


def _refusal(disk: Disk, config: MessageStoreConfig, order: CutOrder) -> str | None:
    """Return why nothing may be cut, None if it may."""
    if config.broker_role is not BrokerRole.SLAVE:
        return f"only a slave cuts its log, and this broker is {config.broker_role.value}"
    if not config.ha_truncate_diverged_log:
        return "haTruncateDivergedLog is false"
    if not 0 < order.offset < order.end_offset:
        return f"expected an offset within the log, from 1 to {order.end_offset - 1}, found {order.offset}"
    if order.is_kept:
        return None
    directory = f"{config.root}/{layout.DIVERGED_DIRECTORY}"
    kept = [name for name in disk.list_directory(directory) if name != order.kept_name]
    if len(kept) >= KEPT_TAILS_MAX:
        return (
            f"{directory} keeps {len(kept)} tails, expected fewer than {KEPT_TAILS_MAX}: look at them and remove some"
        )
    needed = order.end_offset - order.offset + SPARE_BYTES
    # Without the figure that was found: the alarm would be another one each time it is looked at.
    return f"{needed} bytes are needed for a copy, found fewer" if disk.free_bytes(config.root) < needed else None


def _has_record(files: MappedFileQueue, offset: int) -> bool:
    """Whether a record or a BLANK begins at an offset."""
    mapped_file = files.find(offset)
    head = b"" if mapped_file is None else mapped_file.file().read(offset - mapped_file.base_offset, 8)
    return len(head) == 8 and _TOTAL_AND_MAGIC.unpack(head)[1] in (MESSAGE_MAGIC_CODE, BLANK_MAGIC_CODE)
