"""Rows of the driver as a DataFrame that costs no job: a local relation, which Catalyst sees as it plans.

``createDataFrame`` of a list pickles the rows, and each use of them is a job. Of an Arrow table it makes a local
relation (up to ``spark.sql.execution.arrow.localRelationThreshold``, 48 MiB), in one partition here, so that Spark need
not shuffle it for an aggregation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql.types import StructType

from rocketpy.spark.schema import arrow_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def local_frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str | StructType) -> DataFrame:
    """Return the rows as a DataFrame; a schema is a type or its text (DDL)."""
    struct = cast("StructType", StructType.fromDDL(schema)) if isinstance(schema, str) else schema
    arrow = pa.schema([pa.field(field.name, arrow_type(field.dataType)) for field in struct.fields])
    columns = zip(*rows, strict=True) if rows else [()] * len(arrow)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow, strict=True)]
    table: Any = pa.Table.from_arrays(arrays, schema=arrow)  # PySpark's type hints know lists and pandas only
    frame: DataFrame = spark.createDataFrame(table, struct)
    return frame.coalesce(1)


def spread(rows: DataFrame, tasks: int) -> DataFrame:
    """Return local rows in a partition for each task, at least one. A task for a small file costs more than it."""
    return rows.repartition(tasks) if tasks > 1 else rows
