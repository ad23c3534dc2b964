"""RocketMQ's wire for tests from outside: blocking sockets, JSON headers, records taken apart by hand.

It knows nothing of ``rocketpy``, so that no error of our own codecs can hide itself, and works against the Java broker
too. Only what the tests need: send, pull, offsets, routes, topic creation.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import time
from collections.abc import Iterator
from types import TracebackType

import attrs

from tests.patience import PATIENCE_SECONDS, wait_until

SEND_MESSAGE_V2 = 310
SEND_BATCH_MESSAGE = 320
PULL_MESSAGE = 11
QUERY_MESSAGE = 12
QUERY_CONSUMER_OFFSET = 14
UPDATE_AND_CREATE_TOPIC = 17
GET_ALL_TOPIC_CONFIG = 21
UPDATE_BROKER_CONFIG = 25
GET_BROKER_RUNTIME_INFO = 28
GET_MAX_OFFSET = 30
GET_ROUTEINFO_BY_TOPIC = 105
GET_BROKER_CLUSTER_INFO = 106
GET_CONSUMER_CONNECTION_LIST = 203
GET_PRODUCER_CONNECTION_LIST = 204

SUCCESS = 0
SYSTEM_ERROR = 1
FLUSH_DISK_TIMEOUT = 10
SLAVE_NOT_AVAILABLE = 11
FLUSH_SLAVE_TIMEOUT = 12
SERVICE_NOT_AVAILABLE = 14
TOPIC_NOT_EXIST = 17
PULL_NOT_FOUND = 19
PULL_RETRY_IMMEDIATELY = 20
PULL_OFFSET_MOVED = 21

# Java writes the keys of brokerAddrs as bare numbers, which is no JSON: they are broker ids, and quoted here.
_BARE_KEY = re.compile(r"([{,])(\d+):")

# From the start of a stored record: TOTALSIZE, MAGICCODE, BODYCRC, QUEUEID, FLAG, QUEUEOFFSET, PHYSICALOFFSET, SYSFLAG.
_RECORD_START = struct.Struct(">iiiiiqqi")
_MESSAGE_MAGIC_CODE = -626843481
# After SYSFLAG, with IPv4 hosts: born timestamp, host, store timestamp, host, reconsume times, transaction offset.
_BODY_AT_V4 = _RECORD_START.size + 8 + 8 + 8 + 8 + 4 + 8


class WireError(Exception):
    """The peer closed, was silent for too long or sent what is no frame."""


@attrs.frozen
class Response:
    """A response's code, remark, extended fields and body."""

    code: int
    remark: str
    fields: dict[str, str]
    body: bytes
    opaque: int


@attrs.frozen
class Record:
    """What the tests compare of a stored message."""

    queue_id: int
    queue_offset: int
    physical_offset: int
    body: bytes
    properties: dict[str, str]


def encode_request(code: int, opaque: int, fields: dict[str, object], body: bytes = b"", *, flag: int = 0) -> bytes:
    """Return a frame: total length, header length (JSON is type 0 in its first byte), header, body."""
    header = json.dumps(
        {
            "code": code,
            "extFields": {name: str(value) for name, value in fields.items()},
            "flag": flag,
            "language": "PYTHON",
            "opaque": opaque,
            "serializeTypeCurrentRPC": "JSON",
            "version": 409,
        }
    ).encode()
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


def send_fields(topic: str, queue_id: int, properties: str = "", timestamp_ms: int = 0) -> dict[str, object]:
    """Return the fields of SEND_MESSAGE_V2, whose names are single letters."""
    return {
        "a": "blackbox",
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": queue_id,
        "f": 0,
        "g": timestamp_ms or time.time_ns() // 1_000_000,
        "h": 0,
        "i": properties,
        "j": 0,
        "k": "false",
        "m": "false",
    }


def decode_records(body: bytes) -> Iterator[Record]:
    """Yield the records of a pull's body, which lie back to back (IPv4 hosts)."""
    position = 0
    while position < len(body):
        size, magic, _crc, queue_id, _flag, queue_offset, physical_offset, _ = _RECORD_START.unpack_from(body, position)
        assert magic == _MESSAGE_MAGIC_CODE, f"magic code {magic:#x} at {position} of {len(body)}"
        (body_size,) = struct.unpack_from(">i", body, position + _BODY_AT_V4)
        start = position + _BODY_AT_V4 + 4
        end = position + size
        properties_at = start + body_size + 1 + body[start + body_size] + 2  # after the topic and their own length
        entries = [each.partition("\x01") for each in body[properties_at:end].decode().split("\x02") if each]
        properties = {name: value for name, _, value in entries}
        yield Record(queue_id, queue_offset, physical_offset, body[start : start + body_size], properties)
        position = end


class Wire:
    """One connection; every call blocks, at most ``timeout_s`` for each reply."""

    def __init__(self, address: str, timeout_s: float = PATIENCE_SECONDS) -> None:
        host, port = address.rsplit(":", 1)
        try:
            self._socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        except OSError as error:
            raise WireError(f"{address}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self._opaque = 0

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket; harmless when it is closed."""
        self._socket.close()

    def write(self, frames: bytes) -> None:
        """Send encoded frames."""
        try:
            self._socket.sendall(frames)
        except OSError as error:
            raise WireError(str(error)) from error

    def read_response(self) -> Response:
        """Return the next response; raises WireError when the peer has gone."""
        (size,) = struct.unpack(">i", self._take(4))
        if not 4 <= size <= 64 << 20:
            raise WireError(f"a frame of {size} bytes")
        frame = self._take(size)
        header_size = struct.unpack_from(">i", frame)[0] & 0xFFFFFF
        header = json.loads(frame[4 : 4 + header_size])
        return Response(
            header["code"],
            header.get("remark") or "",
            header.get("extFields") or {},
            frame[4 + header_size :],
            header["opaque"],
        )

    def request(self, code: int, fields: dict[str, object], body: bytes = b"") -> Response:
        """Send a request and return the response to it, passing over requests that the server sends on its own."""
        self._opaque += 1
        self.write(encode_request(code, self._opaque, fields, body))
        while True:
            response = self.read_response()
            if response.opaque == self._opaque:
                return response

    def send(self, topic: str, queue_id: int, body: bytes, properties: str = "") -> Response:
        """Send one message; a SUCCESS response has msgId, queueId and queueOffset among its fields."""
        return self.request(SEND_MESSAGE_V2, send_fields(topic, queue_id, properties), body)

    def send_until_stored(self, topic: str, body: bytes) -> Response:
        """Send one message to queue 0, again while the broker is short of something; return the last answer."""
        answers: list[Response] = []

        def is_stored() -> bool:
            answers[:] = [self.send(topic, 0, body)]
            assert answers[0].code in (SUCCESS, SERVICE_NOT_AVAILABLE), answers
            return answers[0].code == SUCCESS

        wait_until(is_stored, lambda: answers)
        return answers[0]

    def create_topic(self, topic: str, queues: int) -> Response:
        """Create a topic at this broker."""
        fields: dict[str, object] = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": queues,
            "writeQueueNums": queues,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": "false",
        }
        return self.request(UPDATE_AND_CREATE_TOPIC, fields)

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset that the queue's next message will have."""
        response = self.request(GET_MAX_OFFSET, {"topic": topic, "queueId": queue_id})
        assert response.code == SUCCESS, response
        return int(response.fields["offset"])

    def pull(self, topic: str, queue_id: int, queue_offset: int, max_msg_nums: int = 32) -> Response:
        """Ask once, without waiting at the broker."""
        fields: dict[str, object] = {
            "consumerGroup": "blackbox_pull",
            "topic": topic,
            "queueId": queue_id,
            "queueOffset": queue_offset,
            "maxMsgNums": max_msg_nums,
            "sysFlag": 4,  # the request carries its subscription
            "commitOffset": 0,
            "suspendTimeoutMillis": 0,
            "subscription": "*",
            "subVersion": 0,
            "expressionType": "TAG",
        }
        return self.request(PULL_MESSAGE, fields)

    def pull_all(self, topic: str, queue_id: int, queue_offset: int, end: int) -> Iterator[Record]:
        """Yield the queue's messages from ``queue_offset`` on, up to but not including ``end``."""
        while queue_offset < end:
            response = self.pull(topic, queue_id, queue_offset)
            assert response.code == SUCCESS, f"{topic}:{queue_id} at {queue_offset} of {end}: {response}"
            records = list(decode_records(response.body))
            assert records, f"{topic}:{queue_id} at {queue_offset}: found, but nothing in it"
            yield from (each for each in records if each.queue_offset < end)
            queue_offset = int(response.fields["nextBeginOffset"])

    def query(self, topic: str, key: str) -> list[Record]:
        """Return the messages that the index has for a key."""
        fields: dict[str, object] = {
            "topic": topic,
            "key": key,
            "maxNum": 32,
            "beginTimestamp": 0,
            "endTimestamp": (1 << 63) - 1,
        }
        response = self.request(QUERY_MESSAGE, fields)
        return list(decode_records(response.body)) if response.code == SUCCESS else []

    def topic_table(self) -> str:
        """Return the broker's topics as it writes them."""
        response = self.request(GET_ALL_TOPIC_CONFIG, {})
        assert response.code == SUCCESS, response
        return response.body.decode()

    def update_config(self, **settings: object) -> None:
        """Change settings of a running broker."""
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        response = self.request(UPDATE_BROKER_CONFIG, {}, text.encode())
        assert response.code == SUCCESS, response

    def runtime_info(self) -> dict[str, str]:
        """Return the broker's runtime figures; none from a Java broker in its first second, which then fails."""
        response = self.request(GET_BROKER_RUNTIME_INFO, {})
        if response.code == SYSTEM_ERROR:
            return {}
        assert response.code == SUCCESS, response
        table: dict[str, str] = json.loads(response.body)["table"]
        return table

    def has_producer(self, group: str) -> bool:
        """Return whether this broker knows a producer of the group: that takes a heartbeat."""
        return self.request(GET_PRODUCER_CONNECTION_LIST, {"producerGroup": group}).code == SUCCESS

    def has_consumer(self, group: str) -> bool:
        """Return whether this broker knows a member of the group."""
        return self.request(GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group}).code == SUCCESS

    def consumer_offset(self, topic: str, group: str, queue_id: int) -> int:
        """Return what the group has committed for a queue, 0 when that is nothing."""
        fields: dict[str, object] = {"topic": topic, "consumerGroup": group, "queueId": queue_id}
        response = self.request(QUERY_CONSUMER_OFFSET, fields)
        return int(response.fields["offset"]) if response.code == SUCCESS else 0

    def brokers_of(self, topic: str) -> set[str]:
        """Ask a nameserver for the names of the brokers that have the topic."""
        return set(self.read_queues_of(topic))

    def read_queues_of(self, topic: str) -> dict[str, int]:
        """Ask a nameserver how many queues of the topic can be read at each broker that has it."""
        response = self.request(GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        if response.code == TOPIC_NOT_EXIST:
            return {}
        assert response.code == SUCCESS, response
        text = _BARE_KEY.sub(r'\1"\2":', response.body.decode())
        return {queue["brokerName"]: queue["readQueueNums"] for queue in json.loads(text)["queueDatas"]}

    def broker_addresses(self, broker_name: str) -> dict[int, str]:
        """Ask a nameserver for the addresses of all brokers of a name, by broker id."""
        response = self.request(GET_BROKER_CLUSTER_INFO, {})
        assert response.code == SUCCESS, response
        text = _BARE_KEY.sub(r'\1"\2":', response.body.decode())
        found = json.loads(text)["brokerAddrTable"].get(broker_name, {})
        return {int(broker_id): address for broker_id, address in found.get("brokerAddrs", {}).items()}

    def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            try:
                chunk = self._socket.recv(1 << 18)
            except OSError as error:
                raise WireError(str(error)) from error
            if not chunk:
                raise WireError("closed by the peer")
            self._received += chunk
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken
