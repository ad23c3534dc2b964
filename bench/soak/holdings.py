"""What a process holds: memory and descriptors, as the kernel says."""

from __future__ import annotations

import os
from pathlib import Path

import attrs

DESCRIPTORS_MORE = 40
"""A broker opens files of its store as it grows, a client connections to brokers that it did not use before."""
MEMORY_MORE_BYTES = 64 << 20
"""Members keep messages that wait for their handlers, and interpreters give little back to the kernel."""


@attrs.frozen
class Holdings:
    """Memory in bytes, and open descriptors."""

    resident_bytes: int
    descriptors: int

    def __str__(self) -> str:
        return f"{self.resident_bytes / (1 << 20):.0f} MiB and {self.descriptors} descriptors"

    def excess(self, before: Holdings) -> list[str]:
        """Return what it holds too much of, measured by what it held before."""
        found = []
        if self.descriptors > before.descriptors + DESCRIPTORS_MORE:
            found.append(f"holds {self.descriptors} descriptors, and held {before.descriptors}")
        if self.resident_bytes > before.resident_bytes + MEMORY_MORE_BYTES:
            found.append(f"holds {self}, and held {before}")
        return found


def holdings_of(pid: int) -> Holdings:
    """Return what a process holds now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Holdings(pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir(f"/proc/{pid}/fd")))
