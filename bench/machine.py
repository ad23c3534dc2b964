"""Facts about the machine that figures depend on: file system of the stores, processor, versions."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

NO_DISK = frozenset({"tmpfs", "ramfs", "devtmpfs"})


def filesystem_of(directory: Path) -> str:
    """Return the type of the file system that holds a directory, from the kernel's table of mounts."""
    where = str(directory.resolve())
    best, kind = "", "unknown"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        mount_point = fields[4]
        inside = where == mount_point or where.startswith(mount_point.rstrip("/") + "/")
        if inside and len(mount_point) >= len(best):
            best, kind = mount_point, fields[fields.index("-") + 1]
    return kind


def describe(directory: Path) -> dict[str, str]:
    """Return the facts that are printed above every table."""
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores, {_memory_gib():.0f} GiB",
        "kernel": platform.release(),
        "file system": filesystem_of(directory),
        "Python": " ".join(sys.version.split()),  # with date and compiler: who built it decides how fast it is
        "Java": _first_line(["java", "-version"]),
        "commit": _first_line(["git", "describe", "--always", "--dirty"], cwd=Path(__file__).parent),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _first_line(command: list[str], cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=20, check=False)
    except FileNotFoundError:
        return "not found"
    return (done.stdout or done.stderr).strip().partition("\n")[0]
