"""What an inspection of a store says: one finding for each place that is not as it should be.

A finding is for a person who has to decide: where, what was expected, what is there, what a start of the broker would
do about it and what ``rocketpy store repair`` would do. Nothing here looks at a disk.
"""

from __future__ import annotations

import enum

import attrs


class Severity(enum.Enum):
    """How much a finding matters, the worst first."""

    ERROR = "error"
    """Messages are lost, wrong or out of reach; or a start refuses the store."""
    WARNING = "warning"
    """Something serves less than it should, although every message is there."""
    NOTICE = "notice"
    """What a crash, another broker or a person leaves behind; a start deals with it, or nothing has to be done."""

    @property
    def is_severe(self) -> bool:
        """Whether somebody should act."""
        return self is not Severity.NOTICE


@attrs.frozen(kw_only=True)
class Finding:
    """One place. ``position`` is a byte in the file, None where the whole file or directory is meant."""

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
        """Return it as what JSON can say."""
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
"""For ``start`` and ``repair`` where they leave something as it is."""
