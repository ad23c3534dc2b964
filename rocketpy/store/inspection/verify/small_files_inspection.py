"""Inspection of the small files: checkpoint, abort file, note of a clean shutdown, and the JSON tables with ``.bak``.

They record what the last owner of the store guaranteed: up to which offset the log was durable, and where a start would
begin its scan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import attrs

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol import fastjson
from rocketpy.store import layout
from rocketpy.store.disk.interface import Disk
from rocketpy.store.disk.text_files import TEXT_SIZE_MAX
from rocketpy.store.inspection.verify.findings import NOTHING, Finding, Severity
from rocketpy.store.inspection.verify.inventory import CONFIG_DIRECTORY, Inventory, QueueFiles, StoreFile
from rocketpy.store.inspection.verify.queue_units import read_units, unit_files
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles
from rocketpy.store.log.commit_log import TIMED_HEAD_SIZE, store_timestamp_in
from rocketpy.store.queue.end import Unit, find_end, first_at_or_after, physical_end
from rocketpy.store.recovery.checkpoint import StoreCheckpoint, is_time_or_none, load_checkpoint
from rocketpy.store.recovery.last_stop import RECORD_BEGIN, LastStop, LogEnds, QueueEnd, begins_too_late, is_boundary
from rocketpy.store.recovery.marker_files import OrderlyEnd, load_orderly_end
from rocketpy.store.recovery.recovery_note import RecoveryNote, RecoveryNoteFile, read_believed

TOPICS_FILE = "topics.json"


@attrs.frozen
class LastEnd:
    """State in which the last owner left the store."""

    is_clean: bool
    """Whether a start treats the last stop as a clean shutdown."""
    has_abort_file: bool
    checkpoint: StoreCheckpoint
    orderly_end: OrderlyEnd | None
    """The note of a clean shutdown; None if a start would ignore it."""
    durable_end: int
    """An invalid record before this offset is damage: a start refuses the store."""
    walk_begin: int
    """A start scans records from this offset on."""
    note_objection: str = ""
    """Why a start after a crash does not believe the recovery note, before it looks at the index; empty if it does."""


def read_last_end(disk: Disk, inventory: Inventory, opened: ReadOnlyFiles) -> LastEnd:
    """Return what the small files say, by the rule that recovery itself follows."""
    checkpoint = load_checkpoint(disk, inventory.path_in_root(layout.CHECKPOINT_FILE))
    note = load_orderly_end(disk, inventory.path_in_root(layout.ORDERLY_END_FILE))
    has_abort_file = disk.exists(inventory.path_in_root(layout.ABORT_FILE))
    last_stop = LastStop.of(has_abort_file=has_abort_file, checkpoint=checkpoint, note=note)
    recovery_note = _recovery_note(disk, inventory, checkpoint)
    was_only_killed = isinstance(recovery_note, RecoveryNote)
    files = inventory.log_files
    log = LogEnds(
        [(file.base_offset, file.end_offset) for file in files], lambda index: first_timestamp_ms(opened, files[index])
    )
    is_whole = last_stop.seems_clean or was_only_killed  # units without holes
    queues = {queue: queue_end(opened, queue, is_clean=is_whole) for queue in _queues_of(inventory)}
    durable_end = last_stop.durable_end(list(queues.values()))
    if log.end_offset >= durable_end:
        queues = {queue: end for queue, end in queues.items() if not last_stop.is_inconsistent(end, log)}
    begin = last_stop.walk_begin(queues.values(), log)
    offset = begin.offset
    if offset is not None and not begin.is_clean and files:
        before = [_count_before(opened, queue, offset, log, is_clean=was_only_killed) for queue in queues]
        ends_before = (
            physical_end(queue.files[0].base_offset, count, partial(_unit_at, opened, queue))
            for queue, count in zip(queues, before, strict=True)
        )
        file = files[begin.first_file]
        head = opened.read(file.path, offset - file.base_offset, RECORD_BEGIN.size)
        is_at_record = is_boundary(offset, log.spans[begin.first_file], head, ends_before)
        if not is_at_record or last_stop.misses_units(begin, sum(before)):
            offset = log.min_offset
    if offset is None:
        offset = log.spans[begin.first_file][0] if log.spans else 0
    return LastEnd(
        begin.is_clean,
        has_abort_file,
        checkpoint,
        note if begin.noted_end is not None else None,
        durable_end,
        offset,
        recovery_note if isinstance(recovery_note, str) else "",
    )


def _recovery_note(disk: Disk, inventory: Inventory, checkpoint: StoreCheckpoint) -> RecoveryNote | str:
    """Return the note of a run that was killed if a start believes it, else why not."""
    return read_believed(
        RecoveryNoteFile(disk, inventory.path_in_root(layout.RECOVERY_NOTE_FILE)),
        checkpoint.ends,
        sync_failed=disk.exists(inventory.path_in_root(layout.FAILED_SYNC_FILE)),
        recovery_was_killed=disk.exists(inventory.path_in_root(layout.RECOVERING_FILE)),
    )


def _queues_of(inventory: Inventory) -> Iterator[QueueFiles]:
    return (queue for queue in inventory.queues.values() if queue.files)


def first_timestamp_ms(opened: ReadOnlyFiles, file: StoreFile) -> int:
    """Return the storeTimestamp of a log file's first record, 0 if it has none."""
    return store_timestamp_in(opened.read(file.path, 0, TIMED_HEAD_SIZE))


# ---- where queues end ----------------------------------------------------------------------------------------------


def queue_end(opened: ReadOnlyFiles, queue: QueueFiles, *, is_clean: bool) -> QueueEnd:
    """Return where a queue ends, as a start finds it: see :func:`rocketpy.store.queue.end.find_end`."""
    begin, max_offset = queue.files[0].base_offset, _max_offset(opened, queue, is_clean=is_clean)
    return QueueEnd(
        queue.topic,
        queue.queue_id,
        begin,
        max_offset,
        lambda: physical_end(begin, max_offset, partial(_unit_at, opened, queue)),
    )


def _max_offset(opened: ReadOnlyFiles, queue: QueueFiles, *, is_clean: bool) -> int:
    """Return the queue offset after the last valid unit."""
    position, _, _ = find_end(unit_files(opened, queue), is_clean=is_clean)
    return position // layout.UNIT_SIZE


def _count_before(
    opened: ReadOnlyFiles, queue: QueueFiles, physical_offset: int, log: LogEnds, *, is_clean: bool
) -> int:
    """Return up to which queue offset a start after a crash trusts the units: those of records before an offset."""
    if begins_too_late(queue.files[0].base_offset, log.min_offset):
        return 0
    end = _max_offset(opened, queue, is_clean=is_clean)
    return first_at_or_after(physical_offset, queue.min_offset, end, partial(_unit_at, opened, queue))


def _unit_at(opened: ReadOnlyFiles, queue: QueueFiles, queue_offset: int) -> Unit:
    content = read_units(opened, queue, queue_offset, 1)
    return layout.UNIT.unpack(content) if content else (0, 0, 0)


# ---- findings -------------------------------------------------------------------------------------------------------


def small_file_findings(
    disk: Disk, inventory: Inventory, opened: ReadOnlyFiles, last_end: LastEnd, *, is_live: bool
) -> Iterator[Finding]:
    """Yield what is wrong with the small files."""
    if last_end.has_abort_file and not is_live:
        yield Finding(
            severity=Severity.NOTICE,
            path=inventory.path_in_root(layout.ABORT_FILE),
            expected="no such file: it is there while a broker runs",
            found="it is there: the last broker was killed",
            start=f"recovers as after a crash, and {_of_note(last_end)}",
            repair=NOTHING,
        )
    yield from _checkpoint_findings(inventory, last_end)
    noted_path = inventory.path_in_root(layout.ORDERLY_END_FILE)
    if not last_end.has_abort_file and last_end.orderly_end is None and disk.exists(noted_path):
        yield Finding(
            severity=Severity.NOTICE,
            path=noted_path,
            expected="a note of a clean shutdown that checkpoint, log and queues agree with",
            found=repr(opened.read(noted_path, 0, 80)),
            start=(
                "scans up to three log files to find the end"
                if last_end.is_clean
                else f"recovers as after a crash, and scans the log from {last_end.walk_begin} on"
            ),
            repair=NOTHING,
        )
    elif not last_end.has_abort_file and not last_end.is_clean and not is_live and last_end.checkpoint.ends is not None:
        yield Finding(
            severity=Severity.NOTICE,
            path=noted_path,
            expected="the note of a clean shutdown, or an abort file",
            found="neither: the abort file was removed by hand",
            start=f"recovers as after a crash, and scans the log from {last_end.walk_begin} on",
            repair=NOTHING,
        )
    for path in inventory.config_files:
        yield from _json_findings(disk, opened, path)


def _of_note(last_end: LastEnd) -> str:
    """Return what a start makes of the recovery note, which only matters after a crash."""
    if last_end.note_objection:
        return f"does not believe the recovery note: {last_end.note_objection}"
    return "believes the recovery note, if the index agrees with it"


def _checkpoint_findings(inventory: Inventory, last_end: LastEnd) -> Iterator[Finding]:
    checkpoint = last_end.checkpoint
    for number, time_ms in enumerate(checkpoint.times_in_file):
        if not is_time_or_none(time_ms):
            yield Finding(
                severity=Severity.WARNING,
                path=inventory.path_in_root(layout.CHECKPOINT_FILE),
                position=number * 8,
                expected="a time in milliseconds",
                found=f"{time_ms}",
                start="takes it for none: after a crash it may begin its scan at the beginning of the log",
                repair="rewrites the checkpoint",
            )


def is_checkpoint_sane(checkpoint: StoreCheckpoint) -> bool:
    """Whether its times can be times."""
    return not checkpoint.fault


def _json_findings(disk: Disk, opened: ReadOnlyFiles, path: str) -> Iterator[Finding]:
    main = why_no_json(disk, opened, path)
    backup = why_no_json(disk, opened, path + ".bak")
    if main is None:
        if backup is not None and backup != _MISSING:
            yield _json_finding(path + ".bak", Severity.NOTICE, backup, NOTHING, NOTHING)
    elif backup is None:
        severity = Severity.NOTICE if main in (_MISSING, _EMPTY) else Severity.WARNING
        yield _json_finding(path, severity, main, "reads the .bak", "restores it from the .bak")
    elif main != _MISSING:
        yield _json_finding(path, Severity.ERROR, f"{main}; .bak: {backup}", "refuses to start", NOTHING)


_MISSING = "no file"
_EMPTY = "no bytes"


def why_no_json(disk: Disk, opened: ReadOnlyFiles, path: str) -> str | None:
    """Return what is wrong with a JSON file, None if nothing is."""
    if not disk.exists(path):
        return _MISSING
    if disk.is_directory(path):
        return "a directory"
    size = disk.file_size(path)
    if size > TEXT_SIZE_MAX:
        return f"{size} bytes, expected at most {TEXT_SIZE_MAX}"
    content = opened.read(path, 0, size)
    if not content:
        return _EMPTY
    try:
        value = fastjson.loads(content, references=False)  # as the broker reads them
    except RemoteProtocolError as failure:
        return str(failure)
    return None if isinstance(value, Mapping) else "no JSON object"


def restorable_tables(disk: Disk, inventory: Inventory, opened: ReadOnlyFiles) -> list[tuple[str, str]]:
    """Return the JSON files that are broken and whose ``.bak`` is not, and why."""
    found = []
    for path in inventory.config_files:
        why = why_no_json(disk, opened, path)
        if why is not None and why_no_json(disk, opened, path + ".bak") is None:
            found.append((path, why))
    return found


def _json_finding(path: str, severity: Severity, found: str, start: str, repair: str) -> Finding:
    return Finding(severity=severity, path=path, expected="a JSON object", found=found, start=start, repair=repair)


def known_topics(disk: Disk, inventory: Inventory, opened: ReadOnlyFiles) -> frozenset[str] | None:
    """Return the topics of the broker's table, None if it cannot be read."""
    path = inventory.path_in_root(f"{CONFIG_DIRECTORY}/{TOPICS_FILE}")
    for candidate in (path, path + ".bak"):
        if why_no_json(disk, opened, candidate) is None:
            value = fastjson.loads(opened.read(candidate, 0, disk.file_size(candidate)), references=False)
            table = value.get("topicConfigTable") if isinstance(value, Mapping) else None
            if isinstance(table, Mapping):
                return frozenset(str(topic) for topic in table)
    return None
