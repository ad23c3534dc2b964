"""Looks at the small files of a store: checkpoint, abort file, orderly end, and the JSON tables with their ``.bak``.

They say what the last owner of the store promised: up to where the log was durable, and where a start would begin its
walk. Nothing here reads log, queues or index beyond the heads of log files.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

import attrs

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol import fastjson
from rocketpy.protocol.stored_message import MESSAGE_MAGIC_CODE
from rocketpy.store import layout
from rocketpy.store.checkpoint import StoreCheckpoint, load_checkpoint
from rocketpy.store.disk import Disk
from rocketpy.store.inspection.findings import NOTHING, Finding, Severity
from rocketpy.store.inspection.inventory import CONFIG_DIRECTORY, Inventory, QueueFiles, StoreFile
from rocketpy.store.inspection.queue_units import is_pre_blank, is_unit, read_units
from rocketpy.store.inspection.read_only_files import ReadOnlyFiles
from rocketpy.store.inspection.time_inspection import TIME_MAX_MS
from rocketpy.store.orderly_end import OrderlyEnd, load_orderly_end

TOPICS_FILE = "topics.json"
_MAGIC_AND_SYS_FLAG = struct.Struct(">4xi28xi")
_FIRST_RECORD_SIZE = 76
_FILES_AFTER_ORDERLY_STOP = 3


@attrs.frozen
class LastEnd:
    """How the last owner of a store left it."""

    is_clean: bool
    checkpoint: StoreCheckpoint
    orderly_end: OrderlyEnd | None
    durable_end: int
    """A record of the log before here that is not valid is damage: a start refuses the store."""
    walk_begin: int
    """A start looks at records from here on."""


def read_last_end(disk: Disk, inventory: Inventory, opened: ReadOnlyFiles) -> LastEnd:
    """Return what the small files say."""
    is_clean = not disk.exists(inventory.path_in_root(layout.ABORT_FILE))
    checkpoint = load_checkpoint(disk, inventory.path_in_root(layout.CHECKPOINT_FILE))
    orderly_end = load_orderly_end(disk, inventory.path_in_root(layout.ORDERLY_END_FILE)) if is_clean else None
    durable_end = 0
    if checkpoint.ends is not None:
        durable_end = checkpoint.ends.log_flushed_offset
    elif is_clean:
        durable_end = _largest_physical_end(inventory, opened)
    walk_begin = _walk_begin(inventory, opened, checkpoint, orderly_end, is_clean=is_clean)
    return LastEnd(is_clean, checkpoint, orderly_end, durable_end, walk_begin)


def _walk_begin(
    inventory: Inventory,
    opened: ReadOnlyFiles,
    checkpoint: StoreCheckpoint,
    orderly_end: OrderlyEnd | None,
    *,
    is_clean: bool,
) -> int:
    files = inventory.log_files
    if not files:
        return 0
    if is_clean:
        if orderly_end is not None and files[-1].base_offset <= orderly_end.end_offset < files[-1].end_offset:
            return orderly_end.end_offset
        return files[max(0, len(files) - _FILES_AFTER_ORDERLY_STOP)].base_offset
    if checkpoint.ends is not None:
        return max(checkpoint.ends.durable_offset, files[0].base_offset)
    for file in reversed(files[1:]):
        if 0 < first_timestamp_ms(opened, file) <= checkpoint.min_timestamp_ms:
            return file.base_offset
    return files[0].base_offset


def first_timestamp_ms(opened: ReadOnlyFiles, file: StoreFile) -> int:
    """Return the storeTimestamp of a log file's first record, 0 if it has none."""
    head = opened.read(file.path, 0, _FIRST_RECORD_SIZE)
    if len(head) < _FIRST_RECORD_SIZE:
        return 0
    magic, sys_flag = _MAGIC_AND_SYS_FLAG.unpack_from(head)
    position = layout.store_timestamp_position(sys_flag)
    return int.from_bytes(head[position : position + 8], "big") if magic == MESSAGE_MAGIC_CODE else 0


def _largest_physical_end(inventory: Inventory, opened: ReadOnlyFiles) -> int:
    """Return where the last record that any queue names ends: after an orderly stop all of them were durable."""
    largest = 0
    for queue in inventory.queues.values():
        low, high = queue.min_offset, queue.end_offset
        while low < high:
            middle = (low + high) // 2
            unit = _unit_at(opened, queue, middle)
            low, high = (middle + 1, high) if is_unit(unit) else (low, middle)
        unit = _unit_at(opened, queue, low - 1) if low > queue.min_offset else (0, 0, 0)
        if is_unit(unit) and not is_pre_blank(unit):
            largest = max(largest, unit[0] + unit[1])
    return largest


def _unit_at(opened: ReadOnlyFiles, queue: QueueFiles, queue_offset: int) -> tuple[int, int, int]:
    content = read_units(opened, queue, queue_offset, 1)
    return layout.UNIT.unpack(content) if content else (0, 0, 0)


# ---- findings -------------------------------------------------------------------------------------------------------


def small_file_findings(
    disk: Disk, inventory: Inventory, opened: ReadOnlyFiles, last_end: LastEnd, *, is_live: bool
) -> Iterator[Finding]:
    """Yield what is wrong with the small files."""
    if not last_end.is_clean and not is_live:
        yield Finding(
            severity=Severity.NOTICE,
            path=inventory.path_in_root(layout.ABORT_FILE),
            expected="no such file: it is there while a broker runs",
            found="it is there: the last broker was killed",
            start="recovers as after a crash",
            repair=NOTHING,
        )
    yield from _checkpoint_findings(inventory, last_end)
    noted_path = inventory.path_in_root(layout.ORDERLY_END_FILE)
    if last_end.is_clean and last_end.orderly_end is None and disk.exists(noted_path):
        yield Finding(
            severity=Severity.NOTICE,
            path=noted_path,
            expected="the end of log and queues in one line",
            found=repr(opened.read(noted_path, 0, 80)),
            start="walks up to three log files to find the end",
            repair=NOTHING,
        )
    for path in inventory.config_files:
        yield from _json_findings(disk, opened, path)


def _checkpoint_findings(inventory: Inventory, last_end: LastEnd) -> Iterator[Finding]:
    checkpoint = last_end.checkpoint
    times = (
        checkpoint.physic_msg_timestamp_ms,
        checkpoint.logics_msg_timestamp_ms,
        checkpoint.index_msg_timestamp_ms,
    )
    for number, time_ms in enumerate(times):
        if not 0 <= time_ms < TIME_MAX_MS:
            yield Finding(
                severity=Severity.WARNING,
                path=inventory.path_in_root(layout.CHECKPOINT_FILE),
                position=number * 8,
                expected="a time in milliseconds",
                found=f"{time_ms}",
                start="takes it at its word: after a crash it begins its walk too late, or at the beginning",
                repair="writes the checkpoint anew",
            )


def is_checkpoint_sane(checkpoint: StoreCheckpoint) -> bool:
    """Whether its times can be times."""
    times = (
        checkpoint.physic_msg_timestamp_ms,
        checkpoint.logics_msg_timestamp_ms,
        checkpoint.index_msg_timestamp_ms,
    )
    return all(0 <= each < TIME_MAX_MS for each in times)


def _json_findings(disk: Disk, opened: ReadOnlyFiles, path: str) -> Iterator[Finding]:
    main = why_no_json(disk, opened, path)
    backup = why_no_json(disk, opened, path + ".bak")
    if main is None:
        if backup is not None and backup != _MISSING:
            yield _json_finding(path + ".bak", Severity.NOTICE, backup, NOTHING, NOTHING)
    elif backup is None:
        severity = Severity.NOTICE if main in (_MISSING, _EMPTY) else Severity.WARNING
        yield _json_finding(path, severity, main, "reads the .bak", "writes it anew from the .bak")
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
    content = opened.read(path, 0, disk.file_size(path))
    if not content:
        return _EMPTY
    try:
        value = fastjson.loads(content)
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
            value = fastjson.loads(opened.read(candidate, 0, disk.file_size(candidate)))
            table = value.get("topicConfigTable") if isinstance(value, Mapping) else None
            if isinstance(table, Mapping):
                return frozenset(str(topic) for topic in table)
    return None
