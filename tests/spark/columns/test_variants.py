"""Bodies as VARIANT: what is JSON, and what is not."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import pyarrow as pa
from pyspark.sql.types import VariantVal

from rocketpy.spark.columns.variants import variant_column
from rocketpy.spark.schema import projection, spark_schema

TYPE = projection(spark_schema(["body"], body_as="variant")).field("body").type


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": [1, 2.5, "gr\xc3\xbcn"], "b": null}', {"a": [1, 2.5, "grün"], "b": None}),
        (b"7", 7),
        (b"null", None),
    ],
)
def test_json_is_the_value_that_it_says(body: bytes, value: object) -> None:
    [found] = variant_column(pa.array([body], pa.binary()), TYPE).to_pylist()
    assert VariantVal(found["value"], found["metadata"]).toPython() == value


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b'"\\ud800"', b"[" * 100_000, b"9" * 5000, b'"' + b"x" * 2**24 + b'"']
)
def test_what_is_no_json_is_null_and_spoils_nothing_else(body: bytes) -> None:
    """A producer writes what it likes; the rest must stay readable."""
    column = variant_column(pa.array([b"1", body, b"2"], pa.binary()), TYPE)
    column.validate(full=True)
    assert [each is None for each in column.to_pylist()] == [False, True, False]
