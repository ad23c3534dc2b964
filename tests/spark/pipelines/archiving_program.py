"""A program that archives a store in many runs, each with some more of it, and says when each has ended. To be killed.

``python archiving_program.py STORE ARCHIVE RUNS``
"""

from __future__ import annotations

import sys

from pyspark.sql import functions as F  # noqa: N812

from rocketpy.spark.pipelines.archive import archive
from rocketpy.spark.pipelines.sources import store_messages
from rocketpy.spark.session import open_local_session


def main(store: str, path: str, runs: int) -> None:
    """Archive the messages whose offset has the remainder 0, then those with 1 too, and so on."""
    spark = open_local_session("archiving", master="local[1]")
    for run in range(runs):
        messages = store_messages(spark, store, "b").where(F.col("queue_offset") % runs <= run)
        summary = archive(messages, path)
        print("archived", summary.written, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
