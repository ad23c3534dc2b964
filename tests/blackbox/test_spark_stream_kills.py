"""Spark's driver is killed again and again while it archives a topic: each message is in the archive once.

The JVM, the Python process beside it and their workers get SIGKILL together, at random moments: while a batch is
planned, run, committed, or while Spark starts. One driver runs several streams, each with a checkpoint of its own, so
that each kill meets several moments. ROCKETPY_TIER sets how many kills there are, ROCKETPY_SPARK_KILLS too.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.client import Message, blocking
from rocketpy.testing.fixture.in_thread import BrokerInThread
from tests.blackbox.spark_cluster import make_home
from tests.spark_runtime import require_spark

pytestmark = [pytest.mark.blackbox, pytest.mark.spark]

ROUNDS = {"dev": 1, "ci": 2, "deep": 20}[os.environ.get("ROCKETPY_TIER", "dev")]
STREAMS = 3
QUEUES = 3
SENT = 150, 300  # before each life: three batches for each stream at least
BATCHES_BEFORE_KILL = 0, 5  # of all streams together, counted from the start of the queries ...
MORE_S = 0.0, 1.0  # ... and how much longer
START_S = 600.0
STARTED = "started"  # the name of a file; also in the driver's program
REPOSITORY = Path(__file__).parents[2]


def test_each_message_is_in_the_archive_once_however_often_the_driver_is_killed(
    rocketmq: BrokerInThread, tmp_path: Path
) -> None:
    require_spark()
    rounds = int(os.environ.get("ROCKETPY_SPARK_KILLS", ROUNDS))
    rng = random.Random(rounds)
    rocketmq.topic("T", queues=QUEUES)
    sent = 0
    make_home(tmp_path / "home")
    for kills in range(rounds):
        sent += _send(rocketmq, sent, rng.randint(*SENT))
        if kills == rounds // 2:
            rocketmq.topic("T", queues=QUEUES + 1)
        driver = _start(rocketmq, tmp_path, "run")
        try:
            _wait(driver, tmp_path, _done(tmp_path) + rng.randint(*BATCHES_BEFORE_KILL))
            sent += _send(rocketmq, sent, rng.randint(0, 50))
            time.sleep(rng.uniform(*MORE_S))  # the moment of the kill is random
        finally:
            _kill(driver)
    _finish(rocketmq, tmp_path)
    expected = sorted(
        [message.queue_id, message.queue_offset, message.body.decode()] for message in rocketmq.messages("T")
    )
    assert len(expected) == sent
    for number in range(STREAMS):
        assert sorted(json.loads((tmp_path / f"rows-{number}.json").read_text())) == expected


def _send(broker: BrokerInThread, first: int, count: int) -> int:
    """Send numbered messages to all queues in turn, also to one that has just been added."""
    with blocking.open_producer(broker.name_server) as producer:
        for number in range(first, first + count):
            producer.send(Message("T", b"%d" % number))
    return count


def _start(broker: BrokerInThread, directory: Path, verb: str) -> subprocess.Popen[bytes]:
    (directory / STARTED).unlink(missing_ok=True)
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "SPARK_LOCAL_DIRS": str(directory / "local")}
    environment["SPARK_HOME"] = str(directory / "home")
    program = str(Path(__file__).parent / "spark_stream_driver.py")
    arguments = [broker.name_server, "T", str(directory), str(STREAMS), verb]
    with (directory / "driver.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, program, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # so that the JVM is killed with it
        )


def _wait(driver: subprocess.Popen[bytes], directory: Path, batches: int) -> None:
    """Wait until the queries have started and that many batches are done."""
    deadline = time.monotonic() + START_S
    while not ((directory / STARTED).exists() and _done(directory) >= batches):
        assert driver.poll() is None, (directory / "driver.log").read_text()[-5000:]
        assert time.monotonic() < deadline, f"{_done(directory)} of {batches} batches are done"
        time.sleep(0.02)


def _finish(broker: BrokerInThread, directory: Path) -> None:
    """Let a driver read the rest and end."""
    driver = _start(broker, directory, "finish")
    try:
        assert driver.wait(START_S) == 0, (directory / "driver.log").read_text()[-5000:]
    finally:
        _kill(driver)


def _kill(driver: subprocess.Popen[bytes]) -> None:
    """Kill the process group: the driver, its JVM, the processes that plan batches. Its workers end with the JVM."""
    if driver.poll() is None:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def _done(directory: Path) -> int:
    """Return how many batches all streams have done, as their checkpoints say."""
    return len(list(directory.glob("*/checkpoint/commits/[0-9]*")))
