"""The tables of ``docs/spark.md``, made from the code: ``python -m tests.spark.page`` rewrites them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from rocketpy.spark import schema
from rocketpy.spark.options import table
from rocketpy.spark.pipelines.audit import findings
from rocketpy.spark.sink import columns as sink_columns

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
TABLES: dict[str, Callable[[], str]] = {
    "Options": table.documentation,
    "Columns": schema.documentation,
    "Columns of a write": sink_columns.documentation,
    "Findings of an audit": findings.documentation,
}
"""The section's heading, and what makes its table: the section's last paragraph."""


def with_tables(page: str) -> str:
    """Return the page with each table as the code makes it."""
    for heading, make in TABLES.items():
        before, mark, section = page.partition(f"\n## {heading}\n")
        assert mark, f"docs/spark.md has no section {heading}"
        text, _, after = section.partition("\n## ")
        words = re.sub(r"(?m)^\|.*\n?", "", text).rstrip("\n")
        page = before + mark + words + "\n\n" + make() + (f"\n## {after}" if after else "")
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
