"""What a test needs that starts Spark itself: PySpark, a Java that it can use, and options for short runs of Java.

Most of what a Spark process of a test costs is the start: Java loads 20,000 classes, and its second compiler optimizes
code that soon ends. The options leave that compiler out. A file of the loaded classes, which Java maps, takes 90 s of
processor time to write and saves each Spark 8 to 10 s, no more than that for those of a run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from rocketpy.errors import StartError

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

DRIVER_OPTIONS = "SPARK_SUBMIT_OPTS"
"""The variable from which Spark's scripts take options for the Java of a driver, before those of its settings."""

SHORT_RUN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
INTERPRETED = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
"""To compile a query costs more than to interpret it for a thousand rows."""

SILENT = "-Xlog:disable -Xlog:all=error:stderr"
"""No warnings of Java's about classes that it cannot share: they would go to the standard output."""


def started_query(
    writer: DataStreamWriter, start: Callable[[DataStreamWriter], StreamingQuery] | None = None
) -> StreamingQuery:
    """Start a query, again where its process was too slow: Spark gives the one that plans batches ten seconds."""
    for _ in range(10):
        query = start(writer) if start else writer.start()
        while query.isActive and query.status["message"].startswith("Initializing"):
            time.sleep(0.02)
        if "Python worker failed to connect back" not in str(query.exception()):
            break
    return query


def require_spark() -> None:
    """Skip the test without PySpark, and without Java, unless ROCKETPY_REQUIRE demands Java: then it fails."""
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")
    from rocketpy.spark.session import check_java

    try:
        check_java()
    except StartError as error:
        if "java" in os.environ.get("ROCKETPY_REQUIRE", ""):
            raise
        pytest.skip(str(error))
