"""Medians, ratios and the printed table."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median

from bench.rows import Row

HEADINGS = ["row", "unit", "Java", "ours", "ours / Java", "Java min..max", "ours min..max"]


@dataclass
class Figures:
    """The rounds of one row for both brokers."""

    row: Row
    rounds: dict[str, list[float]] = field(default_factory=lambda: {"java": [], "ours": []})

    def median_of(self, kind: str) -> float | None:
        """Return the median over the rounds, or nothing for a broker that was not measured."""
        return median(self.rounds[kind]) if self.rounds[kind] else None

    def ratio(self) -> float | None:
        """Return the ratio of the two medians, ours to Java's."""
        java, ours = self.median_of("java"), self.median_of("ours")
        return ours / java if ours is not None and java else None

    def as_json(self) -> dict[str, object]:
        """Return the row for ``--json``."""
        return {
            "row": self.row.name,
            "unit": self.row.unit,
            "less_is_better": self.row.is_less_better,
            "java": self.median_of("java"),
            "ours": self.median_of("ours"),
            "ratio": self.ratio(),
            "rounds": self.rounds,
        }


def send_mean(figures: list[Figures]) -> float | None:
    """Return the geometric mean of the send rows' ratios, or nothing unless every one of them was measured."""
    ratios = [each.ratio() for each in figures if each.row.is_send]
    known = [ratio for ratio in ratios if ratio]
    return math.exp(sum(map(math.log, known)) / len(known)) if known and len(known) == len(ratios) else None


def format_table(figures: list[Figures]) -> str:
    """Return the table in Markdown, ready for ``docs/performance.md``, with columns that line up."""
    lines = [HEADINGS, *(_cells(each) for each in figures)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in [HEADINGS, rule, *lines[1:]]
    )


def _cells(figures: Figures) -> list[str]:
    ratio = figures.ratio()
    direction = " (less is better)" if figures.row.is_less_better else ""
    return [
        figures.row.name,
        figures.row.unit + direction,
        _number(figures.median_of("java")),
        _number(figures.median_of("ours")),
        f"{ratio:.2f}x" if ratio is not None else "-",
        _span(figures.rounds["java"]),
        _span(figures.rounds["ours"]),
    ]


def _span(values: list[float]) -> str:
    return f"{_number(min(values))}..{_number(max(values))}" if values else "-"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
