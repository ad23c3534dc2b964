"""How many jobs Spark runs for something: each costs a tenth of a second or more, whatever it does."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def counted_jobs(spark: SparkSession) -> Iterator[Callable[[], int]]:
    """Count the jobs of the block; it gets a function that returns how many there were so far."""
    context, group = spark.sparkContext, f"test-{uuid.uuid4()}"
    context.setJobGroup(group, "counted by a test")
    try:
        yield lambda: len(context.statusTracker().getJobIdsForGroup(group))
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
