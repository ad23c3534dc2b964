"""Processes under measurement: their descendants, and the processor time that they have used."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_OWN = (11, 12)  # fields of /proc/PID/stat after the name: user and system time
_OF_ENDED_CHILDREN = (13, 14)
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def with_descendants(pid: int) -> list[int]:
    """Return the ids of a process and of its descendants that run."""
    found = [pid]
    for each in found:  # grows meanwhile
        for path in Path(f"/proc/{each}/task").glob("*/children"):
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                found += map(int, path.read_text().split())
    return found


def processor_s(pid: int) -> float:
    """Return the processor time that a process has used so far, with that of its threads."""
    return _processor_s(pid, _OWN)


def processor_s_of_all(pid: int) -> float:
    """Return the processor time of a process, its ended children, and the descendants that run."""
    seconds = 0.0
    for each in with_descendants(pid):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended: its parent has its time
            seconds += _processor_s(each, _OWN + _OF_ENDED_CHILDREN)
    return seconds


def _processor_s(pid: int, numbers: tuple[int, ...]) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(fields[number]) for number in numbers) / _TICKS_PER_S
