"""Record of a consumer group's history: what was sent, what was handled by which member, and the promises it broke.

The promises, each with the word that a broken one begins with:

- ``lost``: every message whose send was acknowledged is handled, but for those of a broker that is gone for good.
- ``owners``: once it is quiet, each queue has exactly one owner.
- ``order``: an orderly group handles one batch of a queue at a time, and no message before an earlier one of its
  queue was handled.
- ``foreign``: a member handles only messages of queues that are assigned to it.
- ``again``: a message that was handled comes again only after a disturbance, and only if it was handled shortly before
  it (:data:`WINDOWS`). While members only join and leave, an orderly group handles no message twice.
- ``late``: while members only join and leave, no message waits longer than :data:`WAIT_SECONDS_MAX`.
"""

from __future__ import annotations

import math
from collections import Counter

import attrs
import trio

from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.consumer import Consumer
from rocketpy.protocol.message import MessageQueue
from rocketpy.testing.sim.host import SimHost

TOPIC, OTHER_TOPIC = "T", "U"
LONG_HANDLER_SECONDS = 4.0
"""How long a handler takes from time to time: longer than a rebalance waits for it."""

WINDOWS = {
    # What is behind an unfinished message of its queue comes again when the queue is handed over.
    "change": 2 * LONG_HANDLER_SECONDS + 2,
    # A member stores its offsets every 5 s.
    "member": 2 * LONG_HANDLER_SECONDS + 5 + 2,
    # A broker writes them to its disk every 5 s after that.
    "broker": 2 * LONG_HANDLER_SECONDS + 5 + 5 + 2,
}
"""By the kind of a disturbance: how long before it a message may have been handled that comes again."""
HORIZON_SECONDS = 50.0
"""How long after the end of a disturbance the queues are handed over at last, in a group without locks."""
OWNERLESS_SECONDS = 10.0
"""A queue of which nothing was handled for so long had no owner, and what its next owner repeats is not late."""
LOCK_SECONDS = 30.0
"""How long a broker keeps the locks of a member that is gone."""
WAIT_SECONDS_MAX = 25.0


@attrs.define(eq=False)
class Disturbance:
    """Something that lets messages come again."""

    kind: str
    began_at: float
    ended_at: float = math.inf


@attrs.define(eq=False)
class Member:
    """One member of the group, through one life of its process."""

    host: SimHost
    consumer: Consumer
    is_odd: bool = False
    """It divides the queues otherwise than the others, which need not agree with it on their owners."""


@attrs.define(eq=False)
class History:
    """What has happened, and which promises it broke."""

    is_orderly: bool
    sent: dict[int, tuple[MessageQueue, float]] = attrs.field(factory=dict)
    """Acknowledged messages, by their numbers: the queue and when they were."""
    handled_at: dict[int, float] = attrs.field(factory=dict)
    """When a message was handled for the first time."""
    members: dict[SimHost, Member] = attrs.field(factory=dict)
    disturbances: list[Disturbance] = attrs.field(factory=list)
    removed_brokers: set[str] = attrs.field(factory=set)
    again_count: int = 0
    """Deliveries of messages that had been handled."""
    batch_count: int = 0
    broken: list[str] = attrs.field(factory=list)
    events: list[str] = attrs.field(factory=list)
    is_over: bool = False
    _busy: dict[MessageQueue, set[Member]] = attrs.field(factory=dict)
    _next_offsets: Counter[MessageQueue] = attrs.field(factory=Counter)
    _handled_last: dict[MessageQueue, float] = attrs.field(factory=dict)
    _idle: dict[MessageQueue, tuple[float, float]] = attrs.field(factory=dict)  # the last time without an owner
    _ended_at: dict[tuple[MessageQueue, int], float] = attrs.field(factory=dict)  # of the last handling

    def note(self, text: str) -> None:
        """Note an event, for the reader of a history that failed."""
        self.events.append(f"{trio.current_time():8.2f} {text}")

    def disturb(self, kind: str) -> Disturbance:
        """Begin a disturbance; its end is for the caller to set."""
        disturbance = Disturbance(kind, trio.current_time())
        self.disturbances.append(disturbance)
        return disturbance

    def hang(self, member: Member) -> None:
        """Note that a process stands still: what it was handling may be handled by the next owner."""
        for busy in self._busy.values():
            busy.discard(member)

    # ---- the handler of every member ------------------------------------------------------------------------------

    async def handle(self, member: Member, batch: MessageBatch) -> None:
        """Handle a batch as a program would: usually fast, from time to time slowly."""
        queue = batch.queue
        busy = self._busy.setdefault(queue, set())
        self._begin(member, batch, busy)
        busy.add(member)
        try:
            await trio.sleep(LONG_HANDLER_SECONDS if batch.messages[0].queue_offset % 8 == 5 else 0.05)
            now = trio.current_time()
            for message in batch:
                self.handled_at.setdefault(int(message.body), now)
                self._ended_at[queue, message.queue_offset] = now
            end = batch.messages[-1].queue_offset + 1
            self._next_offsets[queue] = max(self._next_offsets[queue], end)
        finally:
            busy.discard(member)

    def _begin(self, member: Member, batch: MessageBatch, busy: set[Member]) -> None:
        queue, first = batch.queue, batch.messages[0].queue_offset
        self.batch_count += 1
        self._note_handled(queue)
        if queue not in member.consumer.assigned:
            self.broken.append(f"foreign: {queue} is not assigned to {member.host.address}")
        if self.is_orderly:
            if busy:
                self.broken.append(f"order: two handlers of {queue} at once, at {trio.current_time():.2f}")
            if first > self._next_offsets[queue]:
                self.broken.append(f"order: {first} of {queue} comes before {self._next_offsets[queue]}")
        for message in batch:
            ended_at = self._ended_at.get((queue, message.queue_offset))
            if ended_at is not None:
                self.again_count += 1
                if not self._may_come_again(queue, ended_at):
                    now = trio.current_time()
                    self.broken.append(
                        f"again: {message.queue_offset} of {queue} was handled at {ended_at:.2f}, and at {now:.2f}"
                    )

    def _may_come_again(self, queue: MessageQueue, ended_at: float) -> bool:
        horizon = HORIZON_SECONDS + (LOCK_SECONDS if self.is_orderly else 0)
        now = trio.current_time()
        idle_from, idle_to = self._idle.get(queue, (0.0, -math.inf))
        latest = idle_from if now - idle_to <= horizon else now
        return any(
            ended_at >= each.began_at - WINDOWS[each.kind] and latest <= each.ended_at + horizon
            for each in self.disturbances
            if not (self.is_orderly and each.kind == "change")
        )

    def _note_handled(self, queue: MessageQueue) -> None:
        """Note whether a queue had no owner for a while: messages of each are sent all the time."""
        now = trio.current_time()
        before = self._handled_last.get(queue, now)
        if now - before > OWNERLESS_SECONDS:
            self._idle[queue] = (before, now)
        self._handled_last[queue] = now

    # ---- the end --------------------------------------------------------------------------------------------------

    def still_missing(self, queues: set[MessageQueue]) -> list[str]:
        """Return what is not as it must be once it is quiet."""
        found = []
        owners = Counter(
            queue
            for member in self.members.values()
            for queue in member.consumer.assigned
            if queue.topic in (TOPIC, OTHER_TOPIC)
        )
        if owners != Counter(queues):
            found.append(f"owners: {dict(owners)} of {sorted(queues)}")
        lost = [
            number
            for number, (queue, _) in self.sent.items()
            if number not in self.handled_at and queue.broker_name not in self.removed_brokers
        ]
        if lost:
            found.append(f"lost: {sorted(lost)}")
        return found

    def check_waits(self) -> None:
        """Check that no message has waited for long; for histories in which members only join and leave."""
        for number, (queue, sent_at) in self.sent.items():
            handled_at = self.handled_at.get(number, math.inf)
            if handled_at - sent_at > WAIT_SECONDS_MAX:
                self.broken.append(f"late: {number} of {queue}, sent at {sent_at:.2f}, handled at {handled_at:.2f}")
