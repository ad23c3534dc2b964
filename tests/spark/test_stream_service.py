"""``docs/examples/services/stream_to_parquet.py``: its driver is killed, and each message is in the table once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession

from rocketpy.client import Message, blocking
from rocketpy.testing.fixture.in_thread import BrokerInThread
from tests.docs.service_programs import SERVICES
from tests.spark_runtime import DRIVER_OPTIONS, INTERPRETED, SHORT_RUN

START_S = 600.0


def test_each_message_is_in_the_table_once_though_the_driver_is_killed(
    rocketmq: BrokerInThread, spark: SparkSession, tmp_path: Path
) -> None:
    rocketmq.topic("orders", queues=2)
    send(rocketmq, range(100))
    driver = Driver(rocketmq.name_server, tmp_path)
    try:
        driver.wait_for(lambda: list(tmp_path.glob("checkpoint/commits/[0-9]*")))
        send(rocketmq, range(100, 200))
        driver.wait_for(lambda: len(list(tmp_path.glob("checkpoint/offsets/[0-9]*"))) > 1)
        driver.kill()
        driver.start()
        driver.wait_for(lambda: len(list(tmp_path.glob("checkpoint/commits/[0-9]*"))) > 1)
        driver.wait_for(lambda: len(table(spark, tmp_path)) >= 200)
        driver.process.terminate()
        assert (driver.process.wait(START_S), "stopped" in driver.log()) == (0, True), driver.log()
    finally:
        driver.kill()
    assert table(spark, tmp_path) == list(range(200))


def send(broker: BrokerInThread, numbers: range) -> None:
    with blocking.open_producer(broker.name_server) as producer:
        for number in numbers:
            producer.send(Message("orders", b"%d" % number))


def table(spark: SparkSession, directory: Path) -> list[int]:
    return sorted(int(row.body) for row in spark.read.parquet(str(directory / "table")).collect())


class Driver:
    """The program, with its JVM in a process group of its own."""

    def __init__(self, name_server: str, directory: Path) -> None:
        self._command = [str(SERVICES / "stream_to_parquet.py"), name_server, "orders", str(directory)]
        self._directory = directory
        self.start()

    def start(self) -> None:
        environment = {
            **os.environ,
            DRIVER_OPTIONS: f"{SHORT_RUN} {INTERPRETED} -Dspark.ui.enabled=false -Dspark.master=local[1]",
            "SPARK_LOCAL_DIRS": str(self._directory / "local"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        environment.pop("PYSPARK_PYTHON", None)  # the session of the tests has set it
        with (self._directory / "log").open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, *self._command], env=environment, stdout=output, stderr=output, start_new_session=True
            )

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def log(self) -> str:
        return (self._directory / "log").read_text()[-5000:]

    def wait_for(self, condition: Callable[[], object]) -> None:
        """Wait; a driver whose Python was too slow is started again: Spark gives it ten seconds."""
        deadline = time.monotonic() + START_S
        while not condition():
            if self.process.poll() is not None and "Python worker failed to connect back" in self.log():
                self.start()
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.1)
