"""Reference model of replication: logs as mappings, and what was acknowledged; no disk, no files, no network, no time.

A log is a mapping from offsets to records; the BLANK at the end of a file counts as one. Each tenure of a master has a
history: the log with which it began, plus what it wrote. The guarantee for a store's log depends on how its life ends:

=============== =====================================================================
process killed  all records that it has shown are there when it opens again
power lost      those that it called durable are
wiped           nothing
cut             those before the cut; what was cut comes back only from a new master
=============== =====================================================================

A message that SYNC_MASTER has answered PUT_OK is held by the master and by at least one slave, and stays on each of
them under these guarantees; so it survives the loss of either machine.

The driver of the stores reports every event and what each store shows. The model raises :class:`ReplicationBroken`,
which names the violated invariant, the store and the offset.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping

import attrs

from rocketpy.store.results import PutMessageStatus

Records = Mapping[int, bytes]
"""The records of a log by their offsets."""

Queues = Mapping[tuple[str, int], Mapping[int, "Unit"]]
"""The units of a store, by topic and queue id, then by queue offset."""

TOLERANCE_SECONDS = 0.05
"""How late a status may be."""

_ROUNDING_SECONDS = 1e-6


class Invariant(enum.Enum):
    """Invariants that hold at all times, whatever fails."""

    ACKNOWLEDGED_IS_ON_A_SLAVE = "what SYNC_MASTER answers PUT_OK is in the log of a live slave, byte for byte"
    SLAVE_IS_A_PIECE = "a slave's log is at all times a piece of some master's history"
    ENDS_WITH_A_RECORD = "a log ends with a record"
    STATUS_IS_TRUE = "no status is answered that is not true"
    NO_CLAIM_ABOVE_SENT = "a slave has acknowledged no more than it was sent, and than there is"
    UNITS_ARE_EQUAL = "units of a slave's queues are the master's for the common range"
    KEYS_ARE_FOUND = "a key leads to all its messages on a slave, as on the master"
    SURVIVES_ONE_MACHINE = "what SYNC_MASTER acknowledged survives the loss of either machine"
    STORED_STAYS = "what a store has shown stays, if only its process dies"
    EQUAL_OR_ALARM = "the logs of a slave that follows and of its master are equal up to the shorter end"
    PROGRESS_OR_ALARM = "without faults a slave catches up, or shows an alarm because the logs differ"
    CUT_STAYS_CUT = "what was cut never comes back"
    CONNECTION_STAYS = "without faults no connection between a master and a slave ends"


class ReplicationBroken(AssertionError):
    """One of the sentences is not true."""

    def __init__(self, invariant: Invariant, what: str) -> None:
        super().__init__(f"{invariant.name}: {invariant.value}\n  {what}")
        self.invariant = invariant


@attrs.frozen
class Shown:
    """The log of an open store: its records, and where the store says that it begins and ends."""

    records: Records
    begin_offset: int
    end_offset: int


@attrs.frozen
class Unit:
    """A unit of a queue. Offset and size in bytes."""

    physical_offset: int
    size: int
    tags_code: int


@attrs.frozen(kw_only=True)
class Answer:
    """What a producer was answered, and what was true then. Its messages lie between two offsets of the master's log.

    A slave *may* be usable as long as a connection of a live or dying process can exist; it *surely* is while it
    follows, undisturbed, for the whole wait.
    """

    master: str
    begin_offset: int
    end_offset: int
    status: PutMessageStatus
    waited_s: float
    timeout_s: float
    live_slaves: Iterable[str]
    """The slaves whose processes run, or have ended so recently that their reports may still arrive."""
    may_have_slave: bool
    """When the wait began."""
    surely_has_slave: bool
    durable_end: int | None = None
    """How far the master's log is durable; None under ASYNC_FLUSH, where no answer depends on it."""


class ReplicationModel:
    """The stores of one replication group, through all their lives."""

    def __init__(self) -> None:
        self.logs: dict[str, Records] = {}
        """What each store has, as far as it was shown."""
        self.histories: list[Records] = []
        """Of every tenure of a master, ended or not."""
        self._history_of: dict[str, int] = {}  # of each store that is a master now
        self._before: dict[str, Records] = {}  # of each store that is a master: what came before its first file
        self._left: dict[str, Records] = {}  # what was found in the files of each store whose process has died
        self._must_keep: dict[str, Records] = {}  # of each store that is not open
        self._cut: dict[str, set[tuple[int, bytes]]] = {}
        self._acknowledged: dict[tuple[int, bytes], set[str]] = {}  # and the stores that hold it
        self._units: dict[tuple[int, bytes], tuple[tuple[str, int], int, Unit]] = {}
        self._keyed: dict[tuple[str, str], set[tuple[int, bytes]]] = {}  # by topic and key

    # ---- lives ----------------------------------------------------------------------------------------------------

    def opened(self, name: str, log: Shown, *, is_master: bool) -> None:
        """A store is open, with this log."""
        records = log.records
        self._require_all(name, self._must_keep.pop(name, {}), records)
        self._left.pop(name, None)
        was_master = self._history_of.pop(name, None)
        if was_master is not None and not records.items() <= self.histories[was_master].items():
            self.histories.append(records)  # it has written more than it showed before it died
        if is_master:
            self._history_of[name] = len(self.histories)
            self._before[name] = self._records_before(log)
            self.histories.append({})
        self.logs[name] = {}
        self.shows(name, log)

    def died(self, name: str, *, durable_end: int | None = None) -> None:
        """The process of a store has died; with ``durable_end`` its machine has, and the log was durable up to there.

        It may have been dead before.
        """
        keeps = self._must_keep.get(name, self.logs.get(name, {}))
        if durable_end is not None:
            keeps = {offset: record for offset, record in keeps.items() if offset + len(record) <= durable_end}
        self._must_keep[name] = keeps
        self._release(name, keeps)

    def left(self, name: str, records: Records) -> None:
        """The process of a store has died, and these records are in its files.

        A slave may have stored and acknowledged them without having shown them. They are judged when it opens again.
        What a master has written last, as it stopped, is its history from now on: slaves may have got it.
        """
        self._left[name] = records
        number = self._history_of.get(name)
        if number is not None:
            history = {**self._before[name], **records}
            if self.histories[number].items() <= history.items():
                self.histories[number] = history

    def wiped(self, name: str) -> None:
        """The machine of a store is lost for good; another one, empty, has its name."""
        self._must_keep[name] = self.logs[name] = {}
        self._release(name, {})

    def was_cut(self, name: str, offset: int) -> None:
        """The log of a store was cut at an offset, as a person has set."""
        log = self._must_keep.get(name, self.logs.get(name, {}))
        keeps = {each: record for each, record in log.items() if each < offset}
        self._cut.setdefault(name, set()).update(log.items() - keeps.items())
        self._must_keep[name] = self.logs[name] = keeps
        self._release(name, keeps)

    # ---- what stores show -----------------------------------------------------------------------------------------

    def shows(self, name: str, log: Shown) -> None:
        """An open store has this log."""
        records = log.records
        self._require_all(name, self.logs[name], records)
        end = _end(records) or log.begin_offset
        if end != log.end_offset:
            raise _broken(Invariant.ENDS_WITH_A_RECORD, name, f"its end is {log.end_offset}, its last record's {end}")
        history = self._history_of.get(name)
        if history is not None:
            self.histories[history] = {**self._before[name], **records}
        else:
            self._require_piece(name, records)
        self._require_cut(name, records)
        self.logs[name] = records

    def units(self, name: str, queues: Queues) -> None:
        """An open store has these units; no burst is open."""
        log = self.logs[name]
        found = {
            unit.physical_offset: (queue, queue_offset, unit)
            for queue, units in queues.items()
            for queue_offset, unit in units.items()
        }
        foreign = sorted(found.keys() - log.keys())
        if foreign:
            raise _broken(Invariant.UNITS_ARE_EQUAL, name, f"{found[foreign[0]]} leads to no record of its log")
        if name in self._history_of:
            self._units |= {(offset, log[offset]): each for offset, each in found.items()}
        for offset, record in log.items():
            expected = self._units.get((offset, record))
            if expected is not None and found.get(offset) != expected:
                raise _broken(Invariant.UNITS_ARE_EQUAL, name, f"expected {expected}, found {found.get(offset)}")

    def finds(self, name: str, topic: str, key: str, offsets: Collection[int]) -> None:
        """An open store finds records at these offsets for a key of a topic."""
        log, keyed = self.logs[name], self._keyed.setdefault((topic, key), set())
        if name in self._history_of:
            keyed.update((offset, log[offset]) for offset in offsets)
        missing = sorted(offset for offset, _ in keyed & log.items() if offset not in offsets)
        if missing:
            what = f"{key!r} of {topic} does not lead to the records at {missing}"
            raise _broken(Invariant.KEYS_ARE_FOUND, name, what)

    def follows(self, slave: str, master: str) -> None:
        """A slave shows that it follows a master, without an alarm, and nothing has disturbed them."""
        ours, theirs = self.logs[slave], self.logs[master]
        begin = min(theirs, default=0)
        different = sorted(
            offset for offset, record in ours.items() if offset >= begin and theirs.get(offset) != record
        )
        if different:
            what = f"its record at {different[0]} is not that of {master}, and it shows no alarm"
            raise _broken(Invariant.EQUAL_OR_ALARM, slave, what)

    def connects_again(self, slave: str) -> None:
        """Raise: a slave that followed its master has connected again, and nothing has disturbed them."""
        raise _broken(Invariant.CONNECTION_STAYS, slave, "its connection has ended, and it has a new one")

    def calm(self, slave: str, master: str, *, alarm: str, file_size: int) -> None:
        """No fault has been there for long enough. An empty slave gets the master's last file, which may be empty."""
        ours, theirs = _end(self.logs[slave]), _end(self.logs[master])
        has_nothing_to_get = not self.logs[slave] and theirs % file_size == 0
        if not alarm and not has_nothing_to_get and ours != theirs:
            what = f"its log ends at {ours}, that of {master} at {theirs}, and it shows no alarm"
            raise _broken(Invariant.PROGRESS_OR_ALARM, slave, what)
        if alarm and self.logs[slave].items() <= self.logs[master].items():
            what = f"its log is a part of that of {master}, and it shows an alarm: {alarm}"
            raise _broken(Invariant.PROGRESS_OR_ALARM, slave, what)

    # ---- what masters say -----------------------------------------------------------------------------------------

    def claims(self, master: str, *, acknowledged: int, sent: int, end_offset: int) -> None:
        """A master counts a slave as having acknowledged its log up to an offset, and as having been sent it."""
        if not acknowledged <= sent <= end_offset:
            what = f"acknowledged up to {acknowledged}, sent up to {sent}, of a log that ends at {end_offset}"
            raise _broken(Invariant.NO_CLAIM_ABOVE_SENT, master, what)

    def waits(self, master: str, *, waited_s: float, timeout_s: float) -> None:
        """A producer still has no answer."""
        if waited_s > timeout_s + TOLERANCE_SECONDS:
            raise _broken(Invariant.STATUS_IS_TRUE, master, f"no answer after {waited_s:g} s of {timeout_s:g} s")

    def answered(self, answer: Answer) -> None:
        """A producer was answered; every store has just shown its log."""
        master, status = answer.master, answer.status
        between = range(answer.begin_offset, answer.end_offset)
        stored = {offset: record for offset, record in self.logs[master].items() if offset in between}
        if _end(stored) != answer.end_offset:
            raise _broken(Invariant.STATUS_IS_TRUE, master, f"{status.name} for {between}, which it has not stored")
        if answer.waited_s > answer.timeout_s + TOLERANCE_SECONDS:
            raise _broken(Invariant.STATUS_IS_TRUE, master, f"{status.name} after {answer.waited_s:g} s")
        if status is PutMessageStatus.PUT_OK:
            self._acknowledge(answer, stored)
        elif status is PutMessageStatus.SLAVE_NOT_AVAILABLE:
            if answer.surely_has_slave:
                raise _broken(Invariant.STATUS_IS_TRUE, master, f"{status.name}, and a slave follows it")
        elif answer.waited_s < answer.timeout_s - _ROUNDING_SECONDS:
            raise _broken(Invariant.STATUS_IS_TRUE, master, f"{status.name} after only {answer.waited_s:g} s")
        elif not answer.may_have_slave or answer.surely_has_slave:
            why = "a slave has followed it all the time" if answer.surely_has_slave else "it had no slave to wait for"
            raise _broken(Invariant.STATUS_IS_TRUE, master, f"{status.name}, and {why}")

    def _acknowledge(self, answer: Answer, stored: Records) -> None:
        holders = [name for name in answer.live_slaves if stored.items() <= self._stored_by(name).items()]
        if not holders:
            what = f"PUT_OK for the records at {sorted(stored)}; none of {sorted(answer.live_slaves)} has them"
            raise _broken(Invariant.ACKNOWLEDGED_IS_ON_A_SLAVE, answer.master, what)
        if answer.durable_end is not None and answer.durable_end < answer.end_offset:
            what = f"PUT_OK under SYNC_FLUSH for {answer.end_offset}, and its log is durable up to {answer.durable_end}"
            raise _broken(Invariant.STATUS_IS_TRUE, answer.master, what)
        for item in stored.items():
            self._acknowledged.setdefault(item, set()).update(holders, [answer.master])

    # ---- private --------------------------------------------------------------------------------------------------

    def _release(self, name: str, keeps: Records) -> None:
        """Note that a store no longer promises more than this."""
        for (offset, record), holders in self._acknowledged.items():
            if keeps.get(offset) != record:
                holders.discard(name)

    def _stored_by(self, name: str) -> Records:
        return {**self._left.get(name, {}), **self.logs.get(name, {})}

    def _records_before(self, log: Shown) -> Records:
        """Return what other stores have before a log that begins later, because it was copied from its last file on."""
        for history in self.histories:
            if log.records and log.records.items() <= history.items():
                return {offset: record for offset, record in history.items() if offset < log.begin_offset}
        return {}

    def _require_all(self, name: str, expected: Records, log: Records) -> None:
        if expected.items() <= log.items():
            return
        missing = sorted(expected.items() - log.items())
        acknowledged = [offset for offset, record in missing if name in self._acknowledged.get((offset, record), ())]
        invariant = Invariant.SURVIVES_ONE_MACHINE if acknowledged else Invariant.STORED_STAYS
        raise _broken(invariant, name, f"not there: the records at {acknowledged or [each for each, _ in missing]}")

    def _require_piece(self, name: str, log: Records) -> None:
        if any(log.items() <= history.items() for history in self.histories):
            return
        known = max((len(log.items() & history.items()) for history in self.histories), default=0)
        what = f"of its {len(log)} records at most {known} belong to one history of a master"
        raise _broken(Invariant.SLAVE_IS_A_PIECE, name, what)

    def _require_cut(self, name: str, log: Records) -> None:
        back = self._cut.get(name, set()) & log.items()
        if not back:
            return
        if not any(back <= self.histories[number].items() for number in self._history_of.values()):
            offsets = sorted(offset for offset, _ in back)
            raise _broken(Invariant.CUT_STAYS_CUT, name, f"the records at {offsets} are there again")
        self._cut[name] -= back


def _end(log: Records) -> int:
    return max((offset + len(record) for offset, record in log.items()), default=0)


def _broken(invariant: Invariant, name: str, what: str) -> ReplicationBroken:
    return ReplicationBroken(invariant, f"{name}: {what}")
