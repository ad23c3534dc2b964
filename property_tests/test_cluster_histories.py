"""Histories of a whole cluster: random work, random faults, and every promise checked at the end of each.

A seed is a history. One that fails is made smaller and printed; ``run_history(plan_of(SEED))`` is it again. The planted
bugs show that a broken promise would be found.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from property_tests.cluster_checker import broken_promises
from property_tests.cluster_history import run_history
from property_tests.cluster_plan import Operation, Plan, plan_of
from property_tests.cluster_shrink import smallest
from property_tests.hunts import Function, planted
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager
from rocketpy.client.pull_consumer import PullConsumer
from rocketpy.client.results import PullResult
from rocketpy.protocol.message import MessageQueue
from rocketpy.store.services.group_commit import GroupCommitService
from rocketpy.testing.sim_file import SimFile

TIER = os.environ.get("ROCKETPY_TIER", "dev")
HISTORIES = {"dev": 10, "ci": 300, "deep": 10_000}[TIER]


def drawn(seed: int) -> Plan:
    """Return the plan of a seed; in CI a shorter one, so that 300 of them take less than 100 s."""
    return plan_of(seed, seconds=25.0, count=60, faults=6) if TIER == "ci" else plan_of(seed)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Nobody reads what the programs log: a history is its own account."""
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


def test_a_history_without_faults_answers_and_delivers_everything() -> None:
    history = run_history(plan_of(1, faults=0))
    assert broken_promises(history) == []
    assert all(sent.status is not None for sent in history.sent)
    for lives in history.got.values():
        assert sorted(got.number for life in lives for got in life) == [sent.number for sent in history.sent]


def test_a_history_with_faults_is_no_idle_one() -> None:
    history = run_history(plan_of(3))
    assert sum(sent.status is not None for sent in history.sent) > 100
    assert sum("serves" in event for event in history.events) > 1


def test_a_seed_is_a_history() -> None:
    assert run_history(plan_of(3)).trace_hash == run_history(plan_of(3)).trace_hash
    assert run_history(plan_of(3)).trace_hash != run_history(plan_of(4)).trace_hash


def test_a_seed_is_the_same_history_in_another_process() -> None:
    code = (
        "from property_tests.cluster_history import run_history\n"
        "from property_tests.cluster_plan import plan_of\n"
        "print(run_history(plan_of(5)).trace_hash)"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }
    assert hashes == {run_history(plan_of(5)).trace_hash}


def test_a_minute_of_two_hundred_operations_takes_a_second_of_processor_time() -> None:
    took = []
    for seed in range(3):
        began = time.process_time()
        run_history(plan_of(seed))
        took.append(time.process_time() - began)
    assert min(took) <= 1.0


# ---- planted bugs ---------------------------------------------------------------------------------------------------


def _waits_for_an_earlier_offset(wait_durable: Function) -> Function:
    def waits(self: GroupCommitService, physical_end: int, callback: Callable[[Any], None]) -> None:
        wait_durable(self, physical_end // 2, callback)

    return waits


def _not_synced(sync: Function) -> Function:
    def synced(self: SimFile) -> None:
        if "commitlog" not in self.path:
            sync(self)

    return synced


def _one_too_far(query_offset: Function) -> Function:
    def queried(self: Any, group: str, topic: str, queue_id: int) -> int:
        offset = int(query_offset(self, group, topic, queue_id))
        return offset + (offset > 10)

    return queried


def _forgets_a_message(pull: Function) -> Function:
    async def pulled(self: PullConsumer, queue: MessageQueue, queue_offset: int, **options: Any) -> PullResult:
        result: PullResult = await pull(self, queue, queue_offset, **options)
        if len(result.messages) < 5:
            return result
        return attrs.evolve(result, messages=result.messages[:-1])

    return pulled


BUGS = [
    (SimFile, "sync", _not_synced, "kept", "lose power"),
    (GroupCommitService, "wait_durable", _waits_for_an_earlier_offset, "kept", "lose power"),
    (PullConsumer, "pull", _forgets_a_message, "in order", ""),
    (ConsumerOffsetManager, "query_offset", _one_too_far, "delivered", "restart consumer"),
]
"""What is wrong, and which promise it breaks, under which faults: of all kinds, or of one to find it sooner."""


@pytest.mark.parametrize(("owner", "name", "bug", "promise", "fault"), BUGS)
def test_a_planted_bug_is_found(
    owner: object, name: str, bug: Callable[[Function], Function], promise: str, fault: str
) -> None:
    plans = (plan_of(seed, seconds=20.0, count=80, only=fault) for seed in range(60))
    with planted(owner, name, bug):
        assert any(_is_broken(plan, promise) for plan in plans), f"60 histories did not find {bug.__name__}"


def test_a_failing_history_is_made_smaller_and_printed_for_a_person() -> None:
    with planted(SimFile, "sync", _not_synced), pytest.raises(AssertionError) as caught:
        for seed in range(40):
            check(plan_of(seed, seconds=12.0, count=30, faults=5, only="lose power"), runs_max=30)
    text = str(caught.value)
    assert "lose power broker-" in text
    assert "SEND_OK, broker-" in text
    assert "kept: producer-" in text
    (operations,) = [int(line.split()[-2]) for line in text.splitlines() if line.startswith("plan of seed")][1:]
    assert operations <= 15


# ---- making plans smaller -------------------------------------------------------------------------------------------


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
