"""States that a client depends on, and how they change: nameservers, routes, brokers, heartbeats, pulls.

Rule: a trouble is logged when it begins (WARNING) and when it is over (INFO), and never in between, however often the
work is tried again. What is raised to the program is logged only when work in the background meets it too. The changes
are there for programs: :meth:`ClientStates.changes` iterates over them, :attr:`ClientStates.troubles` has what is wrong
now.

A state is what was found last. Of several nameservers one that does not answer is asked again only when its turn comes,
so its trouble may be over earlier than this says.

Compatibility: none. RocketMQ's client logs each failure of a periodic task.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from enum import Enum

import attrs
import trio

from rocketpy.client.callers import hands_over

STATES_MAX = 1_000
"""Bound on the states that are kept. Beyond it those that are well are forgotten first, then the oldest."""

_log = logging.getLogger("rocketpy.client")


class Trouble:
    """One piece of work that fails or does not: a change is logged once. ``work`` names it, as in "pulling T"."""

    __slots__ = ("is_there", "work")

    def __init__(self, work: str) -> None:
        self.work = work
        self.is_there = False

    def begin(self, reason: object, log: logging.Logger = _log) -> bool:
        """Note a failure; True, and a line, if it is the first since the last success."""
        if self.is_there:
            return False
        self.is_there = True
        log.warning("%s: %s; trying again", self.work, reason)
        return True

    def end(self, log: logging.Logger = _log) -> bool:
        """Note a success; True, and a line, if it is the first since a failure."""
        if not self.is_there:
            return False
        self.is_there = False
        log.info("%s works again", self.work)
        return True


class StateSubject(Enum):
    """What a state is about; the value is the work that fails, as the log has it."""

    NAME_SERVER = "asking nameserver"
    ROUTE = "looking for the queues of topic"
    BROKER = "reaching broker"
    HEARTBEAT = "sending heartbeats to broker"
    MEMBERS = "asking for the members of group"
    LOCKS = "locking the queues of group"
    START_OFFSET = "looking for the start offset of"


@attrs.frozen
class StateChange:
    """A change of one state: ``name`` is an address, a topic or a queue, ``reason`` is empty when all is well."""

    subject: StateSubject
    name: str
    is_well: bool
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.subject.value} {self.name}: {self.reason or 'works again'}"


class _State:
    """What is kept of one state: its last change, and the number of that."""

    __slots__ = ("change", "number", "trouble")

    def __init__(self, trouble: Trouble, change: StateChange) -> None:
        self.trouble = trouble
        self.number = 0
        self.change = change


class ClientStates:
    """The states of one client. Nothing is kept of what has never failed."""

    def __init__(self) -> None:
        self._states: OrderedDict[tuple[StateSubject, str], _State] = OrderedDict()  # changed longest ago first
        self._count = 0
        self._changed = trio.Event()
        self._is_closed = False

    # ---- for those who find out -----------------------------------------------------------------------------------

    def fails(self, subject: StateSubject, name: str, reason: object, *, is_raised: bool = False) -> None:
        """Note that something does not work, and why. What is raised to a caller is no line of the log yet."""
        key = subject, name
        state = self._states.get(key)
        if state is None:
            self._make_room()
            trouble = Trouble(f"{subject.value} {name}")
            state = self._states[key] = _State(trouble, StateChange(subject, name, is_well=True))
        if not is_raised:
            state.trouble.begin(reason)
        if state.change.is_well:
            self._note(key, state, StateChange(subject, name, is_well=False, reason=str(reason)))
        elif state.change.reason != str(reason):
            state.change = attrs.evolve(state.change, reason=str(reason))  # for `troubles`; no change of state

    def works(self, subject: StateSubject, name: str) -> None:
        """Note that something works."""
        state = self._states.get((subject, name)) if self._states else None
        if state is not None and not state.change.is_well:
            state.trouble.end()
            self._note((subject, name), state, StateChange(subject, name, is_well=True))

    def log(self, subject: StateSubject) -> None:
        """Log the troubles of a kind that have only been raised so far: work in the background depends on it."""
        for state in self._states.values():
            if state.change.subject is subject and not state.change.is_well:
                state.trouble.begin(state.change.reason)

    def forget(self, subject: StateSubject, name: str) -> None:
        """Forget a state that does not matter any more, without a word."""
        self._states.pop((subject, name), None)

    def forget_all(self, subject: StateSubject, prefix: str) -> None:
        """Forget the states whose names begin so."""
        for key in [each for each in self._states if each[0] is subject and each[1].startswith(prefix)]:
            del self._states[key]

    def close(self) -> None:
        """End the iterators: the client has ended."""
        self._is_closed = True
        self._let_look()

    # ---- for programs ---------------------------------------------------------------------------------------------

    @property
    def troubles(self) -> list[StateChange]:
        """What does not work now, the longest first."""
        return [each.change for each in self._states.values() if not each.change.is_well]

    def reason(self, subject: StateSubject, name: str) -> str | None:
        """Return why something does not work, None when it works or is not known."""
        state = self._states.get((subject, name))
        return state.change.reason if state is not None and not state.change.is_well else None

    def changes(self) -> StateChanges:
        """Iterate over the changes, beginning with what does not work now."""
        return StateChanges(self, self._count)

    async def next_after(self, seen: int, began: int) -> tuple[int, StateChange] | None:
        """Wait for the first change with a higher number; None when the client has ended."""
        while True:
            for state in self._states.values():
                # What was over when the iterator began is no change for it.
                if state.number > seen and (not state.change.is_well or state.number > began):
                    return state.number, state.change
            if self._is_closed:
                return None
            await self._changed.wait()

    # ---- private --------------------------------------------------------------------------------------------------

    def _note(self, key: tuple[StateSubject, str], state: _State, change: StateChange) -> None:
        self._count += 1
        state.number, state.change = self._count, change
        self._states.move_to_end(key)
        self._let_look()

    def _make_room(self) -> None:
        while len(self._states) >= STATES_MAX:
            well = (key for key, each in self._states.items() if each.change.is_well)
            del self._states[next(well, next(iter(self._states)))]

    def _let_look(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()


class StateChanges:
    """Iterator over the changes of a client's states, for one task. It ends with the client.

    Of a state that changes faster than the program looks, it yields the last change.
    """

    def __init__(self, states: ClientStates, began: int) -> None:
        self._states = states
        self._began = began
        self._seen = 0

    def __aiter__(self) -> StateChanges:
        return self

    @hands_over
    async def __anext__(self) -> StateChange:
        """Wait for the next change."""
        found = await self._states.next_after(self._seen, self._began)
        if found is None:
            raise StopAsyncIteration
        self._seen, change = found
        return change
