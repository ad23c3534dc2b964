"""The program under "Five minutes" of ``docs/spark.md`` runs, and prints what the page shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def test_the_first_program_prints_what_the_page_shows(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    section = PAGE.read_text().partition("\n## Five minutes\n")[2].partition("\n## ")[0]
    [(program, shown)] = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", section, re.DOTALL)
    made: dict[str, object] = {}
    try:
        exec(program, made)  # its session is the one of the tests
        assert capsys.readouterr().out.split() == shown.split()
    finally:
        made["rocketmq"].stop()  # type: ignore[attr-defined]
