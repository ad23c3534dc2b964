"""Minimal blocking RocketMQ client, for requests that are timed one by one or from the first connection attempt.

Deliberately independent of ``rocketpy.protocol``: the benchmark must not share code with what it measures.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
import socket
import struct
import time

PULL_MESSAGE = 11
QUERY_MESSAGE = 12
GET_BROKER_RUNTIME_INFO = 28
SEARCH_OFFSET_BY_TIMESTAMP = 29
GET_MAX_OFFSET = 30
SEND_MESSAGE_V2 = 310
SUCCESS = 0

ACCESS_KEY = "bench-account"
SECRET_KEY = "bench-secret"
"""The account of brokers that are measured with ACL."""

_LENGTHS = struct.Struct(">II")
_UNIQUE_KEY = re.compile(rb"UNIQ_KEY\x01([^\x02]+)")


class Connection:
    """A connection that asks one thing after the other. ``OSError``: no answer, or a refusal."""

    def __init__(self, port: int, timeout_s: float = 5.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *raised: object) -> None:
        self._socket.close()

    def ask(self, code: int, ext_fields: dict[str, str], body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
        """Send one request, signed; return the response's code, fields and body."""
        self.begin(code, ext_fields, body)
        return self.end()

    def begin(self, code: int, ext_fields: dict[str, str], body: bytes = b"") -> None:
        """Send one request, signed, and leave its response to :meth:`end`."""
        self._socket.sendall(encode_request(code, ext_fields, body))

    def end(self) -> tuple[int, dict[str, str], bytes]:
        """Return the code, the fields and the body of the response that comes next."""
        length, header_length = _LENGTHS.unpack(_receive(self._socket, 8))
        rest = _receive(self._socket, length - 4)
        header_length &= 0xFFFFFF
        response = json.loads(rest[:header_length])
        return response["code"], response.get("extFields") or {}, rest[header_length:]

    def max_offset(self, topic: str, queue: int) -> int:
        """Return how many messages a queue has had."""
        fields = {"topic": topic, "queueId": str(queue)}
        return int(self._successful(GET_MAX_OFFSET, fields)[0]["offset"])

    def search_offset(self, topic: str, queue: int, timestamp_ms: int) -> int:
        """Return the offset of the message stored nearest to a time."""
        fields = {"topic": topic, "queueId": str(queue), "timestamp": str(timestamp_ms)}
        return int(self._successful(SEARCH_OFFSET_BY_TIMESTAMP, fields)[0]["offset"])

    def query_message(self, topic: str, key: str) -> bytes:
        """Return the records that the index has for a key; none is an empty answer."""
        fields = {"topic": topic, "key": key, "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str((1 << 63) - 1)}
        code, _, body = self.ask(QUERY_MESSAGE, fields)
        return body if code == SUCCESS else b""

    def unique_key(self, topic: str, queue: int, offset: int) -> str:
        """Return the unique key of a message in a queue."""
        found = _UNIQUE_KEY.search(self._successful(PULL_MESSAGE, pull_fields(topic, queue, offset))[1])
        if found is None:
            raise OSError(f"no unique key in {topic}:{queue} at {offset}")
        return found[1].decode()

    def _successful(self, code: int, fields: dict[str, str]) -> tuple[dict[str, str], bytes]:
        status, answered, body = self.ask(code, fields)
        if status != SUCCESS:
            raise OSError(f"request {code} with {fields} was answered with code {status}")
        return answered, body


def ask(
    port: int, code: int, ext_fields: dict[str, str], body: bytes = b"", timeout_s: float = 5.0
) -> tuple[int, bytes]:
    """Send one request over its own connection; return the response code and body. ``OSError``: no answer."""
    with Connection(port, timeout_s) as connection:
        status, _, answer = connection.ask(code, ext_fields, body)
    return status, answer


def encode_request(code: int, ext_fields: dict[str, str], body: bytes = b"") -> bytes:
    """Return the frame of a request, signed."""
    request = {
        "code": code,
        "extFields": _signed(ext_fields, body),
        "flag": 0,
        "language": "JAVA",
        "opaque": 1,
        "serializeTypeCurrentRPC": "JSON",
        "version": 407,
    }
    header = json.dumps(request, separators=(",", ":")).encode()
    return _LENGTHS.pack(4 + len(header) + len(body), len(header)) + header + body


def send_one(port: int, topic: str, timeout_s: float = 5.0) -> bool:
    """Send one small message; return whether it was stored. ``OSError`` when nothing answers."""
    return ask(port, SEND_MESSAGE_V2, send_fields(topic), b"probe", timeout_s)[0] == SUCCESS


def send_fields(topic: str) -> dict[str, str]:
    """Return the header of a send to the first queue of a topic."""
    return {
        "a": "bench_probe",
        "b": topic,
        "c": "TBW102",
        "d": "8",
        "e": "0",
        "f": "0",
        "g": str(time.time_ns() // 1_000_000),
        "h": "0",
        "i": "",
        "j": "0",
        "k": "false",
        "m": "false",
    }


def pull_fields(topic: str, queue: int, offset: int, suspend_ms: int = 0) -> dict[str, str]:
    """Return the header of a pull of one message that brings its own subscription; held if it may be suspended."""
    return {
        "commitOffset": "0",
        "consumerGroup": "bench_probe",
        "maxMsgNums": "1",
        "queueId": str(queue),
        "queueOffset": str(offset),
        "subVersion": "1",
        "subscription": "*",
        "suspendTimeoutMillis": str(suspend_ms),
        "sysFlag": "6" if suspend_ms else "4",
        "topic": topic,
    }


def runtime_info(port: int) -> dict[str, str]:
    """Return the broker's runtime table (GET_BROKER_RUNTIME_INFO)."""
    code, body = ask(port, GET_BROKER_RUNTIME_INFO, {})
    if code != SUCCESS:
        raise OSError(f"runtime info answered with code {code}")
    table: dict[str, str] = json.loads(body)["table"]
    return table


def _signed(ext_fields: dict[str, str], body: bytes) -> dict[str, str]:
    """Add account and signature; a broker without accounts does not look at them."""
    fields = {"AccessKey": ACCESS_KEY, **ext_fields}
    content = "".join(fields[key] for key in sorted(fields)).encode() + body
    signature = base64.b64encode(hmac.digest(SECRET_KEY.encode(), content, "sha1")).decode()
    return {**fields, "Signature": signature}


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("the broker closed the connection")
        parts += part
    return bytes(parts)
