"""Figures of queues, from which bounds and gaps follow."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession

from rocketpy.spark.pipelines.audit.extents import QueueExtent, bounds_of_queues, first_units, queue_extents
from rocketpy.spark.pipelines.audit.queue_units import UNIT_SCHEMA
from rocketpy.spark.pipelines.local_rows import local_frame


def test_units_outside_count_as_units_but_are_not_the_first_or_the_last(spark: SparkSession) -> None:
    offsets = {"Whole": [3, 4, 5], "Gap": [3, 5], "Gone": [0, 1]}
    rows = [(topic, 0, number, number * 100, 50, 0, None) for topic, numbers in offsets.items() for number in numbers]
    units = local_frame(spark, rows, UNIT_SCHEMA)
    extents = sorted(queue_extents(units, log_min_offset=400, log_end_offset=500), key=lambda each: each.topic)
    assert extents[2] == QueueExtent(
        topic="Whole",
        queue_id=0,
        units=3,
        min_queue_offset=3,
        max_queue_offset=5,
        first_queue_offset=4,
        first_physical_offset=400,
        last_physical_offset=400,
        end_physical_offset=550,
    )
    assert [(each.topic, each.has_gaps) for each in extents] == [("Gap", True), ("Gone", False), ("Whole", False)]
    assert sorted(map(tuple, bounds_of_queues(spark, extents).collect())) == [
        ("Gap", 0, 6, 6),
        ("Gone", 0, 2, 2),
        ("Whole", 0, 4, 6),
    ]
    assert [tuple(row) for row in first_units(spark, extents).collect()] == [("Whole", 0, 4, 400)]
