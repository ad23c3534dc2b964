"""A soak: starts the cluster and its members, disturbs them for a time, lets them come to rest, and judges.

Harms are a function of the seed and come one after the other; how they fall into what the processes do is the
machine's. *Residents* are members that nothing ends: what they hold must not grow.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import attrs

from bench.soak.cluster import BrokerProcess, brokers_of, create_topics
from bench.soak.holdings import Holdings, holdings_of
from bench.soak.journal import JournalReader
from bench.soak.judge import ORDERED_TOPIC, PLAIN_TOPIC, TRANSACTION_TOPIC, Group, Sent
from bench.soak.member import QUEUES
from tests.blackbox import processes
from tests.blackbox.forked import Forked
from tests.blackbox.ports import free_ports
from tests.blackbox.wire import Wire

PATIENCE_SECONDS = 120.0
"""How long nothing at all may happen where something must: no measure of how fast anything is."""
CHECK_ROUNDS_SECONDS = 3.0
"""How long to wait for transactions that must not come: some rounds of checks."""
STANDBYS_MAX = 2
_LOOK_SECONDS = 0.1

PRODUCERS = ("single", "batches", "pipelined", "transactions")
CONSUMERS = ("concurrent", "orderly", "iterating")
STANDBY_ROLES = ("transactions", "concurrent", "orderly", "iterating")
"""Roles of members that come and go."""


@attrs.define(eq=False)
class Member:
    """One process of :mod:`bench.soak.member`."""

    role: str
    name: str
    process: processes.Process
    journal: JournalReader


@attrs.define(eq=False)
class Report:
    """What happened. ``violations`` is empty when every promise was kept."""

    acknowledged: int
    begun: int
    failed: dict[str, int]
    consumed: dict[str, tuple[int, int]]
    """For each group how many different messages, and how many repeats."""
    harms: Counter[str]
    holdings: dict[str, tuple[Holdings, Holdings]]
    """For each resident process what it held in the beginning and when all was quiet."""
    violations: list[str]
    seconds: float

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        failed = ", ".join(f"{count} {name}" for name, count in sorted(self.failed.items())) or "none"
        yield f"{self.seconds:.0f} s: {self.acknowledged} messages acknowledged, {self.begun} transactions begun"
        yield f"sends without an acknowledgement: {failed}"
        for group, (count, repeats) in self.consumed.items():
            yield f"group {group}: {count} messages consumed, {repeats} repeats"
        yield "harms: " + ", ".join(f"{count} {name}" for name, count in sorted(self.harms.items()))
        for name, (before, after) in self.holdings.items():
            yield f"{name}: {before} at first, {after} in the end"
        yield from self.violations or ["every promise was kept"]


@contextmanager
def open_soak(directory: Path, seed: int, *, pace: float = 1.0, pause_s: float = 0.02) -> Iterator[Soak]:
    """Start a nameserver, the brokers and the residents; whatever runs at the end of the block is killed.

    ``pace`` is a factor on the pauses between harms and on the time for which brokers are away; members pause for
    ``pause_s`` between sends.
    """
    port = free_ports(1)
    nameserver = processes.start_nameserver(directory / "nameserver", port)
    soak = Soak(directory, f"127.0.0.1:{port}", nameserver, seed, pace, pause_s)
    try:
        soak.start()
        yield soak
    finally:
        soak.kill()


class Soak:
    """Created by :func:`open_soak`: :meth:`disturb` it, then :meth:`settle`."""

    def __init__(
        self, directory: Path, namesrv: str, nameserver: processes.Process, seed: int, pace: float, pause_s: float
    ) -> None:
        self.namesrv = namesrv
        self.brokers = brokers_of(directory, namesrv)
        self.sent = Sent()
        self.groups = {
            "concurrent": Group("soak_concurrent", (PLAIN_TOPIC, TRANSACTION_TOPIC)),
            "orderly": Group("soak_orderly", (ORDERED_TOPIC,), is_orderly=True),
            "iterating": Group("soak_iterating", (PLAIN_TOPIC,)),
        }
        self.harms: Counter[str] = Counter()
        self._directory = directory
        self._nameserver = nameserver
        self._chance = random.Random(seed)
        self._pace = pace
        self._pause_s = pause_s
        self._residents: list[Member] = []
        self._standbys: list[Member] = []
        self._gone: list[Member] = []
        self._number = 0
        self._holdings: dict[str, Holdings] = {}
        self._begun = time.monotonic()

    # ---- phases ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the brokers and one member of each role, and wait until each group has consumed something."""
        for broker in self.brokers.values():
            broker.start()
        create_topics(self.brokers, self.namesrv, [PLAIN_TOPIC, ORDERED_TOPIC, TRANSACTION_TOPIC], QUEUES)
        self._residents = [self._member(role) for role in (*CONSUMERS, *PRODUCERS)]
        self._wait(lambda: all(each.keys for each in self.groups.values()), "every group consumes")
        self._wait(lambda: bool(self.sent.begun), "a transaction begins")
        self._holdings = self._measure()
        self._begun = time.monotonic()

    def disturb(self, seconds: float) -> None:
        """Do every kind of harm once, and again, in another order, while less than so many seconds have passed."""
        while True:
            for harm in self._harms():
                self._pause(0.1, 0.8)
                harm()
                self._read_on()
                self._require_running()
            if time.monotonic() > self._begun + seconds:
                return

    def settle(self) -> Report:
        """End the producers, wait until all that was acknowledged is consumed, end everything in order, and judge."""
        seconds = time.monotonic() - self._begun
        deciding = [each for each in self._all(PRODUCERS) if each.role == "transactions"]
        for member in self._all(PRODUCERS):
            if member in deciding:
                member.process.popen.send_signal(signal.SIGUSR1)
            else:
                self._end(member)
        self._wait(lambda: {each.name for each in deciding} <= self.sent.quiet, "no more transactions begin")
        self._wait(self._is_all_consumed, "all that was acknowledged is consumed")
        # A queue whose member or broker was killed may still be read for a second time.
        self._wait(lambda: not self._lags(), "the progress of each group is at the end of its queues")
        for member in list(self._standbys):
            self._end(member)
        time.sleep(CHECK_ROUNDS_SECONDS)
        held = self._measure()
        for member in self._all((*PRODUCERS, *CONSUMERS)):
            self._end(member)
        self._read_on()
        violations = [each for group in self.groups.values() for each in group.violations(self.sent)]
        violations += self._lags()
        for broker in reversed(self.brokers.values()):
            broker.stop()
        assert self._nameserver.terminate() == 0, self._nameserver.log()
        violations += self._failures_logged()
        holdings = {name: (self._holdings[name], after) for name, after in held.items()}
        violations += [f"{name} {each}" for name, pair in holdings.items() for each in pair[1].excess(pair[0])]
        return Report(
            acknowledged=sum(map(len, self.sent.acknowledged.values())),
            begun=len(self.sent.begun),
            failed=dict(self.sent.failed),
            consumed={each.name: (len(each.keys), each.repeat_count) for each in self.groups.values()},
            harms=self.harms,
            holdings=holdings,
            violations=violations,
            seconds=seconds,
        )

    def kill(self) -> None:
        """End whatever runs."""
        for member in (*self._residents, *self._standbys):
            member.process.kill()
        for broker in self.brokers.values():
            with suppress(AssertionError):
                broker.kill()
        self._nameserver.kill()

    # ---- harms ----------------------------------------------------------------------------------------------------

    def _harms(self) -> list[Callable[[], None]]:
        """Return every kind of harm once.

        Those of brokers come last: a master that starts again has forgotten the locks of members that were killed,
        which otherwise keep their queues for a minute.
        """
        members = [
            *(partial(self._join, role) for role in STANDBY_ROLES),
            *(partial(self._kill_member, role) for role in ("concurrent", "orderly", "transactions")),
            partial(self._leave, "iterating"),
        ]
        brokers = [
            partial(harm, broker)
            for broker in self.brokers.values()
            for harm in (self._kill_broker, self._pause_broker)
        ]
        self._chance.shuffle(brokers)
        return [*members, *brokers]

    def _join(self, role: str) -> None:
        if len(self._standbys_of(role)) >= STANDBYS_MAX:
            self._leave(role)
        self._standbys.append(self._member(role))
        self.harms[f"{role} member joined"] += 1

    def _leave(self, role: str) -> None:
        self._end(self._chance.choice(self._standbys_of(role)))
        self.harms[f"{role} member left"] += 1

    def _kill_member(self, role: str) -> None:
        member = self._chance.choice(self._standbys_of(role))
        self._wait(lambda: bool(member.journal.size()), f"{member.name} has done something")
        member.process.kill()
        self._forget(member)
        self.harms[f"{role} member killed"] += 1

    def _change_member(self) -> None:
        """Let a member join or leave, while a broker is away."""
        role = self._chance.choice(STANDBY_ROLES)
        if self._standbys_of(role):
            self._leave(role)
        else:
            self._join(role)

    def _kill_broker(self, broker: BrokerProcess) -> None:
        broker.kill()
        self._pause(0.1, 1.5)
        self._change_member()
        self._pause(0.1, 1.5)
        broker.start()
        self.harms[f"{broker.title} killed"] += 1

    def _pause_broker(self, broker: BrokerProcess) -> None:
        broker.pause()
        self._pause(0.1, 4.0)
        broker.resume()
        self.harms[f"{broker.title} paused"] += 1

    # ---- members --------------------------------------------------------------------------------------------------

    def _member(self, role: str) -> Member:
        self._number += 1
        name = f"{role}-{self._number}"
        log_path = self._directory / f"{name}.log"
        arguments = (role, name, self.namesrv, str(self._directory), str(self._pause_s))
        process = processes.Process(Forked("bench.soak.member", arguments, log_path), log_path)
        return Member(role, name, process, JournalReader(self._directory / name))

    def _end(self, member: Member) -> None:
        """End a member in order; it may still be about to join."""
        self._wait(lambda: member.journal.size() is not None, f"{member.name} takes signals")
        status = member.process.terminate()
        assert status == 0, f"{member.name} ended with {status}:\n{member.process.log()}"
        self._forget(member)

    def _forget(self, member: Member) -> None:
        """Take a member that has ended off the lists; what it wrote last is still read."""
        (self._standbys if member in self._standbys else self._residents).remove(member)
        self._gone.append(member)

    def _standbys_of(self, role: str) -> list[Member]:
        return [each for each in self._standbys if each.role == role]

    def _all(self, roles: Sequence[str]) -> list[Member]:
        return [each for each in (*self._residents, *self._standbys) if each.role in roles]

    # ---- what is known --------------------------------------------------------------------------------------------

    def _read_on(self) -> int:
        """Read what is new in the journals; return how many lines."""
        count = 0
        for member in (*self._gone, *self._residents, *self._standbys):
            lines = member.journal.read_on()
            count += len(lines)
            self.groups.get(member.role, self.sent).add(lines)
        return count

    def _is_all_consumed(self) -> bool:
        return all(self.sent.expected(group.topics) <= group.keys for group in self.groups.values())

    def _lags(self) -> list[str]:
        """Return where the progress of a group that all members have left is not at the end of its queues."""
        found = []
        for broker in self.brokers.values():
            if broker.broker_id:
                continue
            with Wire(broker.address) as wire:
                for group in self.groups.values():
                    for topic in group.topics:
                        for queue_id in range(QUEUES):
                            end = wire.max_offset(topic, queue_id)
                            stored = wire.consumer_offset(topic, group.name, queue_id)
                            if stored != end:
                                found.append(
                                    f"{group.name}: {topic} {broker.name}:{queue_id} ends at {end}, "
                                    f"and {stored} is stored"
                                )
        return found

    def _failures_logged(self) -> list[str]:
        return [
            f"{path.name}: {text[text.index('Traceback') :][:2000]}"
            for path in sorted(self._directory.rglob("*.log"))
            if "Traceback" in (text := path.read_text(errors="replace"))
        ]

    def _measure(self) -> dict[str, Holdings]:
        found = {each.name: holdings_of(each.process.pid) for each in self._residents}
        found |= {each.title: holdings_of(each.pid) for each in self.brokers.values()}
        return {**found, "nameserver": holdings_of(self._nameserver.pid)}

    # ---- time -----------------------------------------------------------------------------------------------------

    def _pause(self, shortest: float, longest: float) -> None:
        time.sleep(self._pace * self._chance.uniform(shortest, longest))

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for as long as journals grow."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            self._require_running()
            if self._read_on():
                deadline = time.monotonic() + PATIENCE_SECONDS
            if time.monotonic() > deadline:
                found = [each for group in self.groups.values() for each in group.violations(self.sent)]
                raise AssertionError(f"for {PATIENCE_SECONDS:.0f} s nothing has happened before: {what}; {found}")
            time.sleep(_LOOK_SECONDS)

    def _require_running(self) -> None:
        for broker in self.brokers.values():
            broker.require_running()
        for member in (*self._residents, *self._standbys):
            assert member.process.is_running(), f"{member.name} has ended:\n{member.process.log()}"
