"""Rows for an idle broker with large tables: 1,000 topics of 8 queues, 500 groups, a nameserver.

The tables are written as files before the start, in the form that both brokers read. Both register every 10 seconds,
the shortest period there is.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trio

from bench.brokers import JAVA, REPOSITORY, free_port
from bench.processes import processor_s
from bench.rows import Row, Session
from rocketpy.broker.metadata.registration_body import RegistrationBody
from rocketpy.protocol.bodies.topic import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.frame import encode_frame

TOPICS = 1_000
QUEUES_PER_TOPIC = 8
GROUPS = 500
TOPICS_PER_GROUP = 2
SETTLE_S = 12.0
"""From the first answer on: the first registration, the first persistence and the client scan are over then."""

WATCHED_S = 20.0
LATENESS_KEY = "serviceLatenessMaxMs"


def write_tables(store: Path) -> None:
    """Write topics, groups and offsets where a broker with this store reads them."""
    config = store / "config"
    config.mkdir(parents=True, exist_ok=True)
    version = {"counter": 1, "timestamp": 1_700_000_000_000}
    names = [f"idle_topic_{number:04}" for number in range(TOPICS)]
    topics = {
        name: {
            "order": False,
            "perm": 6,
            "readQueueNums": QUEUES_PER_TOPIC,
            "topicFilterType": "SINGLE_TAG",
            "topicName": name,
            "topicSysFlag": 0,
            "writeQueueNums": QUEUES_PER_TOPIC,
        }
        for name in names
    }
    groups = {f"idle_group_{number:03}": {"groupName": f"idle_group_{number:03}"} for number in range(GROUPS)}
    offsets = {
        f"{names[(number * TOPICS_PER_GROUP + i) % TOPICS]}@{group}": dict.fromkeys(range(QUEUES_PER_TOPIC), 0)
        for number, group in enumerate(groups)
        for i in range(TOPICS_PER_GROUP)
    }
    for file_name, content in (
        ("topics.json", {"dataVersion": version, "topicConfigTable": topics}),
        ("subscriptionGroup.json", {"dataVersion": version, "subscriptionGroupTable": groups}),
        ("consumerOffset.json", {"offsetTable": offsets}),
    ):
        (config / file_name).write_text(json.dumps(content))


@contextmanager
def nameserver(directory: Path) -> Iterator[str]:
    """Run a nameserver of ours on loopback while the block runs; its address."""
    port = free_port()
    directory.mkdir(parents=True, exist_ok=True)
    settings = directory / "namesrv.conf"
    settings.write_text(
        f"listenPort={port}\nbindAddress=127.0.0.1\nkvConfigPath={directory}/kv.json\nlogDirectory={directory}/logs\n"
    )
    command = [sys.executable, "-m", "rocketpy.nameserver", "-c", str(settings)]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _idle_share(session: Session) -> float:
    """Return the share of a core in percent, and keep how late the loop was at worst, the registrations included."""
    broker = session.broker
    broker.stop()
    write_tables(broker.directory / "store")
    with nameserver(broker.directory / "namesrv") as address:
        broker.settings |= {"namesrvAddr": address, "registerNameServerPeriod": "10000"}
        try:
            broker.start()
            assert broker.process is not None
            time.sleep(SETTLE_S)
            begin = processor_s(broker.process.pid)
            time.sleep(WATCHED_S)
            used = processor_s(broker.process.pid) - begin
            found = broker.runtime_info().get(LATENESS_KEY)
            session.kept.pop(LATENESS_KEY, None)
            if found is not None:
                session.kept[LATENESS_KEY] = float(found)
        finally:
            broker.stop()
    return used / WATCHED_S * 100


def _registration_ms(session: Session) -> float | None:
    """Return the processor time of making a registration of all topics that are new to it, in this process."""
    if session.broker.kind == JAVA:
        return None
    topics = {f"idle_topic_{number:04}": TopicConfig(f"idle_topic_{number:04}", 8, 8) for number in range(TOPICS)}
    wrapper = TopicConfigSerializeWrapper(topics, DataVersion(1, 1))
    begin = time.thread_time()
    body = b"".join(trio.run(RegistrationBody().encode, wrapper))
    encode_frame(make_request(RequestCode.REGISTER_BROKER, body=body))
    return (time.thread_time() - begin) * 1e3


IDLE_ROWS = [
    Row("idle, 1,000 topics and 500 groups", "% of a core", _idle_share, is_less_better=True),
    Row(
        "latest wake-up while it starts, registers and idles",
        "ms",
        lambda session: session.kept.get(LATENESS_KEY),
        is_less_better=True,
    ),
    Row("registration of 1,000 new topics, processor time", "ms", _registration_ms, is_less_better=True),
]
