"""What single operations cost a server that has nothing else to do: its processor time, and what a caller waits.

Each probe is a number of requests one after the other over one connection. Processor time is the server's own, of all
its threads; it is what can be compared between the beginning and the end of a run on a machine that others use.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import attrs

from bench.soak.usage import processor_ns
from tests.blackbox.wire import GET_ROUTEINFO_BY_TOPIC, SUCCESS, Response, Wire

PROBE_TOPIC = "probe"
SENDS, PULLS, ROUTES, HEARTBEATS, TOPICS = 300, 100, 300, 200, 20
PULLED = 32

HEART_BEAT = 34
DELETE_TOPIC_IN_BROKER = 215
DELETE_TOPIC_IN_NAMESRV = 216


@attrs.frozen
class Probe:
    """What one kind of operation has cost, in microseconds of each operation."""

    title: str
    processor_us: float
    p50_us: float
    p99_us: float


def probe(title: str, pid: int, count: int, operation: Callable[[int], Response]) -> Probe:
    """Do an operation so many times; each must succeed."""
    waits = []
    begin_ns = processor_ns(pid)
    for number in range(count):
        asked = time.perf_counter()
        response = operation(number)
        waits.append(time.perf_counter() - asked)
        assert response.code == SUCCESS, (title, response)
    used_ns = processor_ns(pid) - begin_ns
    waits.sort()
    return Probe(title, used_ns / count / 1e3, 1e6 * waits[count // 2], 1e6 * waits[count * 99 // 100])


def probe_servers(broker: tuple[int, str], nameserver: tuple[int, str], number: int) -> list[Probe]:
    """Measure a broker and a nameserver, each by process id and address; ``number`` makes names new in each round."""
    broker_pid, broker_address = broker
    nameserver_pid, nameserver_address = nameserver
    with Wire(broker_address) as wire, Wire(nameserver_address) as names:
        topics = [f"probe-{number}-{each}" for each in range(TOPICS)]
        heartbeat = json.dumps(
            {
                "clientID": "127.0.0.1@probe",
                "producerDataSet": [{"groupName": "probe_producers"}],
                "consumerDataSet": [],
            }
        ).encode()
        sends = probe("send", broker_pid, SENDS, lambda _: wire.send(PROBE_TOPIC, 0, b"p" * 200))
        begin = wire.max_offset(PROBE_TOPIC, 0) - PULLED
        return [
            sends,
            probe("pull of 32", broker_pid, PULLS, lambda _: wire.pull(PROBE_TOPIC, 0, begin, PULLED)),
            probe("heartbeat", broker_pid, HEARTBEATS, lambda _: wire.request(HEART_BEAT, {}, heartbeat)),
            probe("create topic", broker_pid, TOPICS, lambda each: wire.create_topic(topics[each], 1)),
            probe("delete topic", broker_pid, TOPICS, lambda each: _delete(wire, names, topics[each])),
            probe(
                "route",
                nameserver_pid,
                ROUTES,
                lambda _: names.request(GET_ROUTEINFO_BY_TOPIC, {"topic": PROBE_TOPIC}),
            ),
        ]


def _delete(wire: Wire, names: Wire, topic: str) -> Response:
    response = wire.request(DELETE_TOPIC_IN_BROKER, {"topic": topic})
    return response if response.code else names.request(DELETE_TOPIC_IN_NAMESRV, {"topic": topic})
