"""The documentation of the data source says what the code does."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from tests.spark.page import PAGE, TABLES, with_tables


def test_the_tables_are_what_the_code_makes_of_them() -> None:
    """``python -m tests.spark.page`` rewrites them."""
    page = PAGE.read_text()
    assert with_tables(page) == page


@pytest.mark.parametrize("heading", TABLES)
def test_a_stale_table_is_replaced_and_the_words_around_it_are_kept(heading: str) -> None:
    page = PAGE.read_text()
    first_row = TABLES[heading]().splitlines(keepends=True)[2]
    assert first_row in page
    assert with_tables(page.replace(first_row, "")) == page
