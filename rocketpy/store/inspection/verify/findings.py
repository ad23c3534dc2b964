"""Findings of an inspection: one for each inconsistency in a store.

A finding is for an operator who has to decide. It names the position, what was expected and found, what the next start
of the broker would do about it, and what ``rocketpy store repair`` would do. Nothing here reads a disk.
"""

from __future__ import annotations

import enum

import attrs


class Severity(enum.Enum):
    """Severity of a finding, the worst first."""

    ERROR = "error"
    """Messages are lost, wrong or out of reach; or a start refuses the store."""
    WARNING = "warning"
    """Something serves less than it should, although every message is there."""
    NOTICE = "notice"
    """Left by a crash, another broker or a person; the next start resolves it, or it is harmless."""

    @property
    def is_severe(self) -> bool:
        """Whether the operator should act."""
        return self is not Severity.NOTICE


@attrs.frozen(kw_only=True)
class Finding:
    """One inconsistency. ``position`` is a byte in the file, None for a whole file or directory."""

    severity: Severity
    path: str
    position: int | None = None
    expected: str
    found: str
    start: str
    """What the next start of a broker does about it."""
    repair: str
    """What a repair would do about it."""

    def __str__(self) -> str:
        where = self.path if self.position is None else f"{self.path} at {self.position}"
        return f"{self.severity.value}: {where}: expected {self.expected}, found {self.found}"

    def as_fields(self) -> dict[str, object]:
        """Return the finding as JSON-compatible values."""
        return {
            "severity": self.severity.value,
            "path": self.path,
            "position": self.position,
            "expected": self.expected,
            "found": self.found,
            "start": self.start,
            "repair": self.repair,
        }


NOTHING = "nothing"
"""Value of ``start`` and ``repair`` where they change nothing."""
