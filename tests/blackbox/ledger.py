"""What brokers have acknowledged, held against what is read back: all of it, once, in order, byte-identical."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from tests.blackbox.load import Acknowledged, Sender, key_of, parse_body
from tests.blackbox.wire import Record, Wire


@attrs.define(eq=False)
class Ledger:
    """The messages of one topic. Reading goes on where it ended last; :meth:`read_again` starts over."""

    topic: str
    queues: int
    acknowledged: dict[tuple[int, int], tuple[str, int]] = attrs.field(
        factory=dict
    )  # sender and number, by queue and offset
    _sent_counts: dict[str, int] = attrs.field(factory=dict)  # by sender
    _found: list[list[tuple[str, int]]] = attrs.field(init=False)  # by queue, in its order
    _seen: set[tuple[str, int]] = attrs.field(factory=set)
    _last: dict[tuple[str, int], int] = attrs.field(factory=dict)  # the last number, by sender and queue
    is_ordered: bool = True
    """Whether what one connection sends to one queue keeps its order: not with Java, which has several threads."""

    def __attrs_post_init__(self) -> None:
        self._found = [[] for _ in range(self.queues)]

    @property
    def found_count(self) -> int:
        """How many messages were read back."""
        return len(self._seen)

    def enter(self, senders: Iterable[Sender]) -> list[Acknowledged]:
        """Enter what senders have sent and what was acknowledged to them; no offset may be given twice."""
        new = [each for sender in senders for each in sender.acknowledged]
        for sender in senders:
            self._sent_counts[sender.name] = sender.sent_count
        for each in new:
            place = each.queue_id, each.queue_offset
            assert place not in self.acknowledged, f"{place} given to {self.acknowledged[place]} and to {each}"
            self.acknowledged[place] = each.sender, each.sequence
        return new

    def read_on(self, wire: Wire) -> None:
        """Read each queue from where the last reading stopped to its end, and check that nothing is missing."""
        for queue_id, found in enumerate(self._found):
            start, end = len(found), wire.max_offset(self.topic, queue_id)
            assert end >= start, f"queue {queue_id} ends at {end}, was at {start}"
            for record in wire.pull_all(self.topic, queue_id, start, end):
                self._check(record, queue_id)
        lost = [place for place in self.acknowledged if place[1] >= len(self._found[place[0]])]
        assert not lost, (
            f"{len(lost)} of {len(self.acknowledged)} acknowledged messages are lost, "
            f"first {self.acknowledged[min(lost)]} at {min(lost)}"
        )

    def read_again(self, wire: Wire) -> None:
        """Read everything from the beginning: it must be what was read before, and perhaps more."""
        before, self._found = self._found, [[] for _ in range(self.queues)]
        self._seen.clear()
        self._last.clear()
        self.read_on(wire)
        for queue_id, (old, new) in enumerate(zip(before, self._found, strict=True)):
            assert new[: len(old)] == old, f"queue {queue_id} has changed"

    def _check(self, record: Record, queue_id: int) -> None:
        found = self._found[queue_id]
        place = queue_id, len(found)
        assert (record.queue_id, record.queue_offset) == place, f"{record.queue_offset} at the place of {place}"
        sender, sequence = parse_body(record.body)
        assert sequence < self._sent_counts.get(sender, 0), f"{(sender, sequence)} was never sent, found at {place}"
        assert record.properties.get("KEYS") == key_of(sender, sequence), (place, record.properties)
        assert (sender, sequence) not in self._seen, f"{(sender, sequence)} is there twice, again at {place}"
        expected = self.acknowledged.get(place)
        assert expected in (None, (sender, sequence)), f"expected {expected} at {place}, found {(sender, sequence)}"
        if self.is_ordered:
            assert sequence > self._last.get((sender, queue_id), -1), f"{(sender, sequence)} follows a later one"
        self._last[sender, queue_id] = sequence
        self._seen.add((sender, sequence))
        found.append((sender, sequence))
