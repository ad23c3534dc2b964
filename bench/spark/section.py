"""What a section of the Spark benchmark gets, and how it measures and prints: the same for all sections."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import attrs
from pyspark.sql import DataFrame

Read: TypeAlias = Callable[[], DataFrame]


@attrs.frozen(kw_only=True)
class Bench:
    """Options of a run, and an empty directory of the section's own. A section starts and stops its Spark session."""

    work: Path
    mib: int
    body_sizes: Sequence[int]
    rounds: int
    cores: int


Section: TypeAlias = Callable[[Bench], None]
"""Prints a heading, and one line for each measurement."""


def seconds_of(frame: DataFrame) -> float:
    """Read a DataFrame into nothing; return how long that took."""
    begin = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin


def compare(rounds: int, rows: int, *reads: Read) -> list[float]:
    """Read in turn, round by round, so that what else the machine does meets all; return the medians in rows/s."""

    def rate(read: Read) -> float:
        return rows / seconds_of(read())

    return medians(rounds, *(partial(rate, read) for read in reads))


def medians(rounds: int, *measures: Callable[[], float]) -> list[float]:
    """Measure in turn, round by round; return the median of each."""
    figures: list[list[float]] = [[] for _ in measures]
    for _ in range(rounds):
        for measure, found in zip(measures, figures, strict=True):
            found.append(measure())
    return list(map(statistics.median, figures))
