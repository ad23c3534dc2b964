"""A topic of a running broker as a DataFrame, beside our PullConsumer, which reads it in one process."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame, SparkSession

from bench.spark.cluster import Cluster, Meter, cancelled_after, describe_load, open_cluster, rows_of
from bench.spark.section import Bench, Read, medians, seconds_of
from rocketpy.spark.session import open_local_session


def measure(bench: Bench) -> None:
    """Print the rows of each size of body."""
    with open_cluster(bench.work) as cluster, open_local_session("bench", cores=bench.cores) as spark:
        for body_bytes in bench.body_sizes:
            topic, rows = f"live-{body_bytes}", rows_of(bench.mib, body_bytes)
            cluster.fill(topic, rows=rows, body_bytes=body_bytes)
            print(f"live: {rows} messages of {body_bytes} bytes, {bench.cores} cores, {describe_load()}", flush=True)
            _measure(spark, bench, cluster, topic, rows)


def _measure(spark: SparkSession, bench: Bench, cluster: Cluster, topic: str, rows: int) -> None:
    reader = partial(spark.read.format, "rocketmq")

    def load(schema: str | None = None) -> DataFrame:
        chosen = reader() if schema is None else reader().schema(schema)
        return chosen.options(nameServer=cluster.name_server, topic=topic).load()

    reads: dict[str, Read] = {
        "count by topic and queue": lambda: load("topic string, queue_id int").groupBy("topic", "queue_id").count(),
        "all columns": load,
    }
    for name, read in reads.items():
        meter = Meter(cluster, rows)
        with cancelled_after(spark):
            seconds_of(read())  # starts the workers, compiles the plan
        run = partial(_rate, spark, rows, read)
        ours, consumer = medians(bench.rounds, partial(meter.measure, run), partial(cluster.pull_rate, topic, rows))
        line = f"{name:32} {ours:10,.0f} rows/s  PullConsumer {consumer:10,.0f} rows/s  ratio {ours / consumer:5.2f}"
        print(f"{line}  {meter}", flush=True)
    if load().count() != rows:
        raise SystemExit(f"expected {rows} rows of {topic}")


def _rate(spark: SparkSession, rows: int, read: Read) -> float:
    with cancelled_after(spark):
        return rows / seconds_of(read())
