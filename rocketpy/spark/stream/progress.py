"""Lag of a stream, from the progress that Spark reports of a query.

::

    lags = queue_lags(query.lastProgress.sources[0])        # {MessageQueue(...): 17, ...}

Spark's API for Python sources has no metrics of their own (4.3: ``ReportsSourceMetrics`` is not implemented for them).
What it reports is ``endOffset``, up to where batches have read, and ``latestOffset``, the end of the queues when the
batch was planned. The lag is the difference. Under Trigger.AvailableNow ``latestOffset`` is the end of the run.
"""

from __future__ import annotations

import json
from typing import Protocol

from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.stream.offsets import read_offset


class SourceProgress(Protocol):
    """``pyspark.sql.streaming.listener.SourceProgress``: offsets as JSON texts, or None before the first batch."""

    @property
    def endOffset(self) -> str | None: ...  # noqa: N802 - Spark's name

    @property
    def latestOffset(self) -> str | None: ...  # noqa: N802 - Spark's name


def queue_lags(progress: SourceProgress) -> dict[MessageQueue, int]:
    """Return for each queue how many offsets a query is behind; empty before the first batch."""
    read_to, latest = _offsets(progress.endOffset), _offsets(progress.latestOffset)
    return {queue: max(0, end - read_to.get(queue, 0)) for queue, end in sorted(latest.items())}


def _offsets(text: str | None) -> dict[MessageQueue, int]:
    document = None if text is None else json.loads(text)
    return {} if document is None else dict(read_offset(document).queues)
