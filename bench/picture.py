"""Bar chart of the measured figures: ``python -m bench.picture`` writes ``docs/speed.svg``.

The figures come from the tables in ``docs/performance.md``. Each row is scaled by itself, so that rates which differ by
a factor of a hundred fit on one chart; every bar has its figure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parent.parent
PAGE_PATH = ROOT / "docs" / "performance.md"
PICTURE_PATH = ROOT / "docs" / "speed.svg"

RATES_HEADING = "The whole broker: accounts, filters, statistics"
SIZES_HEADING = "The latest table"
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

OURS_COLOUR, JAVA_COLOUR = "#2f6fb2", "#c9a227"
LABEL_WIDTH, BAR_WIDTH, BAR_HEIGHT, ROW_HEIGHT = 250, 320, 11, 34
WIDTH = LABEL_WIDTH + BAR_WIDTH + 130
_SECTION = re.compile(r"^##+ (.+)$", re.MULTILINE)


@attrs.frozen
class Row:
    """One row of a table: what was measured, and both figures as they are printed."""

    name: str
    unit: str
    java: str
    ours: str


def read_rows(page: str, heading: str) -> Mapping[str, Row]:
    """Return the rows of the table under a heading, by name."""
    parts = _SECTION.split(page)
    section = dict(zip(parts[1::2], parts[2::2], strict=True))[heading]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return {row[0]: Row(row[0], row[1].split(" (")[0], row[2], row[3]) for row in cells[2:]}


def draw(page: str) -> str:
    """Return the chart of the tables of a page, as SVG."""
    rates, sizes = read_rows(page, RATES_HEADING), read_rows(page, SIZES_HEADING)
    lines: list[str] = []
    y = _legend(lines)
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


def _legend(lines: list[str]) -> int:
    for x, colour, name in ((LABEL_WIDTH, OURS_COLOUR, "rocketpy"), (LABEL_WIDTH + 100, JAVA_COLOUR, "Java 4.9.7")):
        lines.append(f'<rect x="{x}" y="12" width="12" height="12" fill="{colour}"/>')
        lines.append(_text(x + 18, 22, name))
    return 36


def _group(lines: list[str], y: int, heading: str, names: Mapping[str, str], rows: Mapping[str, Row]) -> int:
    lines.append(_text(10, y + 14, heading, 'font-weight="bold"'))
    y += 26
    for name, label in names.items():
        row = rows[name]
        lines.append(_text(LABEL_WIDTH - 10, y + 15, label, 'text-anchor="end"'))
        figures = [_number(row.ours), _number(row.java)]
        unit = "" if row.unit == "messages/s" else f" {row.unit}"
        bars: Sequence[tuple[str, str]] = ((OURS_COLOUR, row.ours), (JAVA_COLOUR, row.java))
        for index, (colour, figure) in enumerate(bars):
            width = max(1, round(BAR_WIDTH * figures[index] / max(figures)))
            top = y + index * (BAR_HEIGHT + 1)
            lines.append(f'<rect x="{LABEL_WIDTH}" y="{top}" width="{width}" height="{BAR_HEIGHT}" fill="{colour}"/>')
            lines.append(_text(LABEL_WIDTH + width + 6, top + 10, figure + unit))
        y += ROW_HEIGHT
    return y


def _number(figure: str) -> float:
    return float(figure.replace(",", ""))


def _text(x: int, y: int, text: str, attributes: str = "") -> str:
    return f'<text x="{x}" y="{y}"{" " if attributes else ""}{attributes}>{text}</text>'


if __name__ == "__main__":
    main()
