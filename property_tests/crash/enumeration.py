"""Stops a store at every disk call, builds the disks that may be left, and holds each recovery against the model.

A history is a chain of lives, each ended by a crash (see :mod:`property_tests.crash.history`). After the last one the
store is recovered, and must have what the model promises. What is enumerated:

- one life: every workload, every call, and the death of the process, or any legal disk after a loss of power;
- two: while it recovers from that it dies again, at every call, in both ways (for one in so many disks);
- another life, in which it goes on, before it dies again (for one in so many, in so many of those that were cut, and in
  so many of those that have died in a recovery).

Recovery depends on nothing but the disk. So disks that look the same are recovered once, however they came about, and
what was found is held against each promise.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from multiprocessing import get_context

import attrs

from property_tests.crash.history import NEVER, Failure, Lived
from property_tests.crash.life import Life, Moment, Setup, copied
from property_tests.crash.operations import OPERATIONS
from property_tests.crash.recovery import moments_of_recovery, recover
from property_tests.crash.workloads import beginnings, lives
from rocketpy.errors import StoreError
from rocketpy.testing.sim.disk import SimDisk
from rocketpy.testing.sim.disk_state import DiskState
from rocketpy.testing.sim.legal_disks import UNITS_MAX, LegalDisks
from rocketpy.testing.store_model import Found, InvariantBroken, StoreModel

LATER_LIVES = (("put", "search", "acknowledge"), ("put large", "acknowledge"), ("put batch", "restart"))
"""What a store does that lives again after a crash."""


@attrs.frozen
class Effort:
    """How much is tried."""

    operations_max: int = 4
    samples: int = 8
    """Seeded samples of disks, where there are too many for all."""

    again_each: int = 50
    """One in so many different disks dies again in its recovery."""

    goes_on_each: int = 50
    """One in so many goes on with other lives, dies then, and recovers; the same of those that recovery cuts."""

    lives_after_each: int = 1000
    """One in so many that have died in a recovery goes on so; the same of those that were only killed there."""

    units_max_later: int = 3
    """With so many units, at most, every disk of such a later death comes."""

    every_later_moment: bool = False
    """A store that goes on may die at any moment then, and not only when it has done all that it does."""

    later_lives: Sequence[tuple[str, ...]] = LATER_LIVES
    """What a store does that goes on."""

    is_killed_first: bool = False
    """The first death is a kill, and no loss of power: what comes later begins with a note that is believed."""


@attrs.define
class Counts:
    """How much was tried."""

    workloads: int = 0
    crash_points: int = 0
    disks_possible: int = 0
    disks_built: int = 0
    disks_recovered: int = 0
    """Different ones."""

    later_deaths: int = 0

    def add(self, other: Counts) -> None:
        """Count what another one has counted too."""
        for name, count in attrs.asdict(other).items():
            setattr(self, name, getattr(self, name) + count)

    def __str__(self) -> str:
        return (
            f"{self.workloads:,} workloads, {self.crash_points:,} crash points, {self.disks_built:,} disks checked of "
            f"{self.disks_possible:,} possible ({self.disks_recovered:,} different ones recovered), "
            f"{self.later_deaths:,} later deaths"
        )


class TooManyFailures(Exception):
    """Enough is known."""


class Enumeration:
    """One enumeration, with what it has counted and found."""

    def __init__(self, setup: Setup, effort: Effort, *, failures_max: int = 1) -> None:
        self.counts = Counts()
        self.failures: list[Failure] = []
        self._setup = setup
        self._effort = effort
        self._failures_max = failures_max
        self._outcomes: dict[int, Found | Exception] = {}  # of recovery, by the hash (64 bits) of what is on the disk
        self._found: dict[Hashable, Found] = {}  # each once, though many disks lead to it
        self._new_disks = Counter[bool]()  # different ones, by whether recovery has cut something
        self._died_again = Counter[bool]()  # in a recovery, by whether it was a kill

    def run(self, beginning: tuple[str, ...] = ()) -> None:
        """Go through the workloads that begin in some way; ends early when there are failures enough."""
        try:
            for life in lives(self._setup, self._effort.operations_max, beginning):
                self.counts.workloads += 1
                self._judge(life, None)
                for moment in life.moments:
                    self.counts.crash_points += 1
                    self._die(moment)
        except TooManyFailures:
            pass

    # ---- one death after the other ----------------------------------------------------------------------------------

    def _die(self, moment: Moment) -> None:
        """Die at a moment, in every way that the effort allows, and in some cases again."""
        counts, effort = self.counts, self._effort
        counts.disks_possible += 1 + LegalDisks(moment.disk).possible_count
        for death in self._deaths(None, moment, units_max=UNITS_MAX, is_killed=effort.is_killed_first):
            counts.disks_built += 1
            if self._is_right(death) and death.is_new:
                counts.disks_recovered += 1
                if counts.disks_recovered % effort.again_each == 0:
                    self._die_again(death)
                self._new_disks[death.has_cut] += 1
                if self._new_disks[death.has_cut] % effort.goes_on_each == 0:
                    self._go_on(death)

    def _die_again(self, death: _Death) -> None:
        """Die in each disk call of the recovery."""
        for moment in moments_of_recovery(self._setup, death.disk, death.model):
            for again in self._die_later(death, moment):
                was_killed = again.history[-1].survival is None
                self._died_again[was_killed] += 1
                if self._died_again[was_killed] % self._effort.lives_after_each == 0:
                    self._go_on(again)

    def _go_on(self, death: _Death) -> None:
        """Let the store live again, and die in the end."""
        for operations in self._effort.later_lives:
            life = Life(self._setup, death.disk, death.model, number=len(death.history))
            everywhere = self._effort.every_later_moment
            life.run(operations, OPERATIONS, watched_from=0 if everywhere else len(operations))
            self._judge(life, death)
            for moment in life.moments if everywhere else life.moments[-1:]:
                for _ in self._die_later(death, moment):
                    pass

    def _die_later(self, before: _Death, moment: Moment) -> Iterator[_Death]:
        """Die at a moment of a later life or recovery; yield the deaths after which all is there that should be."""
        for death in self._deaths(before, moment, units_max=self._effort.units_max_later):
            self.counts.later_deaths += 1
            if self._is_right(death):
                yield death

    def _deaths(
        self, before: _Death | None, moment: Moment, *, units_max: int, is_killed: bool = False
    ) -> Iterator[_Death]:
        """Yield what may be left when a store dies at a moment: by a kill, and by a loss of power."""
        history, moments = ((), ()) if before is None else (before.history, before.moments)
        legal = LegalDisks(moment.disk).disks(samples=self._effort.samples, seed=moment.call, units_max=units_max)
        legal = iter(()) if is_killed else legal
        killed, dark = copied(moment.model), copied(moment.model)
        killed.died(power_lost=False)
        dark.died(power_lost=True)
        verdicts: dict[int, Exception | None] = {}
        for survival, disk, model in chain([(None, moment.disk, killed)], ((*each, dark) for each in legal)):
            is_new, outcome = self._recovered(disk, is_dirty=survival is None)
            key = id(outcome) if survival is not None else 0
            if key not in verdicts:
                verdicts[key] = _error_of(model, outcome)
            lived = Lived(moment.operations, moment.call, survival)
            has_cut = isinstance(outcome, Found) and len(outcome.log) < len(model.log)
            yield _Death((*history, lived), (*moments, moment), disk, model, verdicts[key], is_new, has_cut)

    # ---- recovery and judgement -------------------------------------------------------------------------------------

    def _recovered(self, disk: DiskState, *, is_dirty: bool) -> tuple[bool, Found | Exception]:
        """Return what recovery finds on a disk, and whether this is the first disk that looks like it."""
        key = hash((disk.fingerprint, is_dirty))
        outcome = self._outcomes.get(key)
        if outcome is not None:
            return False, outcome
        try:
            found = recover(self._setup, SimDisk(state=disk))
        except (StoreError, AssertionError) as error:
            outcome = error
        else:
            queues = tuple((name, tuple(messages)) for name, messages in sorted(found.queues.items()))
            outcome = self._found.setdefault(
                (tuple(found.log), queues, found.abort_file_was_there, found.durable_end), found
            )
        self._outcomes[key] = outcome
        return True, outcome

    def _judge(self, life: Life, before: _Death | None) -> None:
        """Fail if something went wrong in a life that was not ended on purpose."""
        if life.error is not None:
            history, moments = ((), ()) if before is None else (before.history, before.moments)
            moment = Moment(
                NEVER, life.operations, "it was alive when this was seen", life.world.disk.state(), life.model
            )
            self._fail((*history, Lived(life.operations, NEVER, None)), (*moments, moment), life.error)

    def _is_right(self, death: _Death) -> bool:
        if death.error is not None:
            self._fail(death.history, death.moments, death.error)
        return death.error is None

    def _fail(self, history: tuple[Lived, ...], moments: tuple[Moment, ...], error: Exception) -> None:
        self.failures.append(Failure(self._setup, history, moments, error))
        if len(self.failures) >= self._failures_max:
            raise TooManyFailures


@attrs.frozen(eq=False)
class _Death:
    """A disk that is left, and what is to be thought of it."""

    history: tuple[Lived, ...]
    moments: tuple[Moment, ...]
    disk: DiskState
    model: StoreModel
    error: Exception | None
    is_new: bool
    has_cut: bool


def _error_of(model: StoreModel, outcome: Found | Exception) -> Exception | None:
    """Hold what recovery found against what was promised."""
    if isinstance(outcome, Exception):
        return outcome
    try:
        copied(model).recovered(outcome)
    except InvariantBroken as broken:
        return broken
    return None


def enumerate_all(setups: Sequence[tuple[Setup, Effort]], processes: int) -> dict[str, tuple[Counts, list[str]]]:
    """Go through some set-ups in several processes; return for each by name what was counted, and failures as text."""
    results: dict[str, tuple[Counts, list[str]]] = {setup.name: (Counts(), []) for setup, _ in setups}
    parts = [
        (setup, effort, beginning) for setup, effort in setups for beginning in beginnings(setup, effort.operations_max)
    ]
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as executor:
        for (setup, _, _), (part_counts, part_failures) in zip(parts, executor.map(_run_part, parts), strict=True):
            counts, failures = results[setup.name]
            counts.add(part_counts)
            failures += part_failures
    return results


def _run_part(part: tuple[Setup, Effort, tuple[str, ...]]) -> tuple[Counts, list[str]]:
    setup, effort, beginning = part
    enumeration = Enumeration(setup, effort)
    try:
        enumeration.run(beginning)
    except Exception:  # most exceptions do not pass from process to process
        return enumeration.counts, [f"{setup}, {beginning}:\n{traceback.format_exc()}"]
    return enumeration.counts, [str(failure) for failure in enumeration.failures]
