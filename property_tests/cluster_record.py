"""What a history of a cluster writes down: what clients asked, were answered and got."""

from __future__ import annotations

import math

import attrs
import trio

from property_tests.cluster_plan import Decision, Plan
from rocketpy.client.results import SendStatus
from rocketpy.testing.sim.log import SimLog

UNCOMMITTED = "uncommitted"
"""The loss of what a process with a transient pool had not committed to its files when it ended."""

Queue = tuple[str, int]
"""Name of a broker, id of a queue."""


@attrs.define
class Transaction:
    """What a producer decides about a half message, and when. Its decision outlives it."""

    decision: Decision
    decides_after_s: float
    """Time from the answer to the half message to the decision; without an answer nothing is decided."""
    is_left_to_checks: bool
    """The producer sends no end unless a broker asks."""
    decided_at: float = math.inf
    ended_at: float | None = None
    """When a broker has answered that the transaction has ended."""

    def __str__(self) -> str:
        left = ", left to checks" if self.is_left_to_checks else ""
        return f"{self.decision.name} at {self.decided_at:.3f}{left}"


@attrs.define
class Commit:
    """An offset that a consumer has committed, or an operator has set back."""

    group: str
    queue: Queue
    consumer_offset: int
    asked_at: float
    is_reset: bool = False
    broker: str = ""
    """The host that was asked."""
    answered_at: float | None = None

    def __str__(self) -> str:
        what = "was reset to" if self.is_reset else "committed"
        answered = "no answer" if self.answered_at is None else f"answered {self.answered_at:.3f}"
        return (
            f"{self.group} {what} {self.consumer_offset} of {self.queue[0]} queue {self.queue[1]} "
            f"at {self.broker} {self.asked_at:.3f}, {answered}"
        )


@attrs.frozen
class Offsets:
    """The offsets of the groups that a broker had when it was asked."""

    broker: str
    asked_at: float
    answered_at: float
    of_queues: dict[tuple[str, int], int]
    """By group and queue id."""
    ends: dict[int, int] = attrs.Factory(dict)
    """Where its queues ended just before, by queue id, if it had just been started."""


@attrs.frozen
class End:
    """The end of a broker's process."""

    at: float
    broker: str
    is_clean: bool = False
    is_wiped: bool = False
    stopping_since: float | None = None


@attrs.frozen
class TailLoss:
    """A broker lost power, a sync of it failed, or its disk was wiped."""

    at: float
    broker: str
    what: str

    @property
    def is_power(self) -> bool:
        """Whether what was not durable may be gone."""
        return self.what in ("lose power", UNCOMMITTED)

    @property
    def is_sync(self) -> bool:
        """Whether a sync failed: more than that is needed to lose something."""
        return self.what == "fail sync"


@attrs.frozen
class RoleChange:
    """A slave became the master of its name."""

    at: float
    name: str
    new_master: str
    log: SimLog
    """What the new master had at that moment."""
    deletions: frozenset[str] = frozenset()
    """Topics of which it knew that they were deleted."""
    has_most: bool = True
    """Whether no other slave had a longer log: one that has parted from its master's is not promoted."""


@attrs.frozen
class Deletion:
    """A topic that a master has deleted, with its messages and the offsets of its groups."""

    topic: str
    name: str
    asked_at: float
    answered_at: float
    log: SimLog
    """What the master had when it had answered."""


@attrs.define
class Sent:
    """One message, and what its producer was told."""

    number: int
    producer: str
    asked_at: float
    """When the send began."""
    attempted_at: float | None = None
    """When its last attempt left, if that is known."""
    answered_at: float | None = None
    status: SendStatus | None = None
    queue: Queue | None = None
    queue_offset: int = -1
    physical_offset: int = -1
    failure: str = ""
    msg_id: str = ""
    is_on_slave: bool | None = None
    """Whether the slave's log had it when the producer was answered; None without a slave that should have."""
    broker: str | None = None
    """Name of the broker that stored it."""
    delay_level: int = 0
    transaction: Transaction | None = None
    """Of a half message. Like a delayed one it has no ``queue``: it lies in a queue of the broker's own."""

    def __str__(self) -> str:
        what = f"level {self.delay_level}, " if self.delay_level else ""
        what += f"half, {self.transaction}, " if self.transaction else ""
        text = f"{self.producer} sent #{self.number}: {what}"
        if self.status is None:
            return text + (self.failure or "no answer")
        place = f"{self.broker} at {self.physical_offset}" if what else _place(self.queue, self.queue_offset)
        return f"{text}{self.status.name}, {place}"


@attrs.frozen
class Got:
    """One message as a client got it."""

    queue: Queue
    queue_offset: int
    number: int
    body: bytes
    at: float

    def __str__(self) -> str:
        return f"#{self.number} of {_place(self.queue, self.queue_offset)}"


@attrs.define
class Back:
    """A message that a group has sent back, to get it again in its retry topic."""

    group: str
    sent: Sent
    """The copy, which has the number of the message: what is known of it is in the answer of its broker."""
    got: Got


@attrs.define
class History:
    """What happened."""

    plan: Plan
    began_at: float = 0.0
    """When the operations of the plan began to count."""
    sent: list[Sent] = attrs.Factory(list)
    got: dict[str, list[list[Got]]] = attrs.Factory(dict)
    """Of each group the lives of its consumer, and in each of them what it got, in order."""
    final: dict[Queue, list[Got]] = attrs.Factory(dict)
    """What the queues held in the end."""
    events: list[str] = attrs.Factory(list)
    losses: list[TailLoss] = attrs.Factory(list)
    changes: list[RoleChange] = attrs.Factory(list)
    ends: list[End] = attrs.Factory(list)
    """When processes of brokers ended."""
    starts: list[tuple[float, str]] = attrs.Factory(list)
    """When brokers served that had ended before."""
    cut_tails: set[str] = attrs.Factory(set)
    """Brokers that have cut a part of their log that their master did not have."""
    clock_steps: list[tuple[float, str, int]] = attrs.Factory(list)
    """When the wall clock of a broker was set, and by how many ms: also what a clock at another rate adds or loses."""
    commits: list[Commit] = attrs.Factory(list)
    offsets: list[Offsets] = attrs.Factory(list)
    backs: list[Back] = attrs.Factory(list)
    retried: dict[str, set[int]] = attrs.Factory(dict)
    """Of each group the numbers that its retry topic held in the end."""
    deletions: list[Deletion] = attrs.Factory(list)
    undeleted: list[str] = attrs.Factory(list)
    """What was there in the end of a topic that was deleted: messages, offsets of groups."""
    lies: list[str] = attrs.Factory(list)
    """Lies that were believed."""
    begin_offsets: dict[str, int] = attrs.Factory(dict)
    """Of each name where its master's log begins in the end: older files were deleted."""
    skipped_before: dict[str, int] = attrs.Factory(dict)
    """Of each name up to which physical offset some master of it has deleted messages."""
    masters: dict[str, str] = attrs.Factory(dict)
    """The host of each name that is its master in the end."""
    logs: dict[str, SimLog] = attrs.Factory(dict)
    """The logs of the brokers in the end."""
    found_by_key: dict[str, dict[int, bool]] = attrs.Factory(dict)
    """Of each broker some messages, and whether it found them by their keys in the end."""
    figures: dict[str, dict[str, str]] = attrs.Factory(dict)
    """The runtime info of the slaves in the end."""
    is_healed: bool = False
    """Whether after the faults every producer reached every broker, and every group got messages of every queue."""
    trace_hash: str = ""

    @property
    def tail_losses(self) -> list[tuple[float, str]]:
        """When a broker lost power, a sync of it failed, or its disk was wiped."""
        return [(each.at, each.broker) for each in self.losses]

    @property
    def promotions(self) -> list[tuple[float, str]]:
        """When master and slave of a name changed their roles."""
        return [(each.at, each.name) for each in self.changes]

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
