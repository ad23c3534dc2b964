"""What a test needs that starts Spark itself: PySpark and a Java that it can use."""

from __future__ import annotations

import os

import pytest

from rocketpy.errors import StartError


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
