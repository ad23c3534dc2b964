"""Store directories beside the same rows as Parquet.

A store is written by the message store itself, and read once into Parquet. Then both are read in turn: counted by topic
and queue, and with all columns into nothing.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.spark.section import Bench, Read, compare
from bench.spark.stores import make_store
from rocketpy.spark.session import open_local_session


def measure(bench: Bench) -> None:
    """Print the rows of each size of body."""
    spark = open_local_session("bench", cores=bench.cores)
    try:
        for body_bytes in bench.body_sizes:
            _measure(spark, bench, bench.work / str(body_bytes), body_bytes)
    finally:
        spark.stop()


def _measure(spark: SparkSession, bench: Bench, work: Path, body_bytes: int) -> None:
    store, parquet = str(work / "store"), str(work / "parquet")
    rows = make_store(Path(store), log_bytes=bench.mib << 20, body_bytes=body_bytes)
    print(f"{rows} messages of {body_bytes} bytes, {bench.mib} MiB, {bench.cores} cores")
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
        mine, parquets = compare(bench.rounds, rows, ours, theirs)
        print(f"{name:32} {mine:12,.0f} rows/s  parquet {parquets:12,.0f} rows/s  ratio {mine / parquets:5.2f}")


def _count(frame: DataFrame) -> DataFrame:
    return frame.groupBy("topic", "queue_id").count()
