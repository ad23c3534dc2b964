"""Bodies that are JSON, as Spark's VARIANT.

PySpark parses each in Python, so this is for bodies that are to be looked into anyway. ``parse_json(body)`` of a body
that is read as a string does the same in the JVM, faster.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import VariantVal


def variant_column(bodies: pa.BinaryArray, arrow_type: pa.DataType) -> pa.StructArray:
    """Return bodies as values of JSON; null for one that is no JSON in UTF-8, or larger than a VARIANT may be."""
    return pa.array([_variant(body) for body in bodies.to_pylist()], arrow_type)


def _variant(body: bytes) -> dict[str, bytes] | None:
    try:
        parsed = VariantVal.parseJson(body.decode())
    except (ValueError, OverflowError, RecursionError):
        return None
    return {"value": bytes(parsed.value), "metadata": bytes(parsed.metadata)}
