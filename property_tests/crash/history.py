"""A chain of lives, each ended by a crash: what is found wrong, and how to see it again.

A failure prints the lives, in which disk call of which file each ended, and what became of everything that was not
synced; and a call of :func:`replay` that does the same once more.
"""

from __future__ import annotations

import attrs

from property_tests.crash.life import Life, Moment, Setup, copied
from property_tests.crash.operations import OPERATIONS
from property_tests.crash.recovery import moments_of_recovery, recover
from rocketpy.testing.sim.disk import SimDisk
from rocketpy.testing.sim.disk_state import DiskState, Survival
from rocketpy.testing.store_model import Invariant, InvariantBroken, StoreModel

NEVER = -1


@attrs.frozen
class Lived:
    """One life in a history."""

    operations: tuple[str, ...]
    """What was done in it, the last one perhaps not to its end; nothing: it only recovered, the short way."""

    call: int
    """The call in which it died, counted from 0 in this life; :data:`NEVER` if a start in it went wrong before that."""

    survival: Survival | None
    """What survived the loss of power; None if only the process died."""


@attrs.frozen
class Failure:
    """A history after which recovery does not do what it should."""

    setup: Setup
    history: tuple[Lived, ...]
    moments: tuple[Moment, ...]
    """For each life, when it died."""

    error: Exception

    @property
    def invariant(self) -> Invariant | None:
        """The sentence that is not true; None if the store does not even open."""
        return self.error.invariant if isinstance(self.error, InvariantBroken) else None

    def __str__(self) -> str:
        lines = []
        for lived, moment in zip(self.history, self.moments, strict=True):
            doings = ", ".join(lived.operations) or "nothing but recovery"
            lines.append(f"  life: {doings}\n  died: {where(moment, lived.survival)}")
        script = "\n".join(f"        {lived!r}," for lived in self.history)
        text = "\n".join(lines)
        return (
            f"{type(self.error).__name__}: {self.error}\n{text}\n  again:\n"
            f"    replay(\n        {self.setup!r},\n{script}\n    )"
        )


def where(moment: Moment, survival: Survival | None) -> str:
    """Say in which call a store died, and what became of everything that was not synced."""
    if moment.call == NEVER:
        return f"not at all, {moment.what}"
    if survival is None:
        return f"killed before call {moment.call}, {moment.what}"
    units = "".join(f"\n      {unit}" for unit in moment.disk.describe(survival))
    return f"power lost before call {moment.call}, {moment.what}{units}"


def replay(setup: Setup, *history: Lived) -> None:
    """Go through one history and recover; raises what is wrong with that, as the enumeration found it."""
    disk: DiskState | None = None
    model = StoreModel()
    for number, lived in enumerate(history):
        if lived.operations:
            life = Life(setup, disk, model, number=number)
            life.run(lived.operations[1:], OPERATIONS)
            moments = life.moments
            if life.error is not None:
                raise life.error
        else:
            assert disk is not None, "the first life is a whole one"
            moments = moments_of_recovery(setup, disk, model)
        if lived.call == NEVER:
            return
        moment = next(each for each in reversed(moments) if each.call == lived.call)
        print(where(moment, lived.survival))
        disk = moment.disk if lived.survival is None else moment.disk.after_power_loss(lived.survival)
        model = copied(moment.model)
        model.died(power_lost=lived.survival is not None)
    assert disk is not None, "a history has lives"
    model.recovered(recover(setup, SimDisk(state=disk)))
