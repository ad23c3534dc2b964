"""Rows for suspended pulls, and for pulls with an SQL92 selector.

Five thousand pulls are suspended, each for a queue of its own, over fifty connections; a sender writes at a fixed rate
to a hundred of these queues, and the pull of that queue is answered. What counts is the time from the send to that
answer; the pull is asked again at once, so that there are always five thousand. Not to all queues: that would measure
how a disk syncs five thousand files.
"""

from __future__ import annotations

import json
import random
import re
import select
import socket
import struct
import time
from collections.abc import Sequence

from bench import probe
from bench.rows import PULL_SIZE, PULL_TOPIC, QUEUES, SETTLE_S, Row, Session

PULLS = 5_000
CONNECTIONS = 50
RATE = 500
SENDS = 5_000
WRITTEN_QUEUES = 100
DISPATCH_S = 120.0
UPDATE_AND_CREATE_TOPIC = 17
SUSPEND_MS = 120_000
TOPIC = "bench_hold"
SELECTOR = "WAIT = 'true' AND (price IS NULL OR price BETWEEN 10 AND 20)"
"""Every message of the prepared topic passes, and all of its parts are evaluated."""

_LENGTHS = struct.Struct(">II")
_OPAQUE = re.compile(rb'"opaque":(\d+)')
_NEXT = re.compile(rb'"nextBeginOffset":"?(\d+)')


def wake_p99_ms(session: Session) -> float:
    """Return in ms how long 99 % of the messages took at most to wake their own pull."""
    port = session.broker.port
    _create_topic(port)
    with probe.Connection(port, timeout_s=60) as sender:
        # Each queue gets a message, so that none is made while the clock runs; an earlier round may have left some.
        ends = [_send(sender, queue) + 1 for queue in range(PULLS)]
        deadline = time.perf_counter() + DISPATCH_S
        while sender.max_offset(TOPIC, PULLS - 1) < ends[-1]:  # messages reach their queues in order
            if time.perf_counter() > deadline:
                raise OSError(f"{PULLS} messages are not in their queues after {DISPATCH_S:.0f} s")
            time.sleep(0.1)
        waiting = _Waiting(port, ends)
        try:
            waiting.ask_all()
            time.sleep(SETTLE_S)  # the queues that were made are flushed
            return _percentile(_wake(sender, waiting, session.scaled(SENDS)), 99)
        finally:
            waiting.close()


def pull_by_sql_in_turn(session: Session) -> float:
    """Pull the prepared messages with an expression, one request after the other; return messages per second.

    The client is Python, and takes longer for a pull than either broker: the row shows that neither is in its way.
    """
    total = session.prepare_pull()
    with probe.Connection(session.broker.port, timeout_s=60) as connection:
        began = time.perf_counter()
        pulled = 0
        for queue in range(QUEUES):
            offset = 0
            while True:
                code, fields, _ = connection.ask(probe.PULL_MESSAGE, _pull_fields(PULL_TOPIC, queue, offset, SELECTOR))
                if code != probe.SUCCESS:
                    break
                pulled += int(fields["nextBeginOffset"]) - offset
                offset = int(fields["nextBeginOffset"])
        seconds = time.perf_counter() - began
    if pulled < total:
        session.note(f"pull of 32 by SQL92, 1 in flight: {session.broker.kind} answered {pulled} of {total} messages")
    return pulled / seconds


def _pull_by_sql(session: Session) -> float:
    """Pull the same with the load generator, as for the row of plain pulls: one pull of each queue is in flight."""
    return session.pull(selector=SELECTOR)


class _Waiting:
    """The suspended pulls, over their connections; the opaque of a pull is the number of its queue."""

    def __init__(self, port: int, ends: Sequence[int]) -> None:
        """``ends`` are the offsets after the last message of each queue."""
        self._poll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self._received: dict[int, bytearray] = {}
        self._of_queue: dict[int, socket.socket] = {}
        self._next = dict(enumerate(ends))
        for _ in range(CONNECTIONS):
            each = socket.create_connection(("127.0.0.1", port))
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets[each.fileno()] = each
            self._received[each.fileno()] = bytearray()
            self._poll.register(each, select.EPOLLIN)
        ordered = list(self._sockets.values())
        self._of_queue = {queue: ordered[queue % CONNECTIONS] for queue in range(PULLS)}

    def ask_all(self) -> None:
        """Let all pulls be suspended: whatever is answered within a second has found its queue elsewhere."""
        for queue in range(PULLS):
            self._ask(queue)
        time.sleep(1)
        answered = self.answers(0.0)
        if answered:
            raise OSError(f"{len(answered)} of {PULLS} pulls were not suspended")

    def answers(self, timeout_s: float) -> list[int]:
        """Return the queues whose pulls were answered within a time, and ask them again."""
        queues = []
        for descriptor, _ in self._poll.poll(timeout_s):
            received = self._received[descriptor]
            received += self._sockets[descriptor].recv(1 << 16)
            while len(received) >= 8:
                length, header_length = _LENGTHS.unpack_from(received)
                if len(received) < length + 4:
                    break
                header = bytes(received[8 : 8 + (header_length & 0xFFFFFF)])
                del received[: length + 4]
                opaque, following = _OPAQUE.search(header), _NEXT.search(header)
                assert opaque is not None, header
                assert following is not None, header
                queue = int(opaque[1])
                self._next[queue] = int(following[1])
                queues.append(queue)
        for queue in queues:
            self._ask(queue)
        return queues

    def close(self) -> None:
        """End the connections."""
        for each in self._sockets.values():
            each.close()
        self._poll.close()

    def _ask(self, queue: int) -> None:
        fields = {**_pull_fields(TOPIC, queue, self._next[queue], "*"), "expressionType": "TAG", "sysFlag": "6"}
        self._of_queue[queue].sendall(_request(probe.PULL_MESSAGE, queue, fields))


def _wake(sender: probe.Connection, waiting: _Waiting, count: int) -> list[float]:
    """Send to one queue after the other; return the seconds from each send to the answer of its pull."""
    randomness = random.Random(1)
    written = randomness.sample(range(PULLS), WRITTEN_QUEUES)
    sent_at: dict[int, float] = {}
    took: list[float] = []
    began = time.perf_counter()
    for number in range(count):
        due = began + number / RATE
        while (left := due - time.perf_counter()) > 0:
            _note(waiting.answers(left), sent_at, took)
        queue = randomness.choice(written)
        while queue in sent_at:  # its last message is still on its way
            queue = randomness.choice(written)
        sent_at[queue] = time.perf_counter()
        _send(sender, queue)
        _note(waiting.answers(0.0), sent_at, took)
    deadline = time.perf_counter() + 10
    while sent_at and time.perf_counter() < deadline:
        _note(waiting.answers(0.1), sent_at, took)
    if sent_at:
        raise OSError(f"{len(sent_at)} of {count} messages woke no pull")
    return took


def _note(queues: list[int], sent_at: dict[int, float], took: list[float]) -> None:
    now = time.perf_counter()
    for queue in queues:
        at = sent_at.pop(queue, None)
        if at is not None:
            took.append(now - at)


def _percentile(seconds: list[float], percent: int) -> float:
    return sorted(seconds)[len(seconds) * percent // 100] * 1000


def _create_topic(port: int) -> None:
    fields = {
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "readQueueNums": str(PULLS),
        "writeQueueNums": str(PULLS),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    code, _ = probe.ask(port, UPDATE_AND_CREATE_TOPIC, fields)
    if code != probe.SUCCESS:
        raise OSError(f"the topic was answered with code {code}")


def _send(sender: probe.Connection, queue: int) -> int:
    """Send to a queue; return the message's offset in it."""
    fields = {
        "a": "bench_hold",
        "b": TOPIC,
        "c": "TBW102",
        "d": "4",
        "e": str(queue),
        "f": "0",
        "g": str(time.time_ns() // 1_000_000),
        "h": "0",
        "i": "",
        "j": "0",
        "k": "false",
        "m": "false",
    }
    code, answered, body = sender.ask(probe.SEND_MESSAGE_V2, fields, b"wake up")
    if code != probe.SUCCESS:
        raise OSError(f"a send was answered with code {code}: {body!r}")
    return int(answered["queueOffset"])


def _pull_fields(topic: str, queue: int, offset: int, expression: str) -> dict[str, str]:
    return {
        "commitOffset": "0",
        "consumerGroup": "bench_hold_group",
        "expressionType": "SQL92",
        "maxMsgNums": str(PULL_SIZE),
        "queueId": str(queue),
        "queueOffset": str(offset),
        "subVersion": "1",
        "subscription": expression,
        "suspendTimeoutMillis": str(SUSPEND_MS),
        "sysFlag": "4",
        "topic": topic,
    }


def _request(code: int, opaque: int, ext_fields: dict[str, str]) -> bytes:
    request = {
        "code": code,
        "extFields": ext_fields,
        "flag": 0,
        "language": "JAVA",
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": 407,
    }
    header = json.dumps(request, separators=(",", ":")).encode()
    return _LENGTHS.pack(4 + len(header), len(header)) + header


HOLD_ROWS = [
    Row("5,000 suspended pulls: wake p99", "ms", wake_p99_ms, is_less_better=True),
    Row("pull of 32 by SQL92", "messages/s", _pull_by_sql, is_of_ten=True, is_warmed=True),
    Row("pull of 32 by SQL92, 1 in flight", "messages/s", pull_by_sql_in_turn, is_warmed=True),
]
