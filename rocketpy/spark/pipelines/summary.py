"""Result of a pipeline in figures: what was read, written and skipped. The same for every pipeline.

A value without Spark: the command line prints it as lines or as JSON, a notebook looks at its attributes.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rocketpy.clock import Clock


@attrs.frozen(kw_only=True)
class Summary:
    """What one run of a pipeline did, in messages.

    ``read`` counts what the run looked at and ``written`` what it added to its target. ``skipped`` counts the rest by
    reason. ``details`` has what only this pipeline knows, in types that JSON has.
    """

    pipeline: str
    read: int
    written: int = 0
    skipped: Mapping[str, int] = attrs.field(factory=dict)
    seconds: float = 0.0
    details: Mapping[str, object] = attrs.field(factory=dict)

    @property
    def skipped_count(self) -> int:
        """Return how many messages were skipped, for all reasons together."""
        return sum(self.skipped.values())

    def as_fields(self) -> dict[str, object]:
        """Return the summary as a JSON object."""
        return {
            "pipeline": self.pipeline,
            "read": self.read,
            "written": self.written,
            "skipped": dict(self.skipped),
            "seconds": round(self.seconds, 3),
            **self.details,
        }

    def lines(self) -> list[str]:
        """Return the summary as lines of text: one with the figures, then one for each reason and each detail."""
        rate = f" ({round(self.read / self.seconds)}/s)" if self.seconds > 0 else ""
        figures = f"{self.read} read, {self.written} written, {self.skipped_count} skipped"
        return [
            f"{self.pipeline}: {figures} in {self.seconds:.1f} s{rate}",
            *(f"    skipped {count}: {reason}" for reason, count in self.skipped.items() if count),
            *(f"    {name}: {_shown(value)}" for name, value in self.details.items()),
        ]


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {count}" for name, count in value.items()) or "none"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def seconds_since(begin_ms: int, clock: Clock) -> float:
    """Return how long a run has taken; 0 if the clock was set back meanwhile."""
    return max(0, clock.timestamp_ms() - begin_ms) / 1000
