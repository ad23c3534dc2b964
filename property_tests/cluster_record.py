"""What a history of a cluster writes down: what clients asked, were answered and got."""

from __future__ import annotations

import attrs
import trio

from property_tests.cluster_plan import Plan
from rocketpy.client.results import SendStatus
from rocketpy.testing.sim.log import SimLog

Queue = tuple[str, int]
"""Name of a broker, id of a queue."""


@attrs.define
class Sent:
    """One message, and what its producer was told."""

    number: int
    producer: str
    asked_at: float
    answered_at: float | None = None
    status: SendStatus | None = None
    queue: Queue | None = None
    queue_offset: int = -1
    physical_offset: int = -1
    failure: str = ""
    is_on_slave: bool | None = None
    """Whether the slave's log had it when the producer was answered; None without a slave that should have."""

    def __str__(self) -> str:
        if self.status is None:
            return f"{self.producer} sent #{self.number}: {self.failure or 'no answer'}"
        return f"{self.producer} sent #{self.number}: {self.status.name}, {_place(self.queue, self.queue_offset)}"


@attrs.frozen
class Got:
    """One message as a client got it."""

    queue: Queue
    queue_offset: int
    number: int
    body: bytes

    def __str__(self) -> str:
        return f"#{self.number} of {_place(self.queue, self.queue_offset)}"


@attrs.define
class History:
    """What happened."""

    plan: Plan
    sent: list[Sent] = attrs.Factory(list)
    got: dict[str, list[list[Got]]] = attrs.Factory(dict)
    """Of each group the lives of its consumer, and in each of them what it got, in order."""
    final: dict[Queue, list[Got]] = attrs.Factory(dict)
    """What the queues held in the end."""
    events: list[str] = attrs.Factory(list)
    tail_losses: list[tuple[float, str]] = attrs.Factory(list)
    """When a broker lost power, a sync of it failed, or its disk was wiped."""
    promotions: list[tuple[float, str]] = attrs.Factory(list)
    """When master and slave of a name changed their roles."""
    masters: dict[str, str] = attrs.Factory(dict)
    """The host of each name that is its master in the end."""
    logs: dict[str, SimLog] = attrs.Factory(dict)
    """The logs of the brokers in the end."""
    figures: dict[str, dict[str, str]] = attrs.Factory(dict)
    """The runtime info of the slaves in the end."""
    is_healed: bool = False
    """Whether after the faults every producer reached every broker, and every group got messages of every queue."""
    trace_hash: str = ""

    def note(self, text: str) -> None:
        """Write down an event of this moment."""
        self.events.append(f"{trio.current_time():7.3f}  {text}")

    def text(self, broken: list[str]) -> str:
        """Return the history for a person to read, with what is broken at its end."""
        return "\n".join(["", str(self.plan).splitlines()[0], *self.events, "broken:", *broken])


def _place(queue: Queue | None, queue_offset: int) -> str:
    return "nowhere" if queue is None else f"{queue[0]} queue {queue[1]} offset {queue_offset}"


def body_of(number: int) -> bytes:
    """Return how the body of a message begins, equally long for every number."""
    return b"%06d " % number


def has_record(log: SimLog, sent: Sent) -> bool:
    """Whether a log has a message at the physical offset that its producer was told."""
    record = log.at(sent.physical_offset, 1 << 16)
    size = int.from_bytes(record[:4], "big")
    return 4 < size <= len(record) and body_of(sent.number) in record[:size]


def are_equal(log: SimLog, other: SimLog) -> bool:
    """Whether two logs end at the same offset, with the same bytes wherever both begin."""
    return log.end_offset == other.end_offset and log.parts_from(other) is None
