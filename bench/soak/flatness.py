"""Judges whether what was measured again and again has stayed the same. Pure.

The first quarter of the measurements is left out: tables, caches and allocators fill. The rest is cut in thirds, and
the median of the last third is compared with that of the first. A median takes no notice of a single measurement that
another program on the machine, or a collection of garbage, has disturbed. What grows with each visitor grows in two
thirds of the settled part, and is found if it is more than the allowance there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

import attrs

MEASUREMENTS_MIN = 8
"""Less than two in each third are too few for a judgement."""


@attrs.frozen
class Allowance:
    """By how much something may end higher than it began: the larger one of an amount and a share."""

    amount: float = 0.0
    share: float = 0.0

    def of(self, begin: float) -> float:
        """Return the allowance of something that begins with a value."""
        return max(self.amount, self.share * begin)


EXACT = Allowance()


@attrs.frozen
class Verdict:
    """One line of the report."""

    title: str
    unit: str
    begin: float
    end: float
    allowed: float

    @property
    def is_flat(self) -> bool:
        """Whether it has not grown, or by no more than is allowed."""
        return self.end - self.begin <= self.allowed

    def __str__(self) -> str:
        change = self.end - self.begin
        word = "flat" if self.is_flat else "GROWS"
        return (
            f"{self.title:<44} {self.begin:>11.2f} {self.end:>11.2f} {change:>+10.2f} {self.allowed:>9.2f}"
            f" {self.unit:<4} {word}"
        )


HEAD = f"{'':<44} {'begin':>11} {'end':>11} {'change':>10} {'allowed':>9}"


def settled_thirds(values: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    """Return the first and the last third of what was measured after the first quarter; ValueError for too little."""
    if len(values) < MEASUREMENTS_MIN:
        raise ValueError(f"{len(values)} measurements are too few for a judgement, expected {MEASUREMENTS_MIN} or more")
    settled = values[len(values) // 4 :]
    size = len(settled) // 3
    return settled[:size], settled[-size:]


def judge(title: str, unit: str, values: Sequence[float], allowance: Allowance) -> Verdict:
    """Compare the last third of measurements with the first settled one."""
    first, last = map(median, settled_thirds(values))
    return Verdict(title, unit, first, last, allowance.of(first))


def compare(title: str, unit: str, before: float, after: float, allowance: Allowance = EXACT) -> Verdict:
    """Compare what was there before anything came with what is there when all has gone."""
    return Verdict(title, unit, before, after, allowance.of(before))


def table(verdicts: Iterable[Verdict]) -> list[str]:
    """Return the report, and at its end what is not flat."""
    verdicts = list(verdicts)
    growing = [each.title for each in verdicts if not each.is_flat]
    return [HEAD, *map(str, verdicts), f"growing: {', '.join(growing)}" if growing else "everything is flat"]
