"""A Spark cluster of two workers that have nothing of ours but what ``spark-submit`` brings; executors are killed.

In the middle of an archive, of a write and of a stream, when tasks on both workers have done a part of their rows, one
executor gets SIGKILL. Spark starts another one and repeats the tasks.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import pyarrow.parquet as pq

from rocketpy.client import Message, MessageQueue, blocking
from rocketpy.protocol.message import MessageExt
from rocketpy.testing.fixture.in_thread import BrokerInThread, open_broker_in_thread
from rocketpy.testing.fixture.options import BrokerOptions
from tests.blackbox.spark_cluster import (
    WORKERS,
    SparkCluster,
    end_session,
    make_libraries,
    make_python,
    make_wheel,
    members,
    running_cluster,
    submit,
)
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.spark_runtime import require_spark

pytestmark = [pytest.mark.blackbox, pytest.mark.spark]

QUEUES = 4
MESSAGES_PER_QUEUE = 400
BODY_SIZE = 2048
OFFSETS_PER_TRIGGER = QUEUES * MESSAGES_PER_QUEUE // 2
SINK_GATE = "sink-gate"
GATES = ("archive-gate", SINK_GATE, "stream-gate")
LOOK_S = 0.1  # between two looks: each step of Spark takes seconds
REPEATS_WITH = "SPARK_ROW_KEY"
Place = tuple[int, int, int]  # queue, queue offset, checksum of the body


@attrs.frozen(eq=False)
class Outcome:
    """What the program has found, and what it has left behind."""

    sent: list[Place]
    found: dict[str, list[list[object]]]
    written: list[MessageExt]
    directory: Path
    python: Path
    killed: list[Path]
    left: list[int]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    require_spark()
    directory = tmp_path_factory.mktemp("cluster")
    with (
        open_broker_in_thread(BrokerOptions()) as broker,
        running_cluster(directory / "cluster") as cluster,
    ):
        sent = _send(broker)
        python, work = make_python(directory / "python"), directory / "work"
        work.mkdir()
        program = _submit(cluster, python, broker, directory)
        try:
            killed = []
            for number, gate in enumerate(GATES):
                _await_both(cluster, program, work / gate, directory)
                if gate == SINK_GATE:
                    _await_rows_of_both(broker)
                killed.append(_kill_executor(cluster, number % WORKERS, work / gate))
            assert program.wait(2 * PATIENCE_SECONDS) == 0, _log(directory)
        finally:
            end_session(program)
        written = broker.messages("Target")
    found = json.loads((directory / "found.json").read_text())
    left = [pid for process in (*cluster.workers, program) for pid in members(process.pid)]
    return Outcome(sent, found, written, directory, python, killed, left)


def test_the_interpreter_of_the_workers_has_nothing_of_ours(outcome: Outcome) -> None:
    for module in ("rocketpy", "pyspark_rocketmq", "attrs", "msgspec", "trio"):
        result = subprocess.run(
            [outcome.python, "-I", "-c", f"import {module}"], cwd=outcome.directory, capture_output=True, check=False
        )
        assert b"ModuleNotFoundError" in result.stderr


@pytest.mark.parametrize("read", ["live", "files"])
def test_reads_use_both_workers_with_the_code_that_was_submitted(outcome: Outcome, read: str) -> None:
    rows = outcome.found[read]
    assert sorted(tuple(row[:3]) for row in rows) == outcome.sent
    executors = {Path(str(row[3])) for row in rows}
    assert {each.parents[1] for each in executors} == {outcome.directory / f"cluster/work-{n}" for n in range(WORKERS)}
    assert {Path(str(row[4])) for row in rows} == {each / "rocketpy.zip/rocketpy/__init__.pyc" for each in executors}


def test_an_archive_has_each_message_once_though_an_executor_was_killed(outcome: Outcome) -> None:
    assert outcome.found["archived"] == len(outcome.sent)
    files = list((outcome.directory / "work/archive/topic=Source").glob("date=*/*.parquet"))
    assert files
    assert sorted(place for file in files for place in _places(file)) == outcome.sent


def test_a_write_has_each_row_at_least_once_and_repeats_it_with_its_key(outcome: Outcome) -> None:
    bodies = {zlib.crc32(each.body) for each in outcome.written}
    assert bodies == {checksum for _, _, checksum in outcome.sent}
    assert len(outcome.written) > len(outcome.sent), "the executor was killed before it had sent anything"
    keyed = {(zlib.crc32(each.body), each.properties[REPEATS_WITH]) for each in outcome.written}
    assert len(keyed) == len(outcome.sent) == len({key for _, key in keyed})


def test_a_stream_has_each_message_once_though_an_executor_was_killed(outcome: Outcome) -> None:
    assert sorted(tuple(row) for row in outcome.found["stream"]) == outcome.sent
    assert len(list((outcome.directory / "work/stream/checkpoint/commits").glob("[0-9]*"))) > 1


def test_executors_of_both_workers_were_killed_and_no_process_is_left(outcome: Outcome) -> None:
    assert len(set(outcome.killed)) == WORKERS
    logs = [(outcome.directory / f"cluster/worker-{number}.log").read_text() for number in range(WORKERS)]
    assert sum(log.count(f"Command exited with code {128 + signal.SIGKILL}") for log in logs) == len(outcome.killed)
    assert outcome.left == []


def _send(broker: BrokerInThread) -> list[Place]:
    """Fill the queues of a topic; return what is in them, in order."""
    broker.topic("Source", queues=QUEUES)
    broker.topic("Target", queues=QUEUES)
    with blocking.open_producer(broker.name_server) as producer:
        (broker_name,) = {queue.broker_name for queue in producer.publish_queues("Source")}
        for number in range(QUEUES * MESSAGES_PER_QUEUE):
            queue = MessageQueue("Source", broker_name, number % QUEUES)
            producer.send_soon(Message("Source", (b"%d " % number).ljust(BODY_SIZE, b"x")), queue=queue)
    stored = broker.messages("Source")
    assert len(stored) == QUEUES * MESSAGES_PER_QUEUE
    return sorted((each.queue_id, each.queue_offset, zlib.crc32(each.body)) for each in stored)


def _submit(cluster: SparkCluster, python: Path, broker: BrokerInThread, directory: Path) -> subprocess.Popen[bytes]:
    libraries, wheel = directory / "libraries", make_wheel(directory / "wheel")
    settings = {
        "work": str(directory / "work"),
        "name_server": broker.name_server,
        "topic": "Source",
        "target": "Target",
        "store": f"{broker.directory}/store",
        "offsets_per_trigger": str(OFFSETS_PER_TRIGGER),
        "found": str(directory / "found.json"),
    }
    (directory / "settings.json").write_text(json.dumps(settings))
    arguments = [
        *("--archives", f"{make_libraries(libraries)}#libraries"),
        *("--conf", "spark.executorEnv.PYTHONPATH=libraries"),
        *("--py-files", str(wheel)),
        str(Path(__file__).parent / "spark_cluster_program.py"),
        str(directory / "settings.json"),
    ]
    return submit(cluster, python, [libraries, wheel], arguments, directory / "program.log")


def _await_both(cluster: SparkCluster, program: subprocess.Popen[bytes], gate: Path, directory: Path) -> None:
    """Wait until tasks of both workers are at a gate."""
    workers = {cluster.work_directory(number) for number in range(WORKERS)}

    def are_there() -> bool:
        assert program.poll() is None, _log(directory)
        return {place.parents[1] for place in _waiting(gate)} == workers

    wait_until(are_there, lambda: f"{gate.name}: {_log(directory)}", LOOK_S)


def _await_rows_of_both(broker: BrokerInThread) -> None:
    """Wait until two tasks have sent rows; each writes those of one queue."""
    wait_until(
        lambda: len({each.queue_id for each in broker.messages("Target")}) >= WORKERS,
        lambda: "no rows before the gate",
        LOOK_S,
    )


def _kill_executor(cluster: SparkCluster, worker: int, gate: Path) -> Path:
    """Kill the executor of a worker, then open the gate; return whose executor it was."""
    os.kill(cluster.executor(worker), signal.SIGKILL)
    (gate / "open").touch()
    return cluster.work_directory(worker)


def _waiting(gate: Path) -> set[Path]:
    """Return the directories of the executors in which tasks wait."""
    return {Path(text) for mark in gate.glob("task-*") if (text := mark.read_text())}


def _places(file: Path) -> Iterator[Place]:
    table = pq.read_table(file, columns=["queue_id", "queue_offset", "body"], partitioning=None)
    for queue_id, queue_offset, body in zip(*(column.to_pylist() for column in table.columns), strict=True):
        yield queue_id, queue_offset, zlib.crc32(body)


def _log(directory: Path) -> str:
    return (directory / "program.log").read_text(errors="replace")[-8000:]
