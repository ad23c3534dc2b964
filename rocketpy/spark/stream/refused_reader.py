"""The reader of a stream that cannot start: every call of Spark's raises the reason.

Rule: nothing is imported but what PySpark has loaded anyway. The reason may be that something is not installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from rocketpy.spark.failures import stated


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Looks like the reader of a stream, so that Spark goes as far as its first question."""

    def __init__(self, reason: Exception) -> None:
        self._reason = reason

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Raise the reason."""
        self._raise()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Raise the reason."""
        self._raise()

    def initialOffset(self) -> dict[str, object]:  # noqa: N802 - Spark's name
        """Raise the reason."""
        self._raise()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802 - Spark's name
        """Raise the reason."""
        self._raise()

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """Raise the reason."""
        self._raise()

    def read(self, partition: InputPartition) -> Iterator[object]:
        """Raise the reason."""
        self._raise()

    @stated
    def _raise(self) -> NoReturn:
        raise self._reason
