"""Medians, ratios and the printed table: a column for each broker that was measured, in the order of the turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bench.brokers import COMPILED, JAVA, PURE
from bench.rows import Row

LABELS = {JAVA: "Java", PURE: "pure", COMPILED: "compiled"}
TEN = 10
"""Rows of the mean of all rates: five sends, a batch, two pulls, two of SYNC_FLUSH."""


@dataclass
class Figures:
    """The rounds of one row, by the kind of the broker; the first kind is what the others are compared with."""

    row: Row
    rounds: dict[str, list[float]]

    def median_of(self, kind: str) -> float | None:
        """Return the median over the rounds, or nothing for a broker that has no figure."""
        return median(self.rounds[kind]) if self.rounds[kind] else None

    def ratio(self, kind: str) -> float | None:
        """Return the ratio of two medians, that of a kind to that of the first one."""
        first, this = self.median_of(next(iter(self.rounds))), self.median_of(kind)
        return this / first if this is not None and first else None

    def as_json(self) -> dict[str, object]:
        """Return the row for ``--json``."""
        return {
            "row": self.row.name,
            "unit": self.row.unit,
            "less_is_better": self.row.is_less_better,
            "medians": {kind: self.median_of(kind) for kind in self.rounds},
            "ratios": {kind: self.ratio(kind) for kind in list(self.rounds)[1:]},
            "rounds": self.rounds,
        }


def mean_ratio(figures: Sequence[Figures], kind: str) -> float | None:
    """Return the geometric mean of the ratios of some rows; nothing without rows, or where a ratio is missing."""
    ratios = [each.ratio(kind) for each in figures]
    known = [ratio for ratio in ratios if ratio]
    return math.exp(sum(map(math.log, known)) / len(known)) if known and len(known) == len(ratios) else None


def means(figures: Sequence[Figures]) -> dict[str, dict[str, float]]:
    """Return the means over rows that were measured whole: by what they are of, and by the kind of the broker."""
    found: dict[str, dict[str, float]] = {}
    sends = [each for each in figures if each.row.is_send]
    ten = [each for each in figures if each.row.is_of_ten]
    names = ", ".join(each.row.name for each in ten)
    whole = ten if len(ten) == TEN else []
    for name, rows in (("the send rows", sends), (f"all ten rates ({names})", whole)):
        kinds = list(rows[0].rounds)[1:] if rows else []
        of_kinds = {kind: mean for kind in kinds if (mean := mean_ratio(rows, kind)) is not None}
        if of_kinds:
            found[name] = of_kinds
    return found


def format_means(of: dict[str, dict[str, float]]) -> str:
    """Return a line for each mean."""
    return "\n".join(
        f"geometric mean of {name}: " + ", ".join(f"{LABELS[kind]} {mean:.2f}x" for kind, mean in of_kinds.items())
        for name, of_kinds in of.items()
    )


def format_table(figures: Sequence[Figures]) -> str:
    """Return the table in Markdown, ready for ``docs/performance.md``, with columns that line up."""
    if not figures:
        return "no row has such a name"
    lines = [_headings(list(figures[0].rounds)), *(_cells(each) for each in figures)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in [lines[0], rule, *lines[1:]]
    )


def _headings(kinds: Sequence[str]) -> list[str]:
    labels = [LABELS[kind] for kind in kinds]
    ratios = [f"{label} / {labels[0]}" for label in labels[1:]]
    return ["row", "unit", *labels, *ratios, *(f"{label} min..max" for label in labels)]


def _cells(figures: Figures) -> list[str]:
    direction = " (less is better)" if figures.row.is_less_better else ""
    kinds = list(figures.rounds)
    ratios = [figures.ratio(kind) for kind in kinds[1:]]
    return [
        figures.row.name,
        figures.row.unit + direction,
        *(_number(figures.median_of(kind)) for kind in kinds),
        *(f"{ratio:.2f}x" if ratio is not None else "-" for ratio in ratios),
        *(_span(figures.rounds[kind]) for kind in kinds),
    ]


def _span(values: Sequence[float]) -> str:
    return f"{_number(min(values))}..{_number(max(values))}" if values else "-"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
