"""Delayed messages of our broker: the cost of ten thousand pending ones, and their lateness under load.

    python -m bench.delays                       # about a minute; figures on stdout

Three figures: the processor time of a broker in which nothing waits and in which ten thousand messages do; how late
messages of one second are delivered while a connection sends as fast as it can; and how late are ten thousand that are
due in the same second. Late is the storeTimestamp of the delivery against the time in which it was due.
"""

from __future__ import annotations

import argparse
import struct
import tempfile
import threading
import time
from pathlib import Path

from bench import load, probe
from bench.brokers import Broker
from bench.processes import processor_s

PENDING = 10_000
UNDER_LOAD = 2_000
WATCHED_S = 10.0
LEVEL_1S, LEVEL_10S, LEVEL_2H = 1, 3, 18
DELAY_MS = {LEVEL_1S: 1_000, LEVEL_10S: 10_000}
_SIZE = struct.Struct(">i")
_BORN_AND_STORED = struct.Struct(">40xq8xq")  # of a record with IPv4 hosts


def send_delayed(port: int, topic: str, level: int, count: int, pause_s: float = 0.0) -> None:
    """Send messages one after the other."""
    with probe.Connection(port) as connection:
        for _ in range(count):
            fields = {
                "a": "bench_delay",
                "b": topic,
                "c": "TBW102",
                "d": "1",
                "e": "0",
                "f": "0",
                "g": str(time.time_ns() // 1_000_000),
                "h": "0",
                "i": f"DELAY\x01{level}",
                "j": "0",
                "k": "false",
                "m": "false",
            }
            code, _, body = connection.ask(probe.SEND_MESSAGE_V2, fields, b"delayed")
            if code != probe.SUCCESS:
                raise OSError(f"a delayed message was answered with code {code}: {body!r}")
            if pause_s:
                time.sleep(pause_s)


def delivered(port: int, topic: str) -> list[tuple[int, int]]:
    """Return when each message of a topic was sent and when its delivery was stored, in ms."""
    found: list[tuple[int, int]] = []
    with probe.Connection(port) as connection:
        while True:
            fields = {
                "consumerGroup": "bench_probe",
                "topic": topic,
                "queueId": "0",
                "queueOffset": str(len(found)),
                "maxMsgNums": "32",
                "sysFlag": "4",
                "commitOffset": "0",
                "suspendTimeoutMillis": "0",
                "subscription": "*",
                "subVersion": "1",
            }
            code, _, body = connection.ask(probe.PULL_MESSAGE, fields)
            if code != probe.SUCCESS:
                return found
            position = 0
            while position < len(body):
                found.append(_BORN_AND_STORED.unpack_from(body, position))
                position += _SIZE.unpack_from(body, position)[0]


def idle_share(broker: Broker) -> float:
    """Return the share of a core that a broker uses without requests."""
    assert broker.process is not None
    begin = processor_s(broker.process.pid)
    time.sleep(WATCHED_S)
    return (processor_s(broker.process.pid) - begin) / WATCHED_S


def lateness(found: list[tuple[int, int]], level: int) -> str:
    """Return percentiles: a message is due its delay after it was stored, a little after it was sent."""
    late = sorted(stored_ms - sent_ms - DELAY_MS[level] for sent_ms, stored_ms in found)
    p50, p99 = late[len(late) // 2], late[len(late) * 99 // 100]
    return f"{len(late)} delivered, p50 {p50} ms, p99 {p99} ms, latest {late[-1]} ms, earliest {late[0]} ms"


def measure(directory: Path) -> None:
    """Start a broker, measure, end it."""
    program = load.build(directory)
    broker = Broker("ours", directory / "ours", {})
    broker.start()
    try:
        time.sleep(2)
        print(f"idle, nothing waits: {idle_share(broker):.2%} of a core", flush=True)
        send_delayed(broker.port, "bench_pending", LEVEL_2H, PENDING)
        time.sleep(3)
        print(f"idle, {PENDING} messages wait: {idle_share(broker):.2%} of a core", flush=True)

        sender = threading.Thread(
            target=send_delayed, args=(broker.port, "bench_late", LEVEL_1S, UNDER_LOAD, 0.002), daemon=True
        )
        sender.start()
        options: dict[str, str | int | float] = {
            "topic": "bench_load",
            "queues": 8,
            "connections": 1,
            "depth": 64,
            "total": 200_000,
            "body": 128,
        }
        result = load.run(program, broker, "send", **options)
        sender.join()
        time.sleep(2)
        found = delivered(broker.port, "bench_late")
        print(f"under a load of {result.per_s:,.0f} messages/s: {lateness(found, LEVEL_1S)}", flush=True)

        send_delayed(broker.port, "bench_burst", LEVEL_10S, PENDING)
        time.sleep(12)
        print(f"{PENDING} at once: {lateness(delivered(broker.port, 'bench_burst'), LEVEL_10S)}", flush=True)
    finally:
        broker.stop()


def main() -> None:
    """Measure in a directory that goes away."""
    parser = argparse.ArgumentParser(prog="bench.delays", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--directory", type=Path, help="where the store is put; not on a tmpfs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        measure(Path(directory))


if __name__ == "__main__":
    main()
