"""Bugs that are planted on purpose, and that histories must find: each promise of ``cluster_checker.py`` has one.

The history of a bug's first seed is its script: its plan is drawn from the seed alone. Where a change of the code has
moved what it hits, the next seeds are tried, which takes a second for each.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import pytest
import trio

from property_tests.cluster_checker import broken_promises
from property_tests.cluster_history import run_history
from property_tests.cluster_plan import plan_of
from property_tests.hunts import Change, Function, PlantedBug
from property_tests.planted_bugs import PLANTED as STORE_BUGS
from property_tests.replication_bugs import PLANTED
from rocketpy.broker import store_opening
from rocketpy.broker.delay.delivery import ScheduleMessageService
from rocketpy.broker.delay.level_queue import LevelQueue
from rocketpy.broker.delay.levels import DelayLevels
from rocketpy.broker.metadata.offset_resets import OffsetResets
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager
from rocketpy.broker.metadata.persistence import TablePersistService
from rocketpy.broker.metadata.topic_deletions import TopicDeletions
from rocketpy.broker.replication.common_log import CommonLog
from rocketpy.broker.replication.feature import ReplicationFeature
from rocketpy.broker.replication.slave_synchronize import SlaveSynchronize
from rocketpy.broker.send.send_back import SendBackProcessor
from rocketpy.broker.tables import Tables
from rocketpy.broker.transaction import check
from rocketpy.broker.transaction.replay import LeftOpen
from rocketpy.broker.transaction.transactional_message import TransactionalMessageService
from rocketpy.client.consumer.pull_consumer import PullConsumer
from rocketpy.client.results import PullResult
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.command import make_response
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC
from rocketpy.store.ha.group_transfer import GroupTransferService
from rocketpy.store.ha.slave_progress import SlaveProgress
from rocketpy.store.message_store import MessageStore
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.read.message_reader import MessageReader
from rocketpy.store.services.clean_consume_queue import CleanConsumeQueueService
from rocketpy.store.services.flush_real_time import FlushRealTimeService
from rocketpy.store.services.group_commit import GroupCommitService
from rocketpy.testing.sim.file import SimFile

SEEDS_MAX = 80


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


# ---- messages that are sent back ------------------------------------------------------------------------------------


def _answers_only(put_again: Function) -> Function:
    return lambda self, send_back, record: make_response(send_back.request, ResponseCode.SUCCESS)


# ---- progress of groups ---------------------------------------------------------------------------------------------


def _never(persist_now_and_then: Function) -> Function:
    async def persist(self: TablePersistService, table: object) -> None:
        await trio.sleep_forever()

    return persist


def _revokes_nothing(revokes: Function) -> Function:
    return lambda self, key, queue_id, offset, committed_ago_ms: False


def _rounds_down(commit_offset: Function) -> Function:
    def commit(self: ConsumerOffsetManager, peer: str, group: str, topic: str, queue_id: int, offset: int) -> None:
        commit_offset(self, peer, group, topic, queue_id, offset // 4 * 4)

    return commit


# ---- deletions ------------------------------------------------------------------------------------------------------


def _nothing(function: Function) -> Function:
    return lambda *given: None


def _takes_no_deletion(take: Function) -> Function:
    async def taken(self: TopicDeletions, deletions: object) -> int:
        await trio.lowlevel.checkpoint()
        return 0

    return taken


def _begins_too_late(min_offset_of: Function) -> Function:
    """A queue of which messages were deleted begins three messages after the first one that is there."""

    async def found(self: CleanConsumeQueueService, queue: ConsumeQueue, log_min_offset: int) -> tuple[int, int]:
        min_offset, tags_code = await min_offset_of(self, queue, log_min_offset)
        return min(min_offset + 3, queue.next_offset) if min_offset else 0, tags_code

    return found


# ---- lies -----------------------------------------------------------------------------------------------------------


def _any_record(look_named_message: Function) -> Function:
    return MessageReader.look_message


# ---- durability -----------------------------------------------------------------------------------------------------


def _waits_for_an_earlier_offset(wait_durable: Function) -> Function:
    def waits(self: GroupCommitService, physical_end: int, callback: Callable[[Any], None]) -> None:
        wait_durable(self, physical_end // 2, callback)

    return waits


def _only_full_pages(flush: Function) -> Function:
    async def flushed(self: FlushRealTimeService, *, least_pages: int = 0) -> None:
        await flush(self, least_pages=max(1000, least_pages))

    return flushed


def not_synced(sync: Function) -> Function:
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


# ---- replication ----------------------------------------------------------------------------------------------------


def _believes_the_first_report(request: Function) -> Function:
    """As RocketMQ's HAConnection does (4.9.8)."""

    def believes(self: SlaveProgress, offset: int, log_min: int, log_max: int, file_size: int) -> None:
        request(self, min(offset, log_max), log_min, log_max, file_size)
        self.acknowledged_offset = self.sent_offset = max(offset, self.sent_offset)
        self.covered_from = 0

    return believes


def _at_once(reaches: Function) -> Function:
    """As RocketMQ's SlaveSynchronize (4.9.8)."""

    async def reached(self: SlaveSynchronize, log_end: int) -> bool:
        await trio.lowlevel.checkpoint()
        return True

    return reached


def _no_difference(difference: Function) -> Function:
    """Offsets of a slave count whatever its log has."""

    async def none(self: CommonLog, address: str) -> str:
        await trio.lowlevel.checkpoint()
        return ""

    return none


async def _leave_tables(tables: Tables, store: MessageStore) -> None:
    await trio.lowlevel.checkpoint()


def _cuts_no_tables(cut_tables: Function) -> Function:
    """Offsets and delay progress stay what they were when the log is cut."""
    return _leave_tables


def _always(is_following: Function) -> Function:
    return lambda self: True


def _waits_for_what_a_slave_has(wait_replicated: Function) -> Function:
    def waits(self: GroupTransferService, end_offset: int, callback: Callable[[Any], None]) -> None:
        slaves = [slave for slave in self._slaves() if slave.acknowledged_offset > slave.covered_from]
        wait_replicated(self, max((slave.acknowledged_offset for slave in slaves), default=end_offset), callback)

    return waits


# ---- where histories find them --------------------------------------------------------------------------------------


@attrs.frozen
class ClusterBug:
    """A bug, the promise that it breaks, and the plans of the histories that look for it."""

    changes: Sequence[Change]
    promise: str
    faults: str
    """The kinds of faults of these plans, to find it sooner; of all kinds if none is named."""

    first_seed: int = 0
    plan: Mapping[str, Any] = {}
    is_sync_flush: bool = True
    """Whether the brokers of every plan have SYNC_FLUSH: under ASYNC_FLUSH nothing waits for the disk."""

    def is_found(self) -> bool:
        given = {"seconds": 25.0, "count": 60, "faults": 6, "only": self.faults, **self.plan}
        with PlantedBug("", self.changes).planted():
            for seed in range(self.first_seed, self.first_seed + SEEDS_MAX):
                plan = plan_of(seed, **given)
                history = run_history(attrs.evolve(plan, is_sync_flush=True) if self.is_sync_flush else plan)
                if any(line.startswith(f"{self.promise}:") for line in broken_promises(history)):
                    return True
        return False


LONGER = {"seconds": 20.0, "count": 80, "faults": 12}
WITH_SLAVES = {"pairs": True, "seconds": 30.0, "count": 100, "faults": 12}
AIMED = {"pairs": True, "aimed": True, "seconds": 60.0, "count": 200, "faults": 12}
SEQUENCE = {"pairs": True, "aimed": True, "wide": True, "seconds": 45.0, "count": 120, "faults": 3}
"""Little more than one aimed sequence."""

BUGS = {
    "a delay is a second too short": ClusterBug(
        [(DelayLevels, "delay_ms", _a_second_less)], "early", "restart consumer", 1
    ),
    "a start does not look for what was delivered": ClusterBug(
        [(ScheduleMessageService, "_delivered_since", _searches_nothing)], "once", "kill", 2
    ),
    "a level begins at its end": ClusterBug([(LevelQueue, "__init__", _begins_at_the_end)], "late", "kill"),
    "a rollback commits": ClusterBug(
        [(TransactionalMessageService, "roll_back", _commits)], "decided", "restart consumer", 2
    ),
    "a start finds no open transaction": ClusterBug(
        [(check, "read_open_transactions", _finds_none_open)], "late", "kill"
    ),
    "the end of a transaction is in memory only": ClusterBug(
        [(TransactionalMessageService, "_end", _only_in_memory)], "once", "kill", 1
    ),
    "tables are never written": ClusterBug(
        [(TablePersistService, "_persist_now_and_then", _never)], "offsets", "kill", 2
    ),
    "a reset revokes nothing": ClusterBug(
        [(OffsetResets, "revokes", _revokes_nothing)], "reset", "stop, reset offsets", plan={"pairs": True}
    ),
    "a commit is rounded down": ClusterBug([(ConsumerOffsetManager, "commit_offset", _rounds_down)], "offsets", "kill"),
    "a record in a body is a record": ClusterBug(
        [(MessageReader, "look_named_message", _any_record)], "forged", "restart consumer", 1
    ),
    "a sync does nothing": ClusterBug([(SimFile, "sync", not_synced)], "kept", "lose power", 3, LONGER),
    "a wait is for an earlier offset": ClusterBug(
        [(GroupCommitService, "wait_durable", _waits_for_an_earlier_offset)], "kept", "lose power", 1, LONGER
    ),
    "a send is acknowledged before the sync": ClusterBug(
        STORE_BUGS["acknowledge before sync"].changes, "kept", "lose power", 1, LONGER
    ),
    "the name of a new log file is not durable": ClusterBug(
        STORE_BUGS["skip a directory sync"].changes,
        "kept",
        "lose power",
        0,
        {"wide": True, "expires": True, "seconds": 25.0, "count": 100, "faults": 8},
    ),
    "the log is flushed page by page only": ClusterBug(
        [(FlushRealTimeService, "flush", _only_full_pages)],
        "kept",
        "lose power",
        2,
        {"seconds": 40.0, "count": 100, "faults": 5},
        is_sync_flush=False,
    ),
    "a message sent back is not stored": ClusterBug(
        [(SendBackProcessor, "_put_again", _answers_only)], "back", "restart consumer", 0, {"wide": True}
    ),
    "a pull forgets a message": ClusterBug([(PullConsumer, "pull", _forgets_a_message)], "in order", "", 1, LONGER),
    "an offset is one too far": ClusterBug(
        [(ConsumerOffsetManager, "query_offset", _one_too_far)], "delivered", "restart consumer", 0, LONGER
    ),
    "the first report is an acknowledgement": ClusterBug(
        # The comparison keeps away the slaves whose first report would be believed.
        [*PLANTED["compare nothing"].changes, (SlaveProgress, "_request", _believes_the_first_report)],
        "replicated",
        "lose power",
        1,
        WITH_SLAVES,
        is_sync_flush=False,
    ),
    "a slave does not wait for its log": ClusterBug(
        [(SlaveSynchronize, "_reaches", _at_once), (ReplicationFeature, "is_following", _always)],
        "late",
        "",
        0,
        AIMED,
        is_sync_flush=False,
    ),
    "a cut leaves the tables": ClusterBug(
        [(store_opening, "_cut_tables", _cuts_no_tables)], "delivered", "", 7, SEQUENCE, is_sync_flush=False
    ),
    "a deletion leaves the offsets of groups": ClusterBug(
        [(ConsumerOffsetManager, "remove_topic", _nothing)], "deleted", "", 0, {"wide": True, "deletes": True}
    ),
    "a slave takes no deletion of topics": ClusterBug(
        [(TopicDeletions, "take", _takes_no_deletion)],
        "deleted",
        "change roles",
        5,
        {"pairs": True, "wide": True, "deletes": True, "seconds": 45.0, "count": 60, "faults": 5},
        is_sync_flush=False,
    ),
    "a queue begins too late": ClusterBug(
        [(CleanConsumeQueueService, "_min_offset_of", _begins_too_late)],
        "kept",
        "",
        0,
        {"wide": True, "expires": True, "seconds": 30.0, "count": 100, "faults": 3},
        is_sync_flush=False,
    ),
    "offsets of another log are taken": ClusterBug(
        [(CommonLog, "difference", _no_difference)], "delivered", "", 6, SEQUENCE, is_sync_flush=False
    ),
    "a wait is for what a slave has": ClusterBug(
        [(GroupTransferService, "wait_replicated", _waits_for_what_a_slave_has)],
        "replicated",
        "slow link",
        0,
        WITH_SLAVES,
        is_sync_flush=False,
    ),
}


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_a_planted_bug_is_found(bug: ClusterBug) -> None:
    assert bug.is_found(), f"{SEEDS_MAX} histories did not find it"


UNDISTURBED = {"pairs": True, "seconds": 60.0, "count": 100}
BUGS_OF_REPLICATION = {
    name: ClusterBug(PLANTED[name].changes, promise, faults, first, plan, is_sync_flush=False)
    for name, promise, faults, first, plan in (
        ("acknowledge before storing", "replicated", "kill", 0, {"pairs": True}),
        ("see no slave", "status", "restart consumer", 0, UNDISTURBED),
        ("forget the keys", "keys", "restart consumer", 0, {"pairs": True}),
        ("compare nothing", "logs", "change roles", 2, {"pairs": True}),
        ("stay silent", "logs", "", 6, {**SEQUENCE, "seconds": 30.0, "count": 80}),
        ("keep the tail", "logs", "", 1, SEQUENCE),
    )
}
"""One of ``replication_bugs.py`` for each promise about pairs: ``replication_machine.py`` finds all of them."""


@pytest.mark.by_chance
@pytest.mark.parametrize("bug", BUGS_OF_REPLICATION.values(), ids=BUGS_OF_REPLICATION)
def test_a_planted_bug_of_replication_is_found(bug: ClusterBug) -> None:
    assert bug.is_found(), f"{SEEDS_MAX} histories did not find it"
