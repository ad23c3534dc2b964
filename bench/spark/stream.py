"""A topic as a stream: all of it with Trigger.AvailableNow, beside our PullConsumer and a stream of Parquet files.

The rate is that of the whole query, its start and end included. The first batch is measured in a new process each time,
whose session has had no query: from ``start()`` until the query reports the batch, beside a stream of Parquet files,
which shows how much of it is Spark's own. What ``load()`` takes before, to find the format and ask for its columns, is
printed too.
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
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.processes import processor_s_of_all
from bench.spark.cluster import RUN_S, Cluster, Meter, describe_load, open_cluster, rows_of
from bench.spark.section import Bench, medians
from rocketpy.spark.session import open_local_session

FIRST_BATCH_ROWS = 10_000
FIRST_BATCH_S = 120.0
_POLL_S = 0.02

FirstBatch: TypeAlias = tuple[float, float, float]


def measure(bench: Bench) -> None:
    """Print the rows of each size of body, and how soon the first batch has ended."""
    with open_cluster(bench.work) as cluster:
        topics = {}
        for body_bytes in bench.body_sizes:
            topic, rows = f"stream-{body_bytes}", rows_of(bench.mib, body_bytes)
            cluster.fill(topic, rows=rows, body_bytes=body_bytes)
            topics[topic] = rows
        with open_local_session("bench", cores=bench.cores) as spark:
            for topic, rows in topics.items():
                print(f"{topic}: {rows} messages, {bench.cores} cores, {describe_load()}", flush=True)
                _measure(spark, bench, cluster, topic, rows)
        _measure_first_batches(bench, cluster, next(iter(topics)))


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


def _measure_first_batches(bench: Bench, cluster: Cluster, topic: str) -> None:
    print(f"{topic}: a first batch of {FIRST_BATCH_ROWS} messages, {describe_load()}", flush=True)
    parquet = bench.work / f"{topic}.parquet"
    found: dict[str, list[FirstBatch]] = {"rocketmq": [], "Parquet, its first file": []}
    for _ in range(bench.rounds):
        for read_from, batches in zip((None, parquet), found.values(), strict=True):
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                arguments = cluster.name_server, topic, bench.work, bench.cores, read_from
                batches.append(pool.submit(first_batch, *arguments).result(RUN_S))
    for name, batches in found.items():
        load_s, batch_s, processor = map(statistics.median, zip(*batches, strict=True))
        line = f"{'start() to end of first batch':32} {batch_s:10.1f} s  {name}; load() before {load_s:.1f} s"
        print(f"{line}; processor time of both {processor:.1f} s", flush=True)


def first_batch(name_server: str, topic: str, work: Path, cores: int, parquet: Path | None) -> FirstBatch:
    """Open a session and start a stream; return the seconds that load() takes, and those from start() to a first batch.

    The third figure is the processor time of this process, the JVM and the Python workers meanwhile.
    """
    with open_local_session("bench", cores=cores) as spark:
        begin, processor = time.perf_counter(), processor_s_of_all(os.getpid())
        if parquet is None:
            frame = _load(spark, name_server, topic, maxOffsetsPerTrigger=str(FIRST_BATCH_ROWS))
        else:
            files = spark.readStream.schema("topic string, body binary").option("maxFilesPerTrigger", 1)
            frame = files.parquet(str(parquet))
        loaded = time.perf_counter()
        query = _start(frame, work)
        try:
            while not any(progress["numInputRows"] for progress in query.recentProgress):
                if time.perf_counter() - begin > FIRST_BATCH_S or not query.isActive:
                    raise SystemExit(f"expected a batch within {FIRST_BATCH_S:.0f} s, the query is {query.status}")
                time.sleep(_POLL_S)
            return loaded - begin, time.perf_counter() - loaded, processor_s_of_all(os.getpid()) - processor
        finally:
            query.stop()


def _load(spark: SparkSession, name_server: str, topic: str, **options: str) -> DataFrame:
    stream = spark.readStream.format("rocketmq")
    return stream.options(nameServer=name_server, topic=topic, startingOffsets="earliest", **options).load()


def _start(frame: DataFrame, work: Path, *, is_available_now: bool = False) -> StreamingQuery:
    checkpoint = tempfile.mkdtemp(prefix="checkpoint-", dir=work)
    writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
    # After its first batch the other query idles, and can be stopped without interrupting one.
    trigger = {"availableNow": True} if is_available_now else {"processingTime": "1 hour"}
    return writer.trigger(**trigger).start()
