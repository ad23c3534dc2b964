"""Members of a consumer group in a simulated cluster, in histories that a seed decides.

What happens is in ``group_history.py``, what is promised in ``group_record.py``. The planted bugs show that a broken
promise would be found. ``history_of(SEED, is_orderly=..., kind=...)`` is a history again; its ``events`` are printed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest

from property_tests.group_bugs import BUGS, GroupBug, Script
from property_tests.group_history import Kind, history_of
from property_tests.group_record import History
from property_tests.hunts import planted

TIER = os.environ.get("ROCKETPY_TIER", "dev")
HISTORIES = {
    "dev": dict.fromkeys(Kind, 1),
    "ci": {Kind.CLEAN: 1, Kind.MEMBERS: 4, Kind.FAULTS: 2},
    "deep": dict.fromkeys(Kind, 500),
}[TIER]
SEEDS_FOR_A_BUG = 24


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Switch off what the programs log."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("is_orderly", [False, True], ids=["concurrent", "orderly"])
@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind in Kind for seed in range(HISTORIES[kind])])
def test_every_promise_holds_in_every_history(kind: Kind, seed: int, is_orderly: bool) -> None:
    history = history_of(seed, is_orderly=is_orderly, kind=kind)
    assert history.broken == [], "\n".join(history.events)
    assert len(history.sent) > 60
    assert history.batch_count > 40


@pytest.mark.slow
def test_a_seed_is_a_history() -> None:
    first, second, other = (
        history_of(seed, is_orderly=True, kind=Kind.MEMBERS, actions=("join", "crash", "restart")) for seed in (5, 5, 6)
    )
    assert _told(first) == _told(second) != _told(other)


def _told(history: History) -> tuple[object, ...]:
    return history.events, history.sent, history.handled_at, history.again_count


SCRIPTS = list(dict.fromkeys(each.script for each in BUGS))


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_scripts_break_nothing_without_a_bug(script: Script) -> None:
    history = script.play()
    assert history.broken == [], "\n".join(history.events)


@pytest.mark.parametrize("bug", BUGS, ids=[each.what for each in BUGS])
def test_each_planted_bug_is_found_by_its_script(bug: GroupBug) -> None:
    with planted(*bug.change):
        broken = bug.script.play().broken
    assert any(each.startswith(bug.promise) for each in broken), f"not found: {broken}"


# One for each promise: its first.
HUNTED = BUGS if TIER == "deep" else [*{bug.promise: bug for bug in reversed(BUGS)}.values()]


@pytest.mark.by_chance
@pytest.mark.parametrize("bug", HUNTED, ids=[each.what for each in HUNTED])
def test_planted_bugs_are_found_by_chance(bug: GroupBug) -> None:
    broken: list[str] = []
    with planted(*bug.change):
        for seed in range(bug.first_seed, bug.first_seed + SEEDS_FOR_A_BUG):
            broken = history_of(seed, is_orderly=bug.is_orderly, kind=bug.kind).broken
            if any(each.startswith(bug.promise) for each in broken):
                return
    raise AssertionError(f"not found: {broken}")
