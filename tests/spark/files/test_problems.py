"""Problems: as rows, and as the error of failFast."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql.pandas.types import to_arrow_schema

from rocketpy.errors import StoreError
from rocketpy.spark.files.problems import (
    PROBLEMS_SCHEMA,
    Problem,
    ReadMode,
    ignore_problem,
    problems_batch,
    raise_problem,
)

PROBLEM = Problem("/store/commitlog/0", 4096, 120, "expected a record, found none")


def test_a_batch_has_the_schema_that_spark_expects() -> None:
    batch = problems_batch([PROBLEM, PROBLEM])
    assert batch.schema == to_arrow_schema(PROBLEMS_SCHEMA, timezone="UTC")
    assert batch.to_pylist()[1] == {
        "file": "/store/commitlog/0",
        "position": 4096,
        "size": 120,
        "what": "expected a record, found none",
    }
    assert problems_batch([]).num_rows == 0


def test_the_error_names_file_position_and_the_modes_that_read_on() -> None:
    with pytest.raises(
        StoreError, match=r"damaged: expected a record.*mode=permissive.*\(/store/commitlog/0 at 4096\)"
    ):
        raise_problem(PROBLEM)
    ignore_problem(PROBLEM)


def test_the_modes_are_those_of_spark() -> None:
    assert [ReadMode(word.lower()) for word in ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")] == list(ReadMode)
