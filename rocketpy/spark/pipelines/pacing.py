"""Rate limit of a task: batches are cut into pieces, and a piece waits until the rate allows it.

A piece has what is due in a tenth of a second. Time that was lost is made up for by a burst of at most that length, so
the rate of any second is hardly above the limit, whatever the task waited for before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

PIECE_SECONDS = 0.1


def paced(
    batches: Iterable[pa.RecordBatch],
    rate: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the batches in their order, at most ``rate`` rows a second."""
    rows_max = max(1, int(rate * PIECE_SECONDS))
    due = clock()
    for batch in batches:
        for start in range(0, batch.num_rows, rows_max):
            piece = batch.slice(start, rows_max)
            now = clock()
            if due > now:
                sleep(due - now)
            due = max(due, now - PIECE_SECONDS) + piece.num_rows / rate
            yield piece
