"""Histories of a whole cluster: random work, random faults, and every promise checked at the end of each.

A seed is a history. One that fails is made smaller and printed; ``run_history(plan_of(SEED))`` is it again. The planted
bugs of ``test_cluster_bugs.py`` show that a broken promise would be found.
"""

from __future__ import annotations

import itertools
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

import attrs
import pytest

from property_tests.cluster_checker import broken_promises
from property_tests.cluster_exemptions import (
    DELIVERED,
    EXPIRED,
    GOT_BEFORE_DURABLE,
    MAY_BE_LOST,
    READ_TAIL,
    exempt_count,
)
from property_tests.cluster_history import run_history
from property_tests.cluster_plan import Decision, Operation, Plan, plan_of
from property_tests.cluster_record import Sent
from property_tests.cluster_shrink import smallest
from property_tests.history_slices import plan_of_slice
from property_tests.hunts import planted
from property_tests.test_cluster_bugs import not_synced
from rocketpy.testing.sim.file import SimFile

TIER = os.environ.get("ROCKETPY_TIER", "dev")
HISTORIES = {"dev": 4, "ci": 24, "deep": 10_000}[TIER]


SHORT: Mapping[str, Any] = {"seconds": 25.0, "count": 60, "faults": 6}
"""Not a minute, as histories are by default."""


def drawn(seed: int) -> Plan:
    """Return the plan of a seed: every second one has pairs, and only ``deep`` has long ones."""
    given: Mapping[str, Any] = {"wide": True, "deletes": True, "pools": True, "expires": seed % 3 == 0}
    if TIER == "deep":
        return plan_of(seed, pairs=seed % 2 == 1, aimed=seed % 4 == 3, **given)
    return plan_of(seed, pairs=seed % 2 == 1, **given, **SHORT)


def short_plan(seed: int, *, pairs: bool) -> Plan:
    return plan_of(seed, pairs=pairs, **SHORT)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Switch off what the programs log: a history records what matters itself."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def check(plan: Plan, *, runs_max: int = 150) -> None:
    """Raise AssertionError with a smaller history when a promise is broken."""
    history = run_history(plan)
    broken = broken_promises(history)
    if broken:
        kind = broken[0].partition(":")[0]
        small = smallest(plan, lambda each: _is_broken(each, kind), runs_max=runs_max)
        history = run_history(small)
        raise AssertionError(f"seed {plan.seed}{history.text(broken_promises(history))}\n\n{small}")


def _is_broken(plan: Plan, kind: str) -> bool:
    return any(line.startswith(kind) for line in broken_promises(run_history(plan)))


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_every_promise_holds_in_every_history(seed: int) -> None:
    check(drawn(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 20, 25])
def test_what_the_tables_of_a_slave_say_its_log_has(seed: int) -> None:
    """The port for slaves is closed while roles change: the tables come over another one."""
    check(plan_of(seed, pairs=True, aimed=True))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 5])
def test_a_deleted_topic_stays_deleted(seed: int) -> None:
    """Over a promotion (2), and a loss of power (5)."""
    check(plan_of(seed, pairs=True, wide=True, deletes=True), runs_max=1)


@pytest.mark.slow
def test_a_reset_counts_over_what_a_slave_was_committed_just_before_it() -> None:
    """The master is back, and has never known that commit when it sets the group back, 200 ms later."""
    plan = plan_of_slice(1030)
    history = run_history(attrs.evolve(plan, operations=tuple(each for each in plan.operations if each.at_s < 22.5)))
    assert broken_promises(history) == []
    [reset] = [each for each in history.commits if each.is_reset and each.queue == ("broker-a", 1)]
    before = [each for each in history.commits if reset.asked_at - 1 < each.asked_at < reset.asked_at]
    assert ("broker-a/1", 11) in [(each.broker, each.consumer_offset) for each in before]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4, 10])
def test_old_files_are_deleted_while_a_history_runs(seed: int) -> None:
    """Of two masters (4), and of one that its slave does not reach meanwhile (10): what remains is whole."""
    given = {"pairs": seed % 4 > 0, "aimed": seed % 4 > 1, "deletes": True, "pools": True}
    history = run_history(plan_of(seed, **given, wide=True, expires=True))
    assert broken_promises(history) == []
    assert any(history.begin_offsets.values())
    exempt = exempt_count(history)
    assert exempt[EXPIRED] > 20
    assert exempt[DELIVERED] > 50, "what is not deleted reaches the groups"


@pytest.mark.parametrize("pairs", [False, True])
def test_a_history_without_faults_answers_and_delivers_everything(pairs: bool) -> None:
    history = run_history(plan_of(1, pairs=pairs, faults=0))
    assert broken_promises(history) == []
    assert all(sent.status is not None for sent in history.sent)
    kept = [sent.number for sent in history.sent if _is_delivered(sent)]
    assert 0 < len(history.sent) - len(kept) < 20, "some half messages are not committed"
    for lives in history.got.values():
        assert sorted(got.number for life in lives for got in life) == kept


def _is_delivered(sent: Sent) -> bool:
    return sent.transaction is None or sent.transaction.decision is Decision.COMMIT


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [False, True])
def test_a_history_with_faults_is_no_idle_one(pairs: bool) -> None:
    history = run_history(plan_of(3, pairs=pairs))
    assert sum(sent.status is not None for sent in history.sent) > 100
    assert sum("serves" in event for event in history.events) > 1
    assert sum(sent.delay_level > 0 for sent in history.sent if sent.status) > 2
    assert sum(sent.transaction is not None for sent in history.sent if sent.status) > 2
    assert len(history.commits) > 20
    assert len(history.offsets) > 20
    assert all(history.found_by_key.values())
    exempt = exempt_count(history)
    acknowledged = sum(sent.broker is not None for sent in history.sent)
    assert exempt[MAY_BE_LOST] < acknowledged / 2
    assert exempt[READ_TAIL] + exempt[GOT_BEFORE_DURABLE] < exempt[DELIVERED] / 4


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [False, True])
def test_a_seed_is_a_history(pairs: bool) -> None:
    history = run_history(short_plan(3, pairs=pairs))
    assert history == run_history(short_plan(3, pairs=pairs))
    assert history.trace_hash != run_history(short_plan(4, pairs=pairs)).trace_hash


@pytest.mark.slow
def test_a_seed_is_the_same_history_in_another_process() -> None:
    """Also where texts have other hashes, and so sets another order."""
    code = (
        "from property_tests.cluster_history import run_history\n"
        "from property_tests.test_cluster_histories import short_plan\n"
        "print(run_history(short_plan(5, pairs=True)).trace_hash)"
    )
    other_hashes = {**os.environ, "PYTHONHASHSEED": "1"}
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=other_hashes)
    assert printed.stdout.strip() == str(run_history(short_plan(5, pairs=True)).trace_hash)


@pytest.mark.slow
def test_a_minute_of_two_hundred_operations_takes_a_bounded_number_of_calls() -> None:
    """A second of processor time or less in plain Python; counted in calls, because time differs by what else runs."""
    assert calls_of(lambda: run_history(plan_of(0))) <= 3_000_000


def calls_of(action: Callable[[], object]) -> int:
    """Return how many functions an action has called, in plain Python and in C."""
    calls = itertools.count()

    def on_event(frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            next(calls)

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        action()
    finally:
        sys.setprofile(before)
    return next(calls)


# ---- a history that fails --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_failing_history_is_made_smaller_and_printed_for_a_person() -> None:
    with planted(SimFile, "sync", not_synced), pytest.raises(AssertionError) as caught:
        for seed in range(40):
            check(plan_of(seed, seconds=8.0, count=20, faults=5, only="lose power"), runs_max=5)
    text = str(caught.value)
    assert "lose power broker-" in text
    assert "SEND_OK, broker-" in text
    assert "kept: producer-" in text
    (operations,) = [int(line.split()[-2]) for line in text.splitlines() if line.startswith("plan of seed")][1:]
    assert operations <= 10


def _numbered(count: int) -> Plan:
    return Plan(0, is_sync_flush=True, operations=tuple(Operation(at, "send", "producer-0") for at in range(count)))


@pytest.mark.parametrize("needed", [{3}, {0, 99}, {10, 11, 50}, set(range(0, 100, 30))])
def test_what_is_not_needed_is_left_out(needed: set[int]) -> None:
    def fails(plan: Plan) -> bool:
        return needed <= {int(each.at_s) for each in plan.operations}

    small = smallest(_numbered(100), fails)
    assert {int(each.at_s) for each in small.operations} == needed


def test_the_number_of_runs_is_bounded() -> None:
    runs: list[Plan] = []

    def fails(plan: Plan) -> bool:
        runs.append(plan)
        return len(plan.operations) > 50

    small = smallest(_numbered(1000), fails, runs_max=20)
    assert len(runs) == 20
    assert 50 < len(small.operations) < 1000
    assert small == attrs.evolve(_numbered(1000), operations=small.operations)
