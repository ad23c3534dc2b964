"""Bar chart of the measured figures: ``python -m bench.picture`` writes ``docs/speed.svg``.

The figures come from the tables in ``docs/performance.md``, with a bar for each broker that a table has. Each row is
scaled by itself, so that rates which differ by a factor of a hundred fit on one chart; every bar has its figure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parent.parent
PAGE_PATH = ROOT / "docs" / "performance.md"
PICTURE_PATH = ROOT / "docs" / "speed.svg"

RATES_HEADING = "Rates"
SIZES_HEADING = "Start and memory"
RATES = {
    "send 1x64": "send, 1 connection, 64 in flight",
    "send 4x64": "send, 4 connections, 64 in flight each",
    "send 1x1000": "send, 1 connection, 1,000 in flight",
    "send 32x1": "send, 32 connections, 1 in flight each",
    "send 1x1": "send, 1 connection, 1 in flight",
    "batch of 32": "batches of 32 messages",
    "pull of 32": "pulls of 32 messages",
}
"""Rows of which more is better, and their names on the chart."""

SIZES = {
    "spawn to first SEND_OK": "start: from spawn to the first SEND_OK",
    "RssAnon idle": "memory of an idle broker (RssAnon)",
}
"""Rows of which less is better."""

COLOURS = {"compiled": "#2f6fb2", "pure": "#8ab4dc", "ours": "#2f6fb2", "Java": "#c9a227"}
"""By the heading of a table's column, in the order of the bars; a table has some of them."""

NAMES = {"compiled": "rocketpy, compiled", "pure": "rocketpy, plain Python", "ours": "rocketpy", "Java": "Java 4.9.7"}
LABEL_WIDTH, BAR_WIDTH, BAR_HEIGHT, GAP = 250, 320, 11, 10
LEGEND_WIDTH = 160
WIDTH = LABEL_WIDTH + BAR_WIDTH + 130
_SECTION = re.compile(r"^##+ (.+)$", re.MULTILINE)


@attrs.frozen
class Row:
    """One row of a table: what was measured, and its figures as they are printed, by the heading of the column."""

    name: str
    unit: str
    figures: Mapping[str, str]

    @property
    def java(self) -> str:
        """The figure of the Java broker."""
        return self.figures["Java"]

    @property
    def ours(self) -> str:
        """The figure of our broker, of the compiled build where both were measured."""
        return next(self.figures[heading] for heading in ("compiled", "ours", "pure") if heading in self.figures)


def read_rows(page: str, heading: str) -> Mapping[str, Row]:
    """Return the rows of the table under a heading, by name."""
    parts = _SECTION.split(page)
    section = dict(zip(parts[1::2], parts[2::2], strict=True))[heading]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    columns = {heading: cells[0].index(heading) for heading in COLOURS if heading in cells[0]}
    return {
        row[0]: Row(row[0], row[1].split(" (")[0], {heading: row[column] for heading, column in columns.items()})
        for row in cells[2:]
    }


def draw(page: str) -> str:
    """Return the chart of the tables of a page, as SVG."""
    rates, sizes = read_rows(page, RATES_HEADING), read_rows(page, SIZES_HEADING)
    lines: list[str] = []
    y = _legend(lines, [rates[name] for name in RATES] + [sizes[name] for name in SIZES])
    y = _group(lines, y, "messages per second, longer is better", RATES, rates)
    y = _group(lines, y, "start and memory, shorter is better", SIZES, sizes)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#222222" role="img">'
    )
    title = "<title>rocketpy beside the Java broker of RocketMQ 4.9.7</title>"
    ground = f'<rect width="{WIDTH}" height="{y}" fill="#ffffff"/>'
    return "\n".join([head, title, ground, *lines, "</svg>", ""])


def main() -> None:
    """Write the chart."""
    PICTURE_PATH.write_text(draw(PAGE_PATH.read_text()))


def _legend(lines: list[str], rows: Sequence[Row]) -> int:
    headings = [heading for heading in COLOURS if any(heading in row.figures for row in rows)]
    for number, heading in enumerate(headings):
        x = LABEL_WIDTH + LEGEND_WIDTH * (number - (len(headings) > 2))
        lines.append(f'<rect x="{x}" y="12" width="12" height="12" fill="{COLOURS[heading]}"/>')
        lines.append(_text(x + 18, 22, NAMES[heading]))
    return 36


def _group(lines: list[str], y: int, heading: str, names: Mapping[str, str], rows: Mapping[str, Row]) -> int:
    lines.append(_text(10, y + 14, heading, 'font-weight="bold"'))
    y += 26
    for name, label in names.items():
        row = rows[name]
        shown = {heading: row.figures[heading] for heading in COLOURS if row.figures.get(heading, "-") != "-"}
        most = max(_number(figure) for figure in shown.values())
        unit = "" if row.unit == "messages/s" else f" {row.unit}"
        lines.append(_text(LABEL_WIDTH - 10, y + 15, label, 'text-anchor="end"'))
        for heading, figure in shown.items():
            width = max(1, round(BAR_WIDTH * _number(figure) / most))
            bar = f'width="{width}" height="{BAR_HEIGHT}" fill="{COLOURS[heading]}"'
            lines.append(f'<rect x="{LABEL_WIDTH}" y="{y}" {bar}/>')
            lines.append(_text(LABEL_WIDTH + width + 6, y + 10, figure + unit))
            y += BAR_HEIGHT + 1
        y += GAP
    return y


def _number(figure: str) -> float:
    return float(figure.replace(",", ""))


def _text(x: int, y: int, text: str, attributes: str = "") -> str:
    return f'<text x="{x}" y="{y}"{" " if attributes else ""}{attributes}>{text}</text>'


if __name__ == "__main__":
    main()
