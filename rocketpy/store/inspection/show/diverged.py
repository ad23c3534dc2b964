"""The parts of the log that a slave has cut off where it parted from its master's, and kept.

Each is a directory of log files, which ``rocketpy store dump`` prints, and ``rocketpy store export --through-log`` with
``--commitlog`` exports. Read-only.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from rocketpy.store import layout
from rocketpy.store.disk.interface import Disk
from rocketpy.store.inspection.verify.inventory import measured
from rocketpy.store.inspection.verify.log_walk import LogWalk
from rocketpy.store.inspection.verify.read_only_files import ReadOnlyFiles


@attrs.frozen
class KeptTail:
    """One part of a log that was cut off. Offsets in bytes, times in ms, 0 without a record."""

    path: str
    begin_offset: int
    end_offset: int
    record_count: int
    first_timestamp_ms: int
    last_timestamp_ms: int


def kept_tails(disk: Disk, root: str) -> Iterator[KeptTail]:
    """Yield what a store has kept, in order of its offsets. Reads all of it."""
    directory = f"{root}/{layout.DIVERGED_DIRECTORY}"
    for name in disk.list_directory(directory):
        path = f"{directory}/{name}"
        listed = [
            (f"{path}/{each}", base_offset, disk.file_size(f"{path}/{each}"))
            for each in disk.list_directory(path)
            if (base_offset := layout.base_offset_of(each)) is not None
        ]
        if listed:
            yield _tail(disk, path, listed)


def _tail(disk: Disk, path: str, listed: list[tuple[str, int, int]]) -> KeptTail:
    opened, first_ms = ReadOnlyFiles(disk), 0
    try:
        walk = LogWalk(measured(listed)[0], opened)
        for found in walk.slices():
            if found.records and not first_ms:
                first_ms = found.records[0].store_timestamp
    finally:
        opened.close()
    _, last_base, last_length = listed[-1]
    return KeptTail(path, listed[0][1], last_base + last_length, walk.record_count, first_ms, walk.timestamp_ms)
