"""Shuffles with one task for the tests of this folder: what they look at is small."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING = "spark.sql.shuffle.partitions"


@pytest.fixture(scope="module")
def small_shuffles(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(SETTING)
    spark.conf.set(SETTING, "1")
    yield
    spark.conf.set(SETTING, before)
