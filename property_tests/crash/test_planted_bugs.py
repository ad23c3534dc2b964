"""Planted bugs are found, each by the enumeration that also finds nothing without them.

Others take too many lives for that, or a full disk: those are for the state machine and its scripts. A bug about the
recovery note takes a note that is believed: so it is looked for after a kill, in one workload that leads there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import pytest

from property_tests.crash.enumeration import Effort, Enumeration
from property_tests.crash.history import Lived, replay
from property_tests.crash.life import Setup
from property_tests.planted_bugs import PLANTED
from rocketpy.store.config import FlushDiskType
from rocketpy.testing.sim.disk_state import Survival
from rocketpy.testing.sim.inode import PAGE_SIZE
from rocketpy.testing.store_model import Invariant, InvariantBroken

DISKS_MAX = 40_000
"""Enough to find any of them; the enumeration looks at many times more."""

USUAL = Effort(2, samples=2, again_each=10, goes_on_each=10, lives_after_each=2000)

FOUND = {
    "acknowledge before sync": (("put", "acknowledge"), USUAL, Invariant.ACKNOWLEDGED_IS_THERE),
    "skip a directory sync": (("put", "acknowledge"), USUAL, Invariant.ACKNOWLEDGED_IS_THERE),
    "no CRC check": (("put large", "acknowledge"), USUAL, Invariant.NOTHING_INVENTED),
    "lose the abort file": (("put", "acknowledge"), USUAL, Invariant.ABORT_FILE),
    "off-by-one at roll over": (
        ("put large", "acknowledge"),
        attrs.evolve(USUAL, operations_max=3),
        Invariant.ACKNOWLEDGED_IS_THERE,
    ),
    "trust what a dead recovery has cleared after a stop": (
        ("put", "restart with longer queue"),
        Effort(
            2,
            samples=0,
            again_each=DISKS_MAX,
            goes_on_each=1,
            later_lives=[("put", "acknowledge")],
            is_killed_first=True,
        ),
        Invariant.ACKNOWLEDGED_IS_THERE,
    ),
    "take units that were made again for durable": (
        ("restart without queue",),
        Effort(1, samples=20, again_each=DISKS_MAX, goes_on_each=DISKS_MAX),
        Invariant.CLEAN_STOP_LOSES_NOTHING,
    ),
}
"""What may happen, how much is tried, and which sentence is not true then."""

WHOLE_PAGES = Setup("", flush=FlushDiskType.ASYNC_FLUSH, has_index=True, sector_size=PAGE_SIZE)
TORN_PAGES = attrs.evolve(WHOLE_PAGES, index_keys=6, sector_size=64)  # entries that two others are around, in a sector
KILLED = Effort(samples=0, again_each=DISKS_MAX, goes_on_each=DISKS_MAX, is_killed_first=True)

FOUND_ABOUT_THE_NOTE = {
    "believe the note after a loss of power": (
        attrs.evolve(TORN_PAGES, alphabet=("put batch", "put", "checkpoint")),
        attrs.evolve(KILLED, is_killed_first=False),
        Invariant.KEYS_LEAD,
    ),
    "leave a torn burst of the index": (
        attrs.evolve(WHOLE_PAGES, alphabet=("put", "put", "put late")),
        KILLED,
        Invariant.KEYS_LEAD,
    ),
    "trust the index as far as the queues": (
        attrs.evolve(WHOLE_PAGES, alphabet=("put", "put late")),
        KILLED,
        Invariant.KEYS_LEAD,
    ),
    "take a noted index for durable": (
        attrs.evolve(WHOLE_PAGES, alphabet=("put", "put late", "put batch", "search")),
        attrs.evolve(KILLED, goes_on_each=1, later_lives=[("put batch", "restart")]),
        Invariant.KEYS_LEAD,
    ),
    "believe the note after a failed sync": (
        attrs.evolve(WHOLE_PAGES, alphabet=("put", "checkpoint", "put batch", "sync fails", "search")),
        attrs.evolve(KILLED, goes_on_each=1, later_lives=[("restart",)], every_later_moment=True),
        Invariant.KEYS_LEAD,
    ),
    "write the note before the flush": (
        attrs.evolve(WHOLE_PAGES, alphabet=("put large", "put large", "checkpoint")),
        attrs.evolve(KILLED, again_each=1),
        Invariant.TWICE_IS_ONCE,
    ),
}
"""For each of these one workload, in whose last operation the first life ends: a note is believed after some lives."""


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


WHOLE_PAGE = {0: (1 << 64) - 1}
KNOWN_ABOUT_THE_NOTE: Mapping[str, Sequence[Lived]] = {
    # The note and the new name of an index file are kept, and of the file a part of its only page.
    "believe the note after a loss of power": [
        Lived(
            ("open", "put batch", "put", "checkpoint"),
            65,
            Survival(frozenset({0}), lengths={3: 512, 8: 196}, sectors={3: WHOLE_PAGE, 8: {0: 0b101}}),
        )
    ],
    # The store ends itself, is started and stopped, and loses power when its abort file has gone.
    "believe the note after a failed sync": [
        Lived(("open", "put", "checkpoint", "put batch", "sync fails", "search"), 79, None),
        Lived(("open", "restart"), 46, Survival(frozenset({0}))),
    ],
}
"""A history that the enumeration has printed, for each bug that takes it long: that of ``FOUND_ABOUT_THE_NOTE``."""


@pytest.mark.parametrize("name", KNOWN_ABOUT_THE_NOTE)
def test_a_bug_about_the_note_is_found_in_its_known_history(name: str) -> None:
    setup, _, invariant = FOUND_ABOUT_THE_NOTE[name]
    with PLANTED[name].planted(), pytest.raises(InvariantBroken) as raised:
        replay(setup, *KNOWN_ABOUT_THE_NOTE[name])
    assert raised.value.invariant is invariant
    replay(setup, *KNOWN_ABOUT_THE_NOTE[name])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.deep_enumeration if name in KNOWN_ABOUT_THE_NOTE else ())
        for name in FOUND_ABOUT_THE_NOTE
    ],
)
def test_a_bug_about_the_note_is_found(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing is, by the same enumeration, without the bug: a note that is believed costs no message and no key."""
    setup, effort, invariant = FOUND_ABOUT_THE_NOTE[name]
    setup = attrs.evolve(setup, name=name)
    effort = attrs.evolve(effort, operations_max=len(setup.alphabet))
    with PLANTED[name].planted():
        enumeration = Enumeration(setup, effort)
        enumeration.run(setup.alphabet)
        (failure,) = enumeration.failures
    counts = enumeration.counts
    disks = counts.disks_built + counts.later_deaths
    assert failure.invariant is invariant, str(failure)
    assert disks < DISKS_MAX
    without_bug = Enumeration(setup, effort)
    without_bug.run(setup.alphabet)
    assert not without_bug.failures, str(without_bug.failures[0])
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
