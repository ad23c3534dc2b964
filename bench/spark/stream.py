"""A topic as a stream: all of it with Trigger.AvailableNow, beside our PullConsumer and a stream of Parquet files.

The rate is that of the whole query, its start and end included. The first batch is measured in a new process each time,
whose session has had no query: from ``start()`` until the query reports the batch.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.spark.cluster import RUN_S, Cluster, Meter, describe_load, open_cluster, processor_s, rows_of
from bench.spark.section import Bench, medians
from rocketpy.spark.session import open_local_session

FIRST_BATCH_ROWS = 10_000
FIRST_BATCH_S = 120.0
_POLL_S = 0.02


def measure(bench: Bench) -> None:
    """Print the rows of each size of body, and how soon the first batch has ended."""
    with open_cluster(bench.work) as cluster:
        topics = {}
        for body_bytes in bench.body_sizes:
            topic, rows = f"stream-{body_bytes}", rows_of(bench.mib, body_bytes)
            cluster.fill(topic, rows=rows, body_bytes=body_bytes)
            topics[topic] = rows
        spark = open_local_session("bench", cores=bench.cores)
        try:
            for topic, rows in topics.items():
                print(f"{topic}: {rows} messages, {bench.cores} cores, {describe_load()}", flush=True)
                _measure(spark, bench, cluster, topic, rows)
        finally:
            spark.stop()
        topic = next(iter(topics))
        print(f"{topic}: batches of {FIRST_BATCH_ROWS} messages, {describe_load()}", flush=True)
        found = [_first_batch_of_new_process(bench, cluster, topic) for _ in range(bench.rounds)]
        seconds, processor = map(statistics.median, zip(*found, strict=True))
        line = f"{'start() to end of first batch':32} {seconds:10.1f} s"
        print(f"{line}  {processor:.1f} s of processor time in Spark", flush=True)


def _measure(spark: SparkSession, bench: Bench, cluster: Cluster, topic: str, rows: int) -> None:
    def load() -> DataFrame:
        return _load(spark, cluster.name_server, topic)

    parquet = str(bench.work / f"{topic}.parquet")
    stored = spark.read.format("rocketmq").options(nameServer=cluster.name_server, topic=topic).load()
    stored.write.parquet(parquet)

    def files() -> DataFrame:
        return spark.readStream.schema(stored.schema).parquet(parquet)

    run = partial(_rate, bench.work, rows)
    run(load)
    run(files)
    meter = Meter(cluster, rows)
    ours, consumer, parquets = medians(
        bench.rounds,
        partial(meter.measure, partial(run, load)),
        partial(cluster.pull_rate, topic, rows),
        partial(run, files),
    )
    print(
        f"{'availableNow, all columns':32} {ours:10,.0f} rows/s  PullConsumer {consumer:10,.0f} rows/s  ratio "
        f"{ours / consumer:5.2f}  stream of Parquet {parquets:10,.0f} rows/s  ratio {ours / parquets:5.2f}  {meter}",
        flush=True,
    )


def _rate(work: Path, rows: int, load: Callable[[], DataFrame]) -> float:
    begin = time.perf_counter()
    query = _start(load(), work, is_available_now=True)
    try:
        if not query.awaitTermination(int(RUN_S)):
            raise SystemExit(f"expected the query to end within {RUN_S:.0f} s, its progress is {query.lastProgress}")
    finally:
        query.stop()
    seconds = time.perf_counter() - begin
    found = sum(progress["numInputRows"] for progress in query.recentProgress)
    if found != rows:
        raise SystemExit(f"expected {rows} rows, the query had {found}")
    return rows / seconds


def _first_batch_of_new_process(bench: Bench, cluster: Cluster, topic: str) -> tuple[float, float]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(first_batch, cluster.name_server, topic, bench.work, bench.cores).result(RUN_S)


def first_batch(name_server: str, topic: str, work: Path, cores: int) -> tuple[float, float]:
    """Open a session, start a stream, and return the seconds from its start to the end of its first batch.

    The second figure is the processor time of this process, the JVM and the Python workers meanwhile.
    """
    spark = open_local_session("bench", cores=cores)
    try:
        begin, processor = time.perf_counter(), processor_s(os.getpid())
        query = _start(_load(spark, name_server, topic, maxOffsetsPerTrigger=str(FIRST_BATCH_ROWS)), work)
        try:
            while not any(progress["numInputRows"] for progress in query.recentProgress):
                if time.perf_counter() - begin > FIRST_BATCH_S or not query.isActive:
                    raise SystemExit(f"expected a batch within {FIRST_BATCH_S:.0f} s, the query is {query.status}")
                time.sleep(_POLL_S)
            return time.perf_counter() - begin, processor_s(os.getpid()) - processor
        finally:
            query.stop()
    finally:
        spark.stop()


def _load(spark: SparkSession, name_server: str, topic: str, **options: str) -> DataFrame:
    stream = spark.readStream.format("rocketmq")
    return stream.options(nameServer=name_server, topic=topic, startingOffsets="earliest", **options).load()


def _start(frame: DataFrame, work: Path, *, is_available_now: bool = False) -> StreamingQuery:
    checkpoint = tempfile.mkdtemp(prefix="checkpoint-", dir=work)
    writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
    return (writer.trigger(availableNow=True) if is_available_now else writer).start()
