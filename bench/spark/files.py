"""Store directories beside the same rows as Parquet.

A store is written by the message store itself, and read once into Parquet. Then both are read in turn: counted by topic
and queue, and with all columns into nothing; by all cores and by one. A last row has the memory of a process that reads
a small store, and a large one in one part.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from bench.spark.memory import GROWTH_MIB_MAX, peak_mib
from bench.spark.section import Bench, compare
from bench.spark.stores import make_store
from rocketpy.spark.session import open_local_session

_SMALL_MIB = 64


def measure(bench: Bench) -> None:
    """Print the rows of each size of body."""
    rows = {}
    for body_bytes in bench.body_sizes:
        work = bench.work / str(body_bytes)
        rows[work] = make_store(work / "store", log_bytes=bench.mib << 20, body_bytes=body_bytes)
    for cores in dict.fromkeys((bench.cores, 1)):
        with open_local_session("bench", cores=cores) as spark:
            for work, count in rows.items():
                print(f"{count} messages of {work.name} bytes, {bench.mib} MiB, {cores} cores", flush=True)
                _measure(spark, bench, work, count, cores)
    _measure_memory(bench, next(iter(rows)))


def _measure(spark: SparkSession, bench: Bench, work: Path, rows: int, cores: int) -> None:
    store, parquet = str(work / "store"), work / "parquet"
    if not parquet.exists():
        spark.read.format("rocketmq").load(store).write.parquet(str(parquet))
    for name, ours, theirs in _reads() if cores > 1 else _reads()[:2]:
        mine, parquets = compare(
            bench.rounds,
            rows,
            partial(_of_store, spark, store, ours),
            partial(_of_parquet, spark, str(parquet), theirs),
        )
        line = f"{name:38} {mine:12,.0f} rows/s  parquet {parquets:12,.0f} rows/s  ratio {mine / parquets:5.2f}"
        print(line, flush=True)


def _of_store(spark: SparkSession, path: str, read: Callable[[DataFrameReader, str], DataFrame]) -> DataFrame:
    return read(spark.read.format("rocketmq"), path)


def _of_parquet(spark: SparkSession, path: str, read: Callable[[DataFrame], DataFrame]) -> DataFrame:
    return read(spark.read.parquet(path))


def _reads() -> list[tuple[str, Callable[[DataFrameReader, str], DataFrame], Callable[[DataFrame], DataFrame]]]:
    """Return what is measured: a name, the read of the store, and that of the Parquet files."""
    queue = "topic string, queue_id int"
    return [
        (
            "count by topic and queue",
            lambda reader, path: _count(reader.schema(queue).load(path)),
            _count,
        ),
        ("all columns", lambda reader, path: reader.load(path), lambda frame: frame),
        (
            "count by topic and queue, bodies too",
            lambda reader, path: _count(reader.schema(f"{queue}, body binary").load(path)),
            _count,
        ),
        (
            "all columns, checkCrc=false",
            lambda reader, path: reader.option("checkCrc", "false").load(path),
            lambda frame: frame,
        ),
        (
            "all columns, one partition",
            lambda reader, path: reader.option("maxPartitionBytes", "1024g").load(path).coalesce(1),
            lambda frame: frame.coalesce(1),
        ),
        (
            "one topic of four",
            lambda reader, path: reader.option("topic", "orders").load(path),
            lambda frame: frame.where("topic = 'orders'"),
        ),
    ]


def _count(frame: DataFrame) -> DataFrame:
    return frame.groupBy("topic", "queue_id").count()


def _measure_memory(bench: Bench, large: Path) -> None:
    small = bench.work / "small"
    make_store(small, log_bytes=_SMALL_MIB << 20, body_bytes=int(large.name))
    before, after = peak_mib(str(small)), peak_mib(str(large / "store"))
    print(f"memory of a process that reads {_SMALL_MIB} MiB: {before} MiB; {bench.mib} MiB: {after} MiB", flush=True)
    if after - before > GROWTH_MIB_MAX:
        raise SystemExit(f"expected at most {GROWTH_MIB_MAX} MiB more for the larger file: is it read whole?")
