"""A load for a broker that is about to be killed: pipelined senders that record what was acknowledged.

A body is a function of its sender and its number, and is sent once. So a reader can tell from a body alone whether it
was ever sent, and every byte that it should have.
"""

from __future__ import annotations

import random
import struct
import threading
from zlib import crc32

import attrs

from tests.blackbox.wire import (
    SEND_BATCH_MESSAGE,
    SEND_MESSAGE_V2,
    SUCCESS,
    Wire,
    WireError,
    encode_request,
    send_fields,
)
from tests.patience import PATIENCE_SECONDS

_SIZES = (0, 10, 100, 1000, 5000)
_FILLING = random.Random("filling").randbytes(20_000)
_BATCH_ITEM = struct.Struct(">iiiii")


def body_of(sender: str, sequence: int) -> bytes:
    """Return the body that a sender gives its message of a number: ``SENDER SEQUENCE`` and bytes of any value."""
    head = f"{sender} {sequence} ".encode()
    chance = crc32(head)
    begin = chance % 15_000
    return head + _FILLING[begin : begin + _SIZES[chance % len(_SIZES)]]


def key_of(sender: str, sequence: int) -> str:
    """Return the message's key."""
    return f"{sender}-{sequence}"


def parse_body(body: bytes) -> tuple[str, int]:
    """Return sender and number of a body that was read; AssertionError if no sender has made it, byte for byte."""
    try:
        sender, sequence, _ = body.split(b" ", 2)
        found = sender.decode(), int(sequence)
    except ValueError:
        raise AssertionError(f"{body[:60]!r} was never sent") from None
    assert body == body_of(*found), f"the body of {found} has changed: {body[:60]!r}"
    return found


@attrs.frozen
class Acknowledged:
    """Where the broker said that a message is."""

    queue_id: int
    queue_offset: int
    sender: str
    sequence: int


@attrs.define(eq=False)
class Sender:
    """One connection with ``window`` requests under way, in a thread of its own, until the broker is gone.

    With ``batch`` each request is a batch of so many messages, otherwise one message. With ``limit`` it ends after so
    many requests and their answers.
    """

    name: str
    address: str
    topic: str
    queues: int
    window: int
    batch: int = 0
    limit: int | None = None
    acknowledged: list[Acknowledged] = attrs.field(factory=list)
    refused: list[str] = attrs.field(factory=list)
    sent_count: int = 0  # messages handed to the socket, the last of them perhaps in part
    _requests: int = 0
    _under_way: dict[int, tuple[int, int, int]] = attrs.field(factory=dict)  # queue, first number, count; by opaque
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to send."""
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Send no more requests; those under way get their answers."""
        self.limit = self._requests

    def join(self) -> None:
        """Wait until the connection has broken or the limit is reached, and all that came over it is counted."""
        assert self._thread is not None
        self._thread.join(2 * PATIENCE_SECONDS)  # it may wait for one last answer itself
        assert not self._thread.is_alive(), f"{self.name} has not noticed that the broker is gone"

    def _run(self) -> None:
        try:
            with Wire(self.address) as wire:
                self._send(wire)
        except WireError:
            pass  # the broker was killed, as it should be

    def _send(self, wire: Wire) -> None:
        wire.write(b"".join(self._next_frame() for _ in range(min(self.window, self.limit or self.window))))
        while self._under_way:
            response = wire.read_response()
            queue_id, first, count = self._under_way.pop(response.opaque)
            if response.code == SUCCESS:
                found_id, offset = int(response.fields["queueId"]), int(response.fields["queueOffset"])
                assert found_id == queue_id, (self.name, response)
                self.acknowledged += [
                    Acknowledged(queue_id, offset + index, self.name, first + index) for index in range(count)
                ]
            else:
                self.refused.append(f"{response.code} {response.remark}")
            if self.limit is None or self._requests < self.limit:
                wire.write(self._next_frame())

    def _next_frame(self) -> bytes:
        self._requests += 1
        first, count, queue_id = self.sent_count, max(1, self.batch), self._requests % self.queues
        self._under_way[self._requests] = queue_id, first, count
        self.sent_count += count
        if not self.batch:
            fields = send_fields(self.topic, queue_id, f"KEYS\x01{key_of(self.name, first)}\x02")
            return encode_request(SEND_MESSAGE_V2, self._requests, fields, body_of(self.name, first))
        fields = {**send_fields(self.topic, queue_id), "m": "true"}
        items = b"".join(map(self._batch_item, range(first, first + count)))
        return encode_request(SEND_BATCH_MESSAGE, self._requests, fields, items)

    def _batch_item(self, sequence: int) -> bytes:
        """Return one message of a batch: total size, magic, CRC, flag, body length, body, properties with length."""
        body = body_of(self.name, sequence)
        properties = f"KEYS\x01{key_of(self.name, sequence)}".encode()
        total_size = _BATCH_ITEM.size + len(body) + 2 + len(properties)
        head = _BATCH_ITEM.pack(total_size, 0, 0, 0, len(body))
        return head + body + struct.pack(">h", len(properties)) + properties
