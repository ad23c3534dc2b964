"""Memory of a process that reads a store in one part: it must be that of a piece, whatever the size of the file."""

from __future__ import annotations

import multiprocessing
import resource
import sys

from rocketpy.spark.readers import open_reader
from rocketpy.spark.schema import SPARK_SCHEMA

GROWTH_MIB_MAX = 64
"""What a process may need more for a large file than for a small one; a whole file would be much more."""


def peak_mib(store: str) -> int:
    """Return the most memory that a new process had while it read all columns of a store, a task after the other."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_read, (store,))


def _read(store: str) -> int:
    reader = open_reader({"path": store, "maxPartitionBytes": "1024g", "readUnits": "never"}, SPARK_SCHEMA)
    for part in reader.partitions():
        for batch in reader.read(part):
            assert batch.num_rows  # type: ignore[union-attr]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (2**20 if sys.platform == "darwin" else 2**10)
