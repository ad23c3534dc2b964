"""What a soak must keep, checked against the journals of its members. Pure.

Promises, for every group:

- *Nothing is lost*: each acknowledged message is consumed. What was sent without an acknowledgement may be, or not.
- *Transactions are decided as their producer says*: of those that began, exactly the committed ones are consumed; of
  the others none.
- *Order* (orderly group): the first time that an offset of a queue is handled comes after the first time of all
  offsets before it. A member that is killed, or a broker that forgets its locks, makes messages come again; it never
  makes one come early. So the messages that a sender sent one after the other to one queue are first handled in the
  order in which they were sent.

Repeats are no violation (RocketMQ delivers at least once); they are counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import attrs

PLAIN_TOPIC = "soak_plain"
ORDERED_TOPIC = "soak_ordered"
TRANSACTION_TOPIC = "soak_transactions"
SHOWN = 5

Key = tuple[str, int]
"""Sender and number of a message."""


def is_committed(sequence: int) -> bool:
    """Return how a transaction of this number is decided, by its producer or by a check."""
    return sequence % 2 == 0


def is_decided_by_check(sequence: int) -> bool:
    """Return whether the producer leaves a transaction of this number to the broker's check."""
    return sequence % 4 >= 2


@attrs.frozen
class Handled:
    """One message as a handler got it."""

    key: Key
    timestamp_ns: int
    queue: tuple[str, str, int]
    queue_offset: int


@attrs.define(eq=False)
class Sent:
    """What producers know."""

    acknowledged: dict[str, set[Key]] = attrs.field(factory=lambda: defaultdict(set))  # by topic
    failed: dict[str, int] = attrs.field(factory=lambda: defaultdict(int))  # by error
    begun: set[Key] = attrs.field(factory=set)
    undone: set[Key] = attrs.field(factory=set)
    quiet: set[str] = attrs.field(factory=set)  # producers that begin no more transactions

    def add(self, lines: Iterable[Sequence[str]]) -> None:
        """Add lines of a producer's journal."""
        for event, *fields in lines:
            if event == "ack":
                self.acknowledged[fields[0]].add((fields[1], int(fields[2])))
            elif event == "begin":
                self.begun.add((fields[0], int(fields[1])))
            elif event == "undone":
                self.undone.add((fields[0], int(fields[1])))
                self.failed["half message"] += 1
            elif event == "quiet":
                self.quiet.add(fields[0])
            else:
                assert event == "fail", event
                self.failed[fields[3]] += 1

    def expected(self, topics: Iterable[str]) -> set[Key]:
        """Return what a group of these topics must consume."""
        expected: set[Key] = set()
        for topic in topics:
            expected |= self.acknowledged[topic]
            if topic == TRANSACTION_TOPIC:
                expected |= {key for key in self.begun if is_committed(key[1])}
        return expected


@attrs.define(eq=False)
class Group:
    """What the members of a group have handled."""

    name: str
    topics: Sequence[str]
    is_orderly: bool = False
    handled: list[Handled] = attrs.field(factory=list)
    keys: set[Key] = attrs.field(factory=set)

    def add(self, lines: Iterable[Sequence[str]]) -> None:
        """Add lines of a member's journal."""
        for event, topic, sender, sequence, nanoseconds, broker, queue_id, queue_offset in lines:
            assert event == "got", event
            key = sender, int(sequence)
            self.keys.add(key)
            self.handled.append(Handled(key, int(nanoseconds), (topic, broker, int(queue_id)), int(queue_offset)))

    @property
    def repeat_count(self) -> int:
        """How many times a message came again."""
        return len(self.handled) - len(self.keys)

    def violations(self, sent: Sent) -> list[str]:
        """Return a sentence for each promise that is not kept."""
        found = []
        if lost := sent.expected(self.topics) - self.keys:
            found.append(f"{self.name}: {len(lost)} messages were acknowledged and not consumed: {_some(lost)}")
        if TRANSACTION_TOPIC in self.topics:
            undecided = {each.key for each in self.handled if each.queue[0] == TRANSACTION_TOPIC} - sent.expected(
                [TRANSACTION_TOPIC]
            )
            if undecided:
                found.append(f"{self.name}: {len(undecided)} transactions were not committed: {_some(undecided)}")
        return found + (self._order() if self.is_orderly else [])

    def _order(self) -> list[str]:
        """Return where a message was handled before one that it follows."""
        found = []
        ends: dict[tuple[str, str, int], int] = {}
        last: dict[tuple[str, tuple[str, str, int]], int] = {}
        seen: set[Key] = set()
        for each in sorted(self.handled, key=lambda each: each.timestamp_ns):
            end = ends.setdefault(each.queue, 0)
            if each.queue_offset > end:
                found.append(f"{self.name}: {each.queue} offset {each.queue_offset} was handled before {end}")
            ends[each.queue] = max(end, each.queue_offset + 1)
            if each.key in seen:
                continue
            seen.add(each.key)
            sender, sequence = each.key
            before = last.get((sender, each.queue), -1)
            if sequence < before:
                found.append(f"{self.name}: {each.key} in {each.queue} was first handled after {before}")
            last[sender, each.queue] = sequence
        return found[:SHOWN]


def _some(keys: set[Key]) -> str:
    return ", ".join(f"{sender} {sequence}" for sender, sequence in sorted(keys)[:SHOWN])
