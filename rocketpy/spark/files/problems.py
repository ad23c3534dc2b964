"""Damaged places of a store: what is known about one, and what a read does about it.

The modes have the names of Spark's other file formats:

- ``failFast``: the first damaged place is a :class:`StoreError` with file and position.
- ``permissive``: what can be read is read. A record whose body does not fit its checksum, or does not decompress, is a
  row all the same, with the body as it is stored; bytes without a record are skipped.
- ``dropMalformed``: as permissive, and such a record is skipped too. Bodies that no column needs are not decompressed.

Whatever is damaged is a row of the view ``problems``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TypeAlias

import attrs
import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from rocketpy.errors import StoreError

PROBLEMS_SCHEMA = StructType(
    [
        StructField("file", StringType(), nullable=False),
        StructField("position", LongType(), nullable=False),
        StructField("size", LongType(), nullable=False),
        StructField("what", StringType(), nullable=False),
    ]
)
_ARROW = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("what", pa.string(), nullable=False),
    ]
)


class ReadMode(Enum):
    """What a read does about damage; the value is the option's, in lower case."""

    FAIL_FAST = "failfast"
    PERMISSIVE = "permissive"
    DROP_MALFORMED = "dropmalformed"


@attrs.frozen
class Problem:
    """A damaged place: ``size`` bytes of a file, from ``position`` on, that are no record or not a sound one."""

    path: str
    position: int
    size: int
    what: str

    def as_error(self) -> StoreError:
        """Return the error of ``failFast``."""
        return StoreError(
            f"damaged: {self.what}; the options mode=permissive and mode=dropMalformed read on after it",
            path=self.path,
            position=self.position,
        )


Report: TypeAlias = Callable[[Problem], None]
"""Takes a problem, or raises it."""


def raise_problem(problem: Problem) -> None:
    """Report of ``failFast``."""
    raise problem.as_error()


def ignore_problem(problem: Problem) -> None:
    """Report of the other modes: the rows go on."""


def problems_batch(problems: Sequence[Problem]) -> pa.RecordBatch:
    """Return rows of the view ``problems``."""
    columns = zip(*map(attrs.astuple, problems), strict=True) if problems else ((), (), (), ())
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
