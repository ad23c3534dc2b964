"""Shuffles with one task for the tests of this folder that use Spark: what they look at is small."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

SETTING = "spark.sql.shuffle.partitions"


@pytest.fixture(autouse=True)
def _small_shuffles(request: pytest.FixtureRequest) -> Iterator[None]:
    if "spark" not in request.fixturenames:
        yield
        return
    spark = request.getfixturevalue("spark")
    before = spark.conf.get(SETTING)
    spark.conf.set(SETTING, "1")
    yield
    spark.conf.set(SETTING, before)
