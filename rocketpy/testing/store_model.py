"""Reference model of a store's guarantees: a list of messages and a few counters; no disk, no files, no time.

The log is a list of messages in the order in which they were accepted; a queue is the part of it with one topic and
queue id. The guarantee for a message grows with its state, and always includes all messages before it:

========== ======================================================== ================================================
sent       put returned PUT_OK                                      nothing yet
written    its burst ended: what SEND_OK means under ASYNC_FLUSH    it survives the death of the process
synced     a flush said so: what SEND_OK means under SYNC_FLUSH     it survives the loss of power
recovered  a recovery has found it, acknowledged or not             the next one finds it; after a loss of power too
                                                                    if the store called it durable
stopped    it was there at a clean shutdown                         the next start finds it
========== ======================================================== ================================================

A recovery may find more than was promised, but only a beginning of the list. The rest is cut, and never comes back.

The driver of a store reports every event and the result of every recovery to the model. The model raises
:class:`InvariantBroken`, which names the violated invariant and the messages.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import attrs

_SHOWN_MAX = 5
_BODY_SHOWN_MAX = 24


class Invariant(enum.Enum):
    """Invariants that hold after any crash at any time."""

    ACKNOWLEDGED_IS_THERE = "what was acknowledged as durable is there, once, in order, byte-identical"
    NO_HOLE = "queue offsets have no hole"
    NOTHING_INVENTED = "nothing was invented"
    TWICE_IS_ONCE = "recovering twice equals once"
    CLEAN_STOP_LOSES_NOTHING = "a clean stop loses nothing"
    ABORT_FILE = "the abort file is absent only before the first open and after a clean stop"
    CUT_STAYS_CUT = "what recovery cut never comes back"
    FULL_DISK = "a full disk refuses messages and ends nothing"
    KEYS_LEAD = "the index leads from a key to all messages that have it, and to no other"


@attrs.frozen
class Sent:
    """One message and its offsets. Equal means: byte-identical, at the same offsets."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    body: bytes = attrs.field(repr=lambda body: f"{len(body)} bytes {body[:_BODY_SHOWN_MAX]!r}")
    properties: bytes = b""
    flag: int = 0
    tags_code: int = 0


@attrs.frozen
class Found:
    """Contents after a recovery: every queue read through its units, and a scan of the log from its beginning."""

    queues: Mapping[tuple[str, int], Sequence[Sent]]
    log: Sequence[Sent]
    abort_file_was_there: bool  # before the store was opened
    durable_end: int | None = None  # how far the log is durable now, by the store's own account; None: all of it


class InvariantBroken(AssertionError):
    """One of the sentences is not true."""

    def __init__(self, invariant: Invariant, what: str, messages: Sequence[Sent] = ()) -> None:
        shown = [f"\n    {message}" for message in messages[:_SHOWN_MAX]]
        if len(messages) > _SHOWN_MAX:
            shown.append(f"\n    and {len(messages) - _SHOWN_MAX} more")
        super().__init__(f"{invariant.name}: {invariant.value}\n  {what}{''.join(shown)}")
        self.invariant = invariant
        self.messages = tuple(messages)


class StoreModel:
    """One store through all its lives."""

    def __init__(self) -> None:
        self.log: list[Sent] = []  # what may be there, in order
        self.cut: set[Sent] = set()  # what may not
        # So many messages, from the beginning of the log, have come so far:
        self.written_count = self.synced_count = self.recovered_count = self.stopped_count = 0
        self.recovered_durable_count = 0
        self.needs_abort_file = False
        self.is_whole = True  # nothing has expired

    # ---- what happens to the store --------------------------------------------------------------------------------

    def sent(self, messages: Sequence[Sent]) -> None:
        """The store has accepted messages, in a burst that goes on."""
        self.log += messages
        self.cut.difference_update(messages)

    def written(self, physical_end: int | None = None) -> None:
        """Record the end of a burst; with a transient store pool, the offset up to which it has been written."""
        count = len(self.log) if physical_end is None else self._count_before(physical_end)
        self.written_count = max(self.written_count, count)

    def synced(self, physical_end: int) -> None:
        """Record that the store reported the log as durable up to an offset."""
        self.synced_count = max(self.synced_count, self._count_before(physical_end))

    def stopped(self) -> None:
        """The store has ended in order."""
        self.written_count = self.synced_count = self.stopped_count = len(self.log)
        self.needs_abort_file = False

    def died(self, *, power_lost: bool) -> None:
        """Process or machine died; the store may have been open, closed, or in the middle of a recovery."""
        if power_lost:
            self.written_count = self.synced_count
            self.recovered_count = self.recovered_durable_count

    def abort_file_removed(self) -> None:
        """Record that the abort file was removed by hand."""
        self.needs_abort_file = False

    def expired(self, log_min_offset: int) -> None:
        """Record that retention has removed the log before an offset."""
        gone = self._count_before(log_min_offset)
        del self.log[:gone]
        self.written_count = max(0, self.written_count - gone)
        self.synced_count = max(0, self.synced_count - gone)
        self.recovered_count = max(0, self.recovered_count - gone)
        self.recovered_durable_count = max(0, self.recovered_durable_count - gone)
        self.stopped_count = max(0, self.stopped_count - gone)
        self.is_whole = self.is_whole and not gone

    # ---- what readers and recovery may find -----------------------------------------------------------------------

    @property
    def promised_count(self) -> int:
        """So many messages, from the beginning of the log, must be found."""
        return max(self.written_count, self.recovered_count, self.stopped_count)

    def shown(self, queues: Mapping[tuple[str, int], Sequence[Sent]], log: Sequence[Sent]) -> None:
        """The open store shows this between two bursts. Raises InvariantBroken if it is not all that there is."""
        if list(log) != self.log or _without_empty(queues) != _queues_of(log):
            raise self._broken(Found(queues, log, abort_file_was_there=True))

    def recovered(self, found: Found) -> None:
        """The store is open again. From now on there is what was found; raises InvariantBroken if that is not right."""
        count = len(found.log)
        is_right = (
            count >= self.promised_count
            and list(found.log) == self.log[:count]
            and _without_empty(found.queues) == _queues_of(found.log)
            and not self._after_holes(found.log)
            and (found.abort_file_was_there or not self.needs_abort_file)
        )
        if not is_right:
            raise self._broken(found)
        self.cut.update(self.log[count:])
        del self.log[count:]
        self.recovered_count = count
        self.recovered_durable_count = count if found.durable_end is None else self._count_before(found.durable_end)
        self.stopped_count = 0
        self.needs_abort_file = True

    # ---- which sentence is not true: the reasons above, one by one ------------------------------------------------

    def _broken(self, found: Found) -> InvariantBroken:
        if self.needs_abort_file and not found.abort_file_was_there:
            return InvariantBroken(Invariant.ABORT_FILE, "it is missing, although the store was open and did not stop")
        in_queues = [message for queue in found.queues.values() for message in queue]
        everything = [*found.log, *in_queues]
        there = set(found.log).intersection(in_queues)
        count = len(found.log)
        stopped, written = self.log[: self.stopped_count], self.log[: self.written_count]
        recovered, known = self.log[: self.recovered_count], set(self.log)
        for invariant, what, messages in (
            (Invariant.CUT_STAYS_CUT, "these had been cut", [each for each in everything if each in self.cut]),
            (Invariant.CLEAN_STOP_LOSES_NOTHING, "not there", [each for each in stopped if each not in there]),
            (Invariant.ACKNOWLEDGED_IS_THERE, "not there", [each for each in written if each not in there]),
            (Invariant.TWICE_IS_ONCE, "found before", [each for each in recovered if each not in there]),
            (Invariant.NOTHING_INVENTED, "never sent", [each for each in everything if each not in known]),
            (Invariant.ACKNOWLEDGED_IS_THERE, "twice in the log", _repeated(found.log)),
            (Invariant.ACKNOWLEDGED_IS_THERE, "twice in the queues", _repeated(in_queues)),
            (Invariant.NO_HOLE, "not in its queue", [each for each in found.log if each not in there]),
            (Invariant.NOTHING_INVENTED, "in a queue only", [each for each in in_queues if each not in there]),
            (
                Invariant.NO_HOLE,
                "the log continues after them",
                [each for each in self.log[:count] if each not in there],
            ),
            (Invariant.NO_HOLE, "after a hole", self._after_holes(found.log)),
        ):
            if messages:
                return InvariantBroken(invariant, what, messages)
        return InvariantBroken(Invariant.ACKNOWLEDGED_IS_THERE, "not in this order", everything)

    def _count_before(self, physical_offset: int) -> int:
        return sum(message.physical_offset < physical_offset for message in self.log)

    def _after_holes(self, log: Iterable[Sent]) -> list[Sent]:
        """Return the messages whose queue offset does not follow that of their predecessor in the queue."""
        after_hole: list[Sent] = []
        for messages in _queues_of(log).values():
            expected = 0 if self.is_whole else messages[0].queue_offset
            after_hole += [message for at, message in enumerate(messages, expected) if message.queue_offset != at]
        return after_hole


def _queues_of(log: Iterable[Sent]) -> dict[tuple[str, int], list[Sent]]:
    """Return the parts of a log that are its queues."""
    queues: dict[tuple[str, int], list[Sent]] = {}
    for message in log:
        queues.setdefault((message.topic, message.queue_id), []).append(message)
    return queues


def _without_empty(queues: Mapping[tuple[str, int], Sequence[Sent]]) -> dict[tuple[str, int], list[Sent]]:
    return {key: list(messages) for key, messages in queues.items() if messages}


def _repeated(messages: Iterable[Sent]) -> list[Sent]:
    return [message for message, count in Counter(messages).items() if count > 1]
