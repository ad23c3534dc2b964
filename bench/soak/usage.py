"""What a process and its folder use, as the kernel says.

Memory is what is neither a file's nor shared with one: pages of mapped files come and go as the kernel likes.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import attrs

_SCHEDULED = 2
"""The clock of a process that counts what all its threads were scheduled for (``CPUCLOCK_SCHED``)."""


@attrs.frozen
class Usage:
    """What a process holds at one moment."""

    memory_bytes: int
    """Anonymous pages, those that were swapped out among them."""
    sockets: int
    files: int
    removed_files: int
    """Descriptors of files that have no name any more."""
    other_descriptors: int
    threads: int


def usage_of(pid: int) -> Usage:
    """Return what a process holds now."""
    process = Path(f"/proc/{pid}")
    rollup = dict(line.split(":") for line in (process / "smaps_rollup").read_text().splitlines()[1:])
    targets = _descriptors(process / "fd")
    files = [each for each in targets if each.startswith("/") and not each.startswith("/dev/")]
    sockets = sum(each.startswith("socket:") for each in targets)
    return Usage(
        memory_bytes=sum(int(rollup[name].split()[0]) * 1024 for name in ("Anonymous", "Swap")),
        sockets=sockets,
        files=len(files),
        removed_files=sum(each.endswith(" (deleted)") for each in files),
        other_descriptors=len(targets) - len(files) - sockets,
        threads=len(os.listdir(process / "task")),
    )


def processor_ns(pid: int) -> int:
    """Return the processor time that a process has used, with that of its threads, those that have ended too."""
    return time.clock_gettime_ns((~pid << 3) | _SCHEDULED)


def bytes_below(directory: Path) -> int:
    """Return how much of the disk the files below a folder take; holes take nothing."""
    found = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):  # removed meanwhile
                found += os.stat(os.path.join(folder, name)).st_blocks * 512
    return found


def _descriptors(folder: Path) -> list[str]:
    found = []
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):  # closed meanwhile
            found.append(os.readlink(folder / name))
    return found
