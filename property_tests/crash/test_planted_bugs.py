"""Planted bugs are found, each by the enumeration that also finds nothing without them.

Some take too many lives for that, or a full disk: those are for the state machine and its scripts.
"""

from __future__ import annotations

import attrs
import pytest

from property_tests.crash.enumeration import Effort, Enumeration
from property_tests.crash.history import replay
from property_tests.crash.life import Setup
from property_tests.planted_bugs import PLANTED
from rocketpy.testing.store_model import Invariant, InvariantBroken

USUAL = Effort(2, samples=2, again_each=10, goes_on_each=10, lives_after_each=2000)
ALL_GO_ON = attrs.evolve(USUAL, goes_on_each=1)  # what is wrong shows in a later life only

FOUND = {
    "acknowledge before sync": (("put", "acknowledge"), USUAL, Invariant.ACKNOWLEDGED_IS_THERE),
    "skip a directory sync": (("put", "acknowledge"), USUAL, Invariant.ACKNOWLEDGED_IS_THERE),
    "write the checkpoint too early": (
        ("put", "acknowledge", "checkpoint"),
        attrs.evolve(USUAL, operations_max=5),
        Invariant.ACKNOWLEDGED_IS_THERE,
    ),
    "no CRC check": (("put large", "acknowledge"), USUAL, Invariant.NOTHING_INVENTED),
    "forget consume-queue truncation": (("put", "acknowledge"), ALL_GO_ON, Invariant.ACKNOWLEDGED_IS_THERE),
    "lose the abort file": (("put", "acknowledge"), USUAL, Invariant.ABORT_FILE),
    "off-by-one at roll over": (
        ("put large", "acknowledge"),
        attrs.evolve(USUAL, operations_max=3),
        Invariant.ACKNOWLEDGED_IS_THERE,
    ),
    "leave the stale tail": (
        ("put large", "put", "acknowledge"),
        attrs.evolve(USUAL, operations_max=3),
        Invariant.CUT_STAYS_CUT,
    ),
    "sync again after a failed sync": (
        ("put", "checkpoint", "sync fails", "acknowledge"),
        attrs.evolve(USUAL, operations_max=4),
        Invariant.ACKNOWLEDGED_IS_THERE,
    ),
    "trust what a record names": (
        ("put", "put naming", "acknowledge"),
        attrs.evolve(USUAL, operations_max=3),
        Invariant.ACKNOWLEDGED_IS_THERE,
    ),
}
"""What may happen, how much is tried, and which sentence is not true then."""

DISKS_MAX = 30_000
"""Enough to find any of them; the enumeration looks at many times more."""


@pytest.mark.parametrize("name", FOUND)
def test_it_is_found(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    alphabet, effort, invariant = FOUND[name]
    with PLANTED[name].planted():
        enumeration = Enumeration(Setup(name, alphabet), effort)
        enumeration.run()
        (failure,) = enumeration.failures
        with pytest.raises(InvariantBroken):
            replay(failure.setup, *failure.history)
    counts = enumeration.counts
    disks = counts.disks_built + counts.later_deaths
    assert failure.invariant is invariant, str(failure)
    assert disks < DISKS_MAX
    replay(failure.setup, *failure.history)  # it is the bug, and nothing else
    with capsys.disabled():
        print(f"\n    planted bug found: {name}: {invariant.name} in {disks:,} disks", end="")


def test_the_change_is_taken_back() -> None:
    for name, bug in PLANTED.items():
        before = [getattr(owner, function) for owner, function, _ in bug.changes]
        with PLANTED[name].planted():
            during = [getattr(owner, function) for owner, function, _ in bug.changes]
        after = [getattr(owner, function) for owner, function, _ in bug.changes]
        assert before == after
        assert all(one is not other for one, other in zip(before, during, strict=True))
