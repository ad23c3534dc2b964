"""One local Spark session for all tests of this folder; skipped, or failed where Java is required, without Java 17."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark_runtime import require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SMALL = {
    "spark.sql.shuffle.partitions": "2",
    # To compile a query costs more than to interpret it for a thousand rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # No line of a test in errors about its columns, and no check of Spark's own plans.
    "spark.sql.dataFrameQueryContext.enabled": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
}
"""For many small queries: what they cost is plans and tasks, not data."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs in the session of Spark; the other tests of this folder need no Java."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session that finds the data source by itself, as a user's would."""
    require_spark()
    from rocketpy.spark.session import open_local_session

    # Workers inherit the environment of the JVM; the checkout must be where Python looks for top-level modules.
    checkout = str(Path(__file__).resolve().parents[2])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [checkout, os.environ.get("PYTHONPATH", "")]))
    os.environ["SPARK_LOCAL_DIRS"] = str(tmp_path_factory.mktemp("spark"))
    settings = SMALL | {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    with open_local_session("rocketpy tests", master="local[1]", settings=settings) as session:
        yield session
