"""A blocking RocketMQ client of three questions, for what must be timed from the first connection attempt.

Deliberately independent of ``rocketpy.protocol``: the benchmark must not share code with what it measures.
"""

from __future__ import annotations

import json
import socket
import struct
import time

GET_BROKER_RUNTIME_INFO = 28
SEND_MESSAGE_V2 = 310
SUCCESS = 0

_LENGTHS = struct.Struct(">II")


def ask(
    port: int, code: int, ext_fields: dict[str, str], body: bytes = b"", timeout_s: float = 5.0
) -> tuple[int, bytes]:
    """Send one request over its own connection; return the response code and body. ``OSError``: no answer."""
    request = {
        "code": code,
        "extFields": ext_fields,
        "flag": 0,
        "language": "JAVA",
        "opaque": 1,
        "serializeTypeCurrentRPC": "JSON",
        "version": 407,
    }
    header = json.dumps(request, separators=(",", ":")).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
        connection.sendall(_LENGTHS.pack(4 + len(header) + len(body), len(header)) + header + body)
        length, header_length = _LENGTHS.unpack(_receive(connection, 8))
        rest = _receive(connection, length - 4)
    header_length &= 0xFFFFFF
    return json.loads(rest[:header_length])["code"], rest[header_length:]


def send_one(port: int, topic: str) -> bool:
    """Send one small message; return whether it was stored. ``OSError`` when nothing answers."""
    fields = {
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
    return ask(port, SEND_MESSAGE_V2, fields, b"probe")[0] == SUCCESS


def runtime_info(port: int) -> dict[str, str]:
    """Return the broker's runtime table (GET_BROKER_RUNTIME_INFO)."""
    code, body = ask(port, GET_BROKER_RUNTIME_INFO, {})
    if code != SUCCESS:
        raise OSError(f"runtime info answered with code {code}")
    table: dict[str, str] = json.loads(body)["table"]
    return table


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("the broker closed the connection")
        parts += part
    return bytes(parts)
