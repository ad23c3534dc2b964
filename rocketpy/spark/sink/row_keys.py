"""Keys of rows: which row of which write a message is, so that duplicates of a repeated task can be removed.

Spark repeats a task that failed, and a micro-batch after a restart; the messages that were stored before stay in the
topic. Rule: the same row of the same write, or of the same micro-batch of a query, has the same key in every attempt,
because it is made of what Spark keeps: the write (or the query's id and the batch's number), partition, and the
position of the row in its partition. The key names a position, so it is as repeatable as the plan before the sink: a
shuffle may bring rows in another order. Where that matters, sort within partitions, or bring a key of the content.

| ``rowKey`` | a message has |
|---|---|
| ``property`` | the key in the property ``SPARK_ROW_KEY``, and a UNIQ_KEY made as the client makes it |
| ``uniqueKey`` | a UNIQ_KEY derived from the key: the message id itself repeats |
| ``none`` | a UNIQ_KEY made as the client makes it |

The derived UNIQ_KEY has the 32 digits of others: 16 of the MD5 of the write, 6 of the partition, 10 of the row.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from hashlib import md5

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PROPERTY_SPARK_ROW_KEY = "SPARK_ROW_KEY"
CreateKeys = Callable[[int], list[str]]


class RowKeyMode(enum.Enum):
    """Where the key of a row goes."""

    PROPERTY = "property"
    UNIQUE_KEY = "uniqueKey"
    NONE = "none"


@attrs.frozen
class TaskRows:
    """The rows of one task: ``write`` names the write, or query and micro-batch."""

    write: str
    partition: int

    def row_key(self, row: int) -> str:
        """Return the key of one row."""
        return f"{self.write}/{self.partition}/{row}"

    def row_keys(self, first_row: int, count: int) -> pa.StringArray:
        """Return the keys of consecutive rows."""
        rows = pa.array(np.arange(first_row, first_row + count)).cast(pa.string())
        return pc.binary_join_element_wise(f"{self.write}/{self.partition}", rows, "/")

    def unique_keys(self, first_row: int, count: int) -> pa.StringArray:
        """Return the UNIQ_KEYs that are derived from the keys of consecutive rows."""
        digest = md5(self.write.encode(), usedforsecurity=False).hexdigest()[:16].upper()
        head = f"{digest}{self.partition & 0xFF_FFFF:06X}"
        return pa.array(
            [f"{head}{row & 0xFF_FFFF_FFFF:010X}" for row in range(first_row, first_row + count)], pa.string()
        )


class MessageKeys:
    """The keys of the messages of one task, in the chosen mode."""

    def __init__(self, rows: TaskRows, mode: RowKeyMode, create_unique_keys: CreateKeys) -> None:
        """``create_unique_keys`` makes so many as the client does."""
        self._rows = rows
        self._mode = mode
        self._create = create_unique_keys

    def unique_keys(self, first_row: int, count: int) -> pa.StringArray:
        """Return the UNIQ_KEY of each row."""
        if self._mode is RowKeyMode.UNIQUE_KEY:
            return self._rows.unique_keys(first_row, count)
        return pa.array(self._create(count), pa.string())

    def row_keys(self, first_row: int, count: int) -> pa.StringArray | None:
        """Return the value of the property SPARK_ROW_KEY of each row, None where there is none."""
        return self._rows.row_keys(first_row, count) if self._mode is RowKeyMode.PROPERTY else None
