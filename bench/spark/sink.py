"""A batch write of rows to a topic, beside our producer in as many processes as there are tasks.

The rows are made by Spark: a body of its own for each, and a tag. Both sides send batches, to whatever queues the
producer chooses.
"""

from __future__ import annotations

import time
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bench.spark.cluster import Cluster, Meter, cancelled_after, describe_load, open_cluster, rows_of
from bench.spark.section import Bench, medians
from rocketpy.spark.session import open_local_session


def measure(bench: Bench) -> None:
    """Print the row of each size of body."""
    with open_cluster(bench.work) as cluster, open_local_session("bench", cores=bench.cores) as spark:
        for body_bytes in bench.body_sizes:
            rows = rows_of(bench.mib, body_bytes)
            print(f"sink: {rows} rows of {body_bytes} bytes, {bench.cores} tasks, {describe_load()}", flush=True)
            _measure(spark, bench, cluster, rows, body_bytes)


def _measure(spark: SparkSession, bench: Bench, cluster: Cluster, rows: int, body_bytes: int) -> None:
    written, sent = f"written-{body_bytes}", f"sent-{body_bytes}"
    cluster.create(written)
    cluster.create(sent)
    numbers = spark.range(0, rows, 1, bench.cores)
    frame = numbers.select(
        F.rpad(F.col("id").cast("string"), body_bytes, " a body").cast("binary").alias("body"),
        F.lit("created").alias("tags"),
    )
    run = partial(_rate, spark, cluster, frame, written, rows)
    run()
    meter = Meter(cluster, rows)
    ours, producer = medians(
        bench.rounds,
        partial(meter.measure, run),
        partial(cluster.send_rate, sent, rows, body_bytes, processes=bench.cores),
    )
    line = f"{'batch write':32} {ours:10,.0f} rows/s  producers {producer:10,.0f} rows/s  ratio {ours / producer:5.2f}"
    print(f"{line}  {meter}", flush=True)
    stored = spark.read.format("rocketmq").schema("queue_id int")
    found = stored.options(nameServer=cluster.name_server, topic=written).load().count()
    if found != rows * (bench.rounds + 1):
        raise SystemExit(f"expected {rows * (bench.rounds + 1)} messages in {written}, found {found}")


def _rate(spark: SparkSession, cluster: Cluster, frame: DataFrame, topic: str, rows: int) -> float:
    begin = time.perf_counter()
    with cancelled_after(spark):
        frame.write.format("rocketmq").options(nameServer=cluster.name_server, topic=topic).mode("append").save()
    return rows / (time.perf_counter() - begin)
