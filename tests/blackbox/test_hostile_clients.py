"""Clients that mean harm, against real processes: others are served meanwhile, and memory stays bounded.

A bystander sends a message every few milliseconds through each attack. After the attack the broker still runs, the
bystander waited at most BYSTANDER_SECONDS for any answer (without the time in which the broker or the bystander could
not run because others had the processor), and the broker's memory never was more than MEMORY_BYTES above what it had
before.
What bounds each attack is in ``docs/compatibility.md``, "Limits".
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.blackbox import processes
from tests.blackbox.ports import free_ports
from tests.blackbox.processes import Process
from tests.blackbox.wire import PULL_MESSAGE, SEND_BATCH_MESSAGE, SUCCESS, Wire, WireError, encode_request, send_fields
from tests.patience import PATIENCE_SECONDS, starved_s

pytestmark = pytest.mark.blackbox

HEART_BEAT, CHECK_CLIENT_CONFIG, REGISTER_BROKER, GET_BROKER_CONFIG = 34, 46, 103, 26
FRAME_MAX = 16_777_216
INCOMING_MAX = 64 << 20
OUTGOING_MAX = 16 << 20
TOPICS_MAX = 300
MEMORY_BYTES = 256 << 20
BYSTANDER_SECONDS = 5.0
ANSWER_SECONDS = PATIENCE_SECONDS  # to an attacker


@attrs.define
class Victim:
    """A cluster under attack."""

    namesrv: str
    broker: str
    processes: list[Process]

    def memory_bytes(self) -> int:
        """The most memory that the broker has ever had."""
        return self._high_water(self.processes[1])

    def namesrv_memory_bytes(self) -> int:
        """The most memory that the nameserver has ever had."""
        return self._high_water(self.processes[0])

    def others_s(self) -> float:
        """How long the broker, or the thread that asks, could not run so far because others had the processor."""
        return self.processes[1].starved_s() + starved_s(threading.get_native_id())

    @staticmethod
    def _high_water(process: Process) -> int:
        status = Path(f"/proc/{process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    directory = tmp_path_factory.mktemp("hostile")
    first = free_ports(16)
    namesrv, port = f"127.0.0.1:{first}", first + 8
    settings = {
        **processes.broker_settings(directory, port, namesrv),
        "incomingBytesMax": INCOMING_MAX,
        "connectionOutgoingBytesMax": OUTGOING_MAX,
        "autoCreateTopicMax": TOPICS_MAX,
        "autoCreateSubscriptionGroupMax": TOPICS_MAX,
    }
    running = [processes.start_nameserver(directory, first)]
    try:
        running.append(processes.start_broker(directory, settings))
        processes.await_brokers(namesrv, {"broker-0"}, running)
        with Wire(f"127.0.0.1:{port}") as wire:
            assert wire.create_topic("Bystander", 1).code == SUCCESS
        yield Victim(namesrv, f"127.0.0.1:{port}", running)
        assert all(process.is_running() for process in running)
        for process in running:
            assert "Traceback" not in process.log(), process.log()[-5000:]
    finally:
        for process in reversed(running):
            process.kill()


@contextlib.contextmanager
def attacked(victim: Victim) -> Iterator[None]:
    """The block is an attack; check what the docstring of this module says."""
    slowest, failures, over = [0.0], [], threading.Event()

    def stand_by() -> None:
        try:
            with Wire(victim.broker, timeout_s=ANSWER_SECONDS) as wire:
                while not over.is_set():
                    began = time.monotonic() - victim.others_s()
                    assert wire.send("Bystander", 0, b"still here").code == SUCCESS
                    slowest[0] = max(slowest[0], time.monotonic() - victim.others_s() - began)
                    time.sleep(0.005)
        except (WireError, AssertionError) as failure:
            failures.append(failure)

    before = victim.memory_bytes(), victim.namesrv_memory_bytes()
    bystander = threading.Thread(target=stand_by)
    bystander.start()
    try:
        yield
    finally:
        over.set()
        bystander.join()
    assert not failures
    assert all(process.is_running() for process in victim.processes), victim.processes[1].log()[-3000:]
    assert slowest[0] < BYSTANDER_SECONDS
    assert victim.memory_bytes() - before[0] < MEMORY_BYTES
    assert victim.namesrv_memory_bytes() - before[1] < MEMORY_BYTES


def connected(address: str) -> socket.socket:
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS)


def throw(address: str, data: bytes) -> bytes:
    """Send bytes, and return what came back until the peer closed; b"" if it reset the connection."""
    with connected(address) as sock, contextlib.suppress(OSError):
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: sock.recv(65_536), b""))
    return b""


def refusal(address: str, code: int, fields: dict[str, object], body: bytes = b"") -> str:
    """Ask for something that is refused, over a connection that lives on; return the remark."""
    with Wire(address, timeout_s=ANSWER_SECONDS) as wire:
        response = wire.request(code, fields, body)
        assert response.code != SUCCESS
        assert response.remark
        assert wire.request(code, fields, b"").opaque == 2  # the connection lives on
        return response.remark


def test_wrong_lengths_end_only_their_own_connection(victim: Victim) -> None:
    frame = encode_request(PULL_MESSAGE, 1, {"topic": "Bystander"})
    lies = [
        struct.pack(">iI", total, head)
        for total in (-1, 0, 3, 1 << 30, -(1 << 31))
        for head in (0, 1 << 24, 0xFFFFFFFF)
    ]
    lies += [struct.pack(">i", len(frame)) + frame[4:], frame[:-1] + b"\xff", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"]
    with attacked(victim):
        for address in (victim.broker, victim.namesrv):
            for lie in lies:
                throw(address, lie)
            for bit in range(64):  # of both lengths
                damaged = bytearray(frame)
                damaged[bit // 8] ^= 1 << bit % 8
                throw(address, bytes(damaged))


def test_half_frames_and_half_handshakes_of_many_are_bounded(victim: Victim) -> None:
    """120 peers announce 16 MiB each and send one of them; 400 begin TLS and stop."""
    announced = struct.pack(">iI", FRAME_MAX - 4, 100)
    with attacked(victim), contextlib.ExitStack() as open_ones:
        for _ in range(120):
            sock = open_ones.enter_context(connected(victim.broker))
            with contextlib.suppress(OSError):  # closed already: it held the most
                sock.sendall(announced + bytes(1 << 20))
        for _ in range(400):
            sock = open_ones.enter_context(connected(victim.broker))
            sock.sendall(b"\x16\x03\x01\x02\x00\x01")
        for _ in range(50):
            open_ones.enter_context(connected(victim.broker))  # and some say nothing
        time.sleep(0.5)


def test_who_never_reads_answers_is_closed(victim: Victim) -> None:
    asks = encode_request(GET_BROKER_CONFIG, 1, {}) * 2000
    with attacked(victim), contextlib.ExitStack() as open_ones:
        for _ in range(8):
            sock = open_ones.enter_context(connected(victim.broker))
            sock.settimeout(0.5)
            with contextlib.suppress(OSError):
                for _ in range(5):
                    sock.sendall(asks)


def nested(opener: bytes, size: int) -> bytes:
    return opener * (size // len(opener))


@pytest.mark.parametrize("body", [nested(b"[", 8 << 20), nested(b'{"a":', 8 << 20), b'{"a":' + b"9" * (8 << 20)])
def test_bodies_of_json_without_end_are_refused(victim: Victim, body: bytes) -> None:
    with attacked(victim):
        for _ in range(3):
            refusal(victim.broker, HEART_BEAT, {}, body)


def _subscription(expression: str, expression_type: str) -> bytes:
    data = {
        "topic": "Bystander", "subString": expression, "tagsSet": [], "codeSet": [], "subVersion": 1,
        "expressionType": expression_type,
    }  # fmt: skip
    return json.dumps({"clientId": "c", "group": "g", "subscriptionData": data}).encode()


EXPRESSION_SIZE = (1 << 19) - 8192
"""What a header may hold beside the other fields; a longer one ends the connection."""
EXPRESSIONS = {
    "tags": ("TAG", " || ".join(f"tag{number}" for number in range(EXPRESSION_SIZE // 12))),
    "parentheses": ("SQL92", "(" * (EXPRESSION_SIZE // 2) + "a=1" + ")" * (EXPRESSION_SIZE // 2)),
    "list": ("SQL92", "a in (" + ",".join(["'x'"] * 8000) + ")"),
}


@pytest.mark.parametrize("what", EXPRESSIONS)
def test_long_subscription_expressions_cost_little(victim: Victim, what: str) -> None:
    kind, expression = EXPRESSIONS[what]
    fields: dict[str, object] = {
        "consumerGroup": "hostile", "topic": "Bystander", "queueId": 0, "queueOffset": 0, "maxMsgNums": 32,
        "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subVersion": 0,
        "subscription": expression, "expressionType": kind,
    }  # fmt: skip
    with attacked(victim), Wire(victim.broker, timeout_s=ANSWER_SECONDS) as wire:
        for _ in range(5):
            wire.request(CHECK_CLIENT_CONFIG, {}, _subscription(expression, kind))
            response = wire.request(PULL_MESSAGE, fields)
            assert response.code == SUCCESS or response.remark
            consumer = {
                "groupName": "hostile", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "unitMode": False,
                "subscriptionDataSet": [json.loads(_subscription(expression, kind))["subscriptionData"]],
            }  # fmt: skip
            beat = {"clientID": "hostile", "consumerDataSet": [consumer], "producerDataSet": []}
            wire.request(HEART_BEAT, {}, json.dumps(beat).encode())


def test_bombs_stay_as_small_as_they_were_sent(victim: Victim) -> None:
    """A compressed body is its consumer's affair, a compressed registration the nameserver's, and refused."""
    bomb = zlib.compress(bytes(200 << 20), 1)
    register: dict[str, object] = {
        "brokerName": "bomb", "brokerAddr": "127.0.0.1:1", "clusterName": "c", "haServerAddr": "", "brokerId": 0,
        "compressed": "true", "bodyCrc32": zlib.crc32(bomb) & 0x7FFFFFFF,
    }  # fmt: skip
    with attacked(victim), Wire(victim.broker, timeout_s=ANSWER_SECONDS) as wire:
        for _ in range(4):
            compressed = {**send_fields("Bystander", 0), "f": 1}
            assert wire.request(310, compressed, bomb).code == SUCCESS
            assert "body" in refusal(victim.namesrv, REGISTER_BROKER, register, bomb)
            item = struct.pack(">iiiii", 20 + len(bomb) + 2, 0, 0, 0, len(bomb)) + bomb + b"\0\0"
            wire.request(SEND_BATCH_MESSAGE, {**compressed, "m": "true"}, item)


def test_a_header_of_megabytes_ends_its_own_connection(victim: Victim) -> None:
    """No message can have such properties, and a header is read before an account is checked."""
    with attacked(victim):
        for properties in ("a\1" + "x" * (12 << 20), "\2".join(f"k{number}\1v" for number in range(500_000))):
            with Wire(victim.broker, timeout_s=ANSWER_SECONDS) as wire, pytest.raises(WireError):
                wire.send("Bystander", 0, b"body", properties)


def test_a_great_many_topics_and_groups_cannot_be_made(victim: Victim) -> None:
    """Automatic creation is bounded by settings, and other clients go on."""
    asked = 5_000
    with attacked(victim), Wire(victim.broker, timeout_s=ANSWER_SECONDS) as wire:
        for start in range(0, asked, 500):
            frames = [
                encode_request(310, number, send_fields(f"Made_{number}", 0), b"x")
                for number in range(start, start + 500)
            ]
            wire.write(b"".join(frames))
            codes = {wire.read_response().code for _ in frames}
        assert codes == {17}
        made = json.loads(wire.topic_table())["topicConfigTable"]
        assert len(made) <= TOPICS_MAX + 10
        assert wire.send("Bystander", 0, b"after all").code == SUCCESS


def test_no_attack_has_left_anything_on_the_way(victim: Victim) -> None:
    """A new client finds everything as it was: connections of attackers are gone, the queue takes messages."""
    with Wire(victim.broker) as wire:
        before = wire.max_offset("Bystander", 0)
        assert wire.send("Bystander", 0, os.urandom(100)).code == SUCCESS
        assert wire.max_offset("Bystander", 0) == before + 1
