"""Bugs that are planted on purpose, and that histories must find: of messages that are delivered late, of the progress
of groups, and those that make a broker believe a liar.

Those of durability and replication are in ``test_cluster_histories.py``.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
import trio

from property_tests.cluster_checker import broken_promises
from property_tests.cluster_history import run_history
from property_tests.cluster_plan import Plan, plan_of
from property_tests.hunts import Function, planted
from property_tests.replication_bugs import PLANTED
from rocketpy.broker.delay.delivery import ScheduleMessageService
from rocketpy.broker.delay.level_queue import LevelQueue
from rocketpy.broker.delay.levels import DelayLevels
from rocketpy.broker.metadata.offset_resets import OffsetResets
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager
from rocketpy.broker.metadata.persistence import TablePersistService
from rocketpy.broker.transaction import check
from rocketpy.broker.transaction.replay import LeftOpen
from rocketpy.broker.transaction.transactional_message import TransactionalMessageService
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC
from rocketpy.store.read.message_reader import MessageReader

SEEDS_MAX = 40


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


# ---- delayed messages -----------------------------------------------------------------------------------------------


def _a_second_less(delay_ms: Function) -> Function:
    return lambda self, level: delay_ms(self, level) - 1_000


def _searches_nothing(delivered_since: Function) -> Function:
    async def delivered(self: ScheduleMessageService, begin: int) -> set[int]:
        await trio.lowlevel.checkpoint()
        return set()

    return delivered


def _begins_at_the_end(init: Function) -> Function:
    def begin(self: LevelQueue, level: int, **given: Any) -> None:
        init(self, level, **given)
        self.move_to(given["store"].max_offset_in_queue(SCHEDULE_TOPIC, self.queue_id))

    return begin


# ---- transactions ---------------------------------------------------------------------------------------------------


def _commits(roll_back: Function) -> Function:
    return TransactionalMessageService.commit


def _finds_none_open(read_open_transactions: Function) -> Function:
    async def read(*given: Any) -> LeftOpen:
        left: LeftOpen = await read_open_transactions(*given)
        return LeftOpen({}, left.known_end, ())

    return read


def _only_in_memory(end: Function) -> Function:
    def ended(self: Any, origin: int, how: Any) -> None:
        self._ended(origin, how)

    return ended


# ---- progress of groups ---------------------------------------------------------------------------------------------


def _never(persist_now_and_then: Function) -> Function:
    async def persist(self: TablePersistService, table: object) -> None:
        await trio.sleep_forever()

    return persist


def _revokes_nothing(revoked_offset: Function) -> Function:
    return lambda self, key, queue_id: -1


def _rounds_down(commit_offset: Function) -> Function:
    def commit(self: ConsumerOffsetManager, peer: str, group: str, topic: str, queue_id: int, offset: int) -> None:
        commit_offset(self, peer, group, topic, queue_id, offset // 4 * 4)

    return commit


# ---- lies -----------------------------------------------------------------------------------------------------------


def _any_record(look_named_message: Function) -> Function:
    return MessageReader.look_message


Planted = tuple[object, str, Callable[[Function], Function]]
BUGS: list[tuple[list[Planted], str, str, bool, int]] = [
    ([(DelayLevels, "delay_ms", _a_second_less)], "early", "restart consumer", False, 1),
    ([(ScheduleMessageService, "_delivered_since", _searches_nothing)], "once", "kill", False, 2),
    ([(LevelQueue, "__init__", _begins_at_the_end)], "late", "kill", False, 0),
    ([(TransactionalMessageService, "roll_back", _commits)], "decided", "restart consumer", False, 2),
    ([(check, "read_open_transactions", _finds_none_open)], "late", "kill", False, 0),
    ([(TransactionalMessageService, "_end", _only_in_memory)], "once", "kill", False, 1),
    ([(TablePersistService, "_persist_now_and_then", _never)], "offsets", "kill", False, 2),
    ([(OffsetResets, "revoked_offset", _revokes_nothing)], "reset", "stop, reset offsets", True, 0),
    ([(ConsumerOffsetManager, "commit_offset", _rounds_down)], "offsets", "kill", False, 0),
    ([(MessageReader, "look_named_message", _any_record)], "forged", "restart consumer", False, 1),
]
"""What is wrong, which promise it breaks, under which faults, whether masters have slaves, and from which seed on
histories look. The history of that seed is the bug's script: its plan is drawn from the seed alone. Where a change of
the code has moved what it hits, the next ones are tried, which takes a second for each."""


NAMES = [changes[0][2].__name__.strip("_") for changes, *_ in BUGS]


def _plans(fault: str, pairs: bool, first: int) -> Iterator[Plan]:
    for seed in range(first, first + SEEDS_MAX):
        plan = plan_of(seed, pairs=pairs, seconds=25.0, count=60, faults=6, only=fault)
        # Under ASYNC_FLUSH most may be lost.
        yield attrs.evolve(plan, is_sync_flush=True)


@pytest.mark.parametrize(("bugs", "promise", "fault", "pairs", "first"), BUGS, ids=NAMES)
def test_a_planted_bug_is_found(bugs: list[Planted], promise: str, fault: str, pairs: bool, first: int) -> None:
    with contextlib.ExitStack() as stack:
        for bug in bugs:
            stack.enter_context(planted(*bug))
        found = any(
            line.startswith(f"{promise}:")
            for plan in _plans(fault, pairs, first)
            for line in broken_promises(run_history(plan))
        )
    assert found, f"{SEEDS_MAX} histories did not find it"


# ---- the bugs of replication_bugs.py --------------------------------------------------------------------------------

_UNDISTURBED = {"seconds": 60.0, "count": 100, "only": "restart consumer"}
REPLICATION_BUGS: list[tuple[str, str, dict[str, Any], int]] = [
    ("acknowledge what was sent", "replicated", {"only": "slow link"}, 3),
    ("override the status", "replicated", {"only": "slow link"}, 25),
    ("believe the first report", "replicated", {"only": "slow link"}, 1),
    ("believe any report", "replicated", {"only": "slow link"}, 1),
    ("acknowledge before storing", "replicated", {"only": "kill"}, 0),
    ("give up too early", "status", {"only": "slow link"}, 1),
    ("answer too late", "status", {"only": "cut"}, 15),
    ("see no slave", "status", _UNDISTURBED, 0),
    ("send what is not written", "status", _UNDISTURBED, 0),
    ("close files a byte short", "replicated", {"count": 250, "only": "restart consumer"}, 1),
    ("lose a unit", "delivered", {"only": "stop, change roles", "count": 100}, 28),
    ("forget the keys", "keys", {"only": "restart consumer"}, 0),
    ("keep the tail", "logs", {"only": "change roles"}, 1),
    ("compare nothing", "logs", {"only": "change roles"}, 2),
    ("stay silent", "logs", {"only": "change roles"}, 2),
]
"""The bug, which promise it breaks, what differs in the plans, and from which seed on histories look. The script of
each is in ``test_replication_machine.py``.

What histories do not show: *remember slaves* (what a connection that has ended has acknowledged is in the slave's log),
*check no offset* (no master sends such a record) and *go on after a failed write* (a write rarely fails while a piece
is stored).
"""


@pytest.mark.by_chance
@pytest.mark.parametrize(("name", "promise", "plan", "first"), REPLICATION_BUGS)
def test_a_planted_bug_of_replication_is_found(name: str, promise: str, plan: dict[str, Any], first: int) -> None:
    given = {"seconds": 25.0, "count": 60, "faults": 6, **plan}
    with PLANTED[name].planted():
        found = any(
            line.startswith(f"{promise}:")
            for seed in range(first, first + SEEDS_MAX)
            for line in broken_promises(run_history(plan_of(seed, pairs=True, **given)))
        )
    assert found, f"{SEEDS_MAX} histories did not find it"
