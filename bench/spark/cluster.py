"""A cluster on loopback for the sections that need one: a nameserver and a broker of ours, with RocketMQ's defaults.

Rates are printed beside the processor time that a row has taken, in Spark (its driver, its JVM, its Python workers) and
in the broker: it hardly depends on what else the machine does, and says where the time goes.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import attrs
import trio
from pyspark.sql import SparkSession

from bench.brokers import REPOSITORY, START_S, BenchError, Broker
from bench.idle_rows import nameserver
from bench.processes import processor_s_of_all
from bench.spark.stores import TAGS, make_body
from rocketpy.client import Message, PendingSend, open_client

QUEUES = 8
RECORD_OVERHEAD_BYTES = 160
"""What a record of :func:`fill` has besides its body, about."""
FILL_S = 300.0
RUN_S = 300.0
"""How long a run of a client, or a query, may take."""
_PENDING_MAX = 5000


@attrs.frozen(eq=False)
class Cluster:
    """A running nameserver and broker."""

    name_server: str
    broker: Broker

    def fill(self, topic: str, *, rows: int, body_bytes: int) -> None:
        """Send rows to a new topic."""
        trio.run(_fill, self.name_server, topic, rows, body_bytes)

    def create(self, topic: str) -> None:
        """Create an empty topic."""
        trio.run(_fill, self.name_server, topic, 0, 1)

    def pull_rate(self, topic: str, rows: int) -> float:
        """Return the messages a second that a PullConsumer of one process gets, which pulls all queues at once."""
        return self._rate_of_client("pulls", topic, rows, 1)

    def send_rate(self, topic: str, rows: int, body_bytes: int, *, processes: int) -> float:
        """Return the messages a second that this many processes send, each with a producer that collects batches."""
        with ThreadPoolExecutor(processes) as pool:
            return sum(
                pool.map(
                    lambda _: self._rate_of_client("collected", topic, rows // processes, body_bytes), range(processes)
                )
            )

    def _rate_of_client(self, row: str, topic: str, rows: int, body_bytes: int) -> float:
        warm = rows // 10
        command = [sys.executable, "-m", "bench.clients.trio_worker", row, self.name_server, topic]
        command += [str(warm), str(rows - warm), str(body_bytes)]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=RUN_S, check=False)
        if done.returncode != 0:
            raise BenchError(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")
        found = json.loads(done.stdout)
        rate: float = found["messages"] / found["seconds"]
        return rate


class Meter:
    """Processor time of Spark and of the broker, for each row of what was measured."""

    def __init__(self, cluster: Cluster, rows: int) -> None:
        self._cluster = cluster
        self._rows = rows
        self._spark: list[float] = []
        self._broker: list[float] = []

    def measure(self, run: Callable[[], float]) -> float:
        """Run, and note the processor time; return what it returns."""
        assert self._cluster.broker.process is not None
        processes = os.getpid(), self._cluster.broker.process.pid
        before = [processor_s_of_all(each) for each in processes]
        figure = run()
        spark, broker = (processor_s_of_all(each) - begin for each, begin in zip(processes, before, strict=True))
        self._broker.append(broker / self._rows * 1e6)
        self._spark.append((spark - broker) / self._rows * 1e6)  # the broker is a child of ours
        return figure

    def __str__(self) -> str:
        spark, broker = statistics.median(self._spark), statistics.median(self._broker)
        return f"{spark:.1f} us a row in Spark, {broker:.1f} in the broker"


@contextmanager
def open_cluster(directory: Path) -> Iterator[Cluster]:
    """Run a nameserver and a broker while the block runs."""
    with nameserver(directory / "namesrv") as address:
        _wait_listening(address)  # a broker that finds no nameserver registers again after 30 s
        broker = Broker("ours", directory / "broker", {"namesrvAddr": address, "logDirectory": f"{directory}/logs"})
        try:
            broker.start()
            trio.run(_wait_registered, address)
            yield Cluster(address, broker)
        finally:
            broker.stop()


@contextmanager
def cancelled_after(spark: SparkSession, seconds: float = RUN_S) -> Iterator[None]:
    """Cancel the jobs of a session if the block takes longer."""
    timer = Timer(seconds, spark.sparkContext.cancelAllJobs)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def rows_of(mib: int, body_bytes: int) -> int:
    """Return how many messages have this size in MiB, about."""
    return (mib << 20) // (body_bytes + RECORD_OVERHEAD_BYTES)


def describe_load() -> str:
    """Return how busy the machine has been."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def _wait_listening(address: str) -> None:
    host, port = address.split(":")
    deadline = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=START_S).close()
        except OSError:
            if time.monotonic() > deadline:
                raise BenchError(f"the nameserver at {address} does not listen within {START_S:.0f} s") from None
            time.sleep(0.05)
        else:
            return


async def _wait_registered(name_server: str) -> None:
    with trio.fail_after(START_S):
        async with open_client(name_server) as client:
            while not (await client.admin().cluster_info()).broker_addr_table:
                await trio.sleep(0.05)


async def _fill(name_server: str, topic: str, rows: int, body_bytes: int) -> None:
    with trio.fail_after(FILL_S):
        async with open_client(name_server) as client, client.producer("bench_fill") as producer:
            await client.admin().create_topic(topic, queue_nums=QUEUES)
            async with producer.batching() as batching:
                pending: list[PendingSend] = []
                for number in range(rows):
                    message = Message.create(topic, make_body(number, body_bytes), tags=TAGS[number % len(TAGS)])
                    pending.append(await batching.send_soon(message))
                    if len(pending) >= _PENDING_MAX:
                        await _settle(pending)
                await _settle(pending)


async def _settle(pending: list[PendingSend]) -> None:
    for each in pending:
        await each
    pending.clear()
