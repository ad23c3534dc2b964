"""DataFrames over a store directory, beside the same rows as Parquet: ``python -m bench.spark [--mib N ...]``.

    python -m bench.spark                          # 200 MiB of 128-byte and of 1 KiB messages, about three minutes
    python -m bench.spark --mib 1024 --rounds 5    # the sizes of docs/performance.md

A store is written by the message store itself, and read once into Parquet. Then both are read in turn, by two cores of
a local session: counted by topic and queue, and with all columns into nothing. The figures are medians in rows a
second; quote the ratios, for the machine is never quiet enough for the figures.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.spark.stores import make_store
from rocketpy.spark.session import open_local_session

Read = Callable[[], DataFrame]


def main() -> int:
    """Print one line for each measurement."""
    options = _parse_options()
    options.directory.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="spark-", dir=options.directory))
    spark = open_local_session("bench", master=f"local[{options.cores}]")
    try:
        for body_bytes in options.body:
            _measure(spark, work / str(body_bytes), body_bytes, options)
    finally:
        spark.stop()
        shutil.rmtree(work, ignore_errors=True)
    return 0


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description="Store directories beside Parquet.")
    parser.add_argument("--mib", type=int, default=200, help="size of the CommitLog")
    parser.add_argument("--body", type=int, nargs="+", default=[128, 1024], help="sizes of a message's body")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--directory", type=Path, default=Path(__file__).parents[1] / "results")
    return parser.parse_args()


def _measure(spark: SparkSession, work: Path, body_bytes: int, options: argparse.Namespace) -> None:
    store, parquet = str(work / "store"), str(work / "parquet")
    rows = make_store(Path(store), log_bytes=options.mib << 20, body_bytes=body_bytes)
    print(f"{rows} messages of {body_bytes} bytes, {options.mib} MiB, {options.cores} cores")
    spark.read.format("rocketmq").load(store).write.parquet(parquet)
    reads: dict[str, tuple[Read, Read]] = {
        "count by topic and queue": (
            lambda: _count(spark.read.format("rocketmq").schema("topic string, queue_id int").load(store)),
            lambda: _count(spark.read.parquet(parquet)),
        ),
        "all columns": (
            lambda: spark.read.format("rocketmq").load(store),
            lambda: spark.read.parquet(parquet),
        ),
        "all columns, checkCrc=false": (
            lambda: spark.read.format("rocketmq").option("checkCrc", "false").load(store),
            lambda: spark.read.parquet(parquet),
        ),
        "all columns, one partition": (
            lambda: spark.read.format("rocketmq").option("maxPartitionBytes", "1024g").load(store).coalesce(1),
            lambda: spark.read.parquet(parquet).coalesce(1),
        ),
        "one topic of four": (
            lambda: spark.read.format("rocketmq").option("topic", "orders").load(store),
            lambda: spark.read.parquet(parquet).where("topic = 'orders'"),
        ),
    }
    for name, (ours, theirs) in reads.items():
        figures: tuple[list[float], list[float]] = ([], [])
        for _ in range(options.rounds):
            for read, found in zip((ours, theirs), figures, strict=True):
                found.append(rows / _seconds(read()))
        mine, parquets = map(statistics.median, figures)
        print(f"{name:32} {mine:12,.0f} rows/s  parquet {parquets:12,.0f} rows/s  ratio {mine / parquets:5.2f}")


def _count(frame: DataFrame) -> DataFrame:
    return frame.groupBy("topic", "queue_id").count()


def _seconds(frame: DataFrame) -> float:
    begin = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(main())
