"""A load for a broker that is about to be killed: pipelined senders that remember what was acknowledged.

Every body is unique, ``SENDER SEQUENCE`` and filling, and is sent once. So each may come out at most once, and must if
it was acknowledged.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import attrs

from tests.blackbox.wire import SEND_MESSAGE_V2, SUCCESS, Wire, WireError, encode_request, send_fields


@attrs.frozen
class Acknowledged:
    """Where the broker said that a body is."""

    queue_id: int
    queue_offset: int
    sender: str
    sequence: int
    body: bytes


@attrs.define(eq=False)
class Sender:
    """One connection with ``window`` requests under way, in a thread of its own, until the broker is gone."""

    name: str
    address: str
    topic: str
    queues: int
    window: int
    acknowledged: list[Acknowledged] = attrs.field(factory=list)
    refused: list[str] = attrs.field(factory=list)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to send."""
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until the connection has broken and all that came over it is counted."""
        assert self._thread is not None
        self._thread.join(30)
        assert not self._thread.is_alive(), f"{self.name} has not noticed that the broker is gone"

    def _run(self) -> None:
        try:
            with Wire(self.address, timeout_s=15) as wire:
                self._send(wire)
        except WireError:
            pass  # the broker was killed, as it should be

    def _send(self, wire: Wire) -> None:
        bodies: dict[int, bytes] = {}
        frames = self._frames(bodies)
        wire.write(b"".join(next(frames) for _ in range(self.window)))
        while True:
            response = wire.read_response()
            body = bodies.pop(response.opaque)
            if response.code == SUCCESS:
                fields = response.fields
                place = int(fields["queueId"]), int(fields["queueOffset"])
                self.acknowledged.append(Acknowledged(*place, self.name, response.opaque, body))
            else:
                self.refused.append(f"{response.code} {response.remark}")
            wire.write(next(frames))

    def _frames(self, bodies: dict[int, bytes]) -> Iterator[bytes]:
        chance = random.Random(self.name)
        sequence = 0
        while True:
            sequence += 1
            bodies[sequence] = f"{self.name} {sequence} ".encode() + b"x" * chance.choice((0, 10, 100, 1000, 5000))
            fields = send_fields(self.topic, sequence % self.queues, f"KEYS\x01{self.name}-{sequence}\x02")
            yield encode_request(SEND_MESSAGE_V2, sequence, fields, bodies[sequence])
