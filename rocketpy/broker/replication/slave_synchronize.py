"""Synchronization of a slave's tables with its master's: groups, topics, offsets, progress of delayed messages.

Every 10 s, in this order, so that a group is never without its settings, and an offset never without its topic. Topics
and groups are taken whole, with the master's data version; a table that a heartbeat or a send has changed on the slave
differs, and is replaced. Consumer offsets follow :mod:`.offset_differences`, and those that clients have committed to
the slave are brought home first.

Rule: what stands for a place in the log (consumer offsets, those of CID_RMQ_SYS_TRANS among them, and the progress of
delayed messages) is stored only when the slave's log has reached the end that the master's log had afterwards, and
follows it. Otherwise a promoted slave would skip what it does not have: messages whose deliveries, whose next try or
whose commit had not arrived. One whose log is not the master's would forget what its own log has, and brings nothing
home. So a slave that lags has the tables of an older moment, and one that does not follow keeps those that it has.

A topic is deleted where the master says that it was deleted, up to which record: then its queues and offsets go here
too (:mod:`rocketpy.broker.metadata.topic_deletions`). While the log is not compared with the master's, topics are added
and changed, and none is dropped: a master with a new disk has none.

The progress of delayed messages is for a promotion: a slave delivers none. It names the physical offset from which on
the log may have more deliveries, as a master's file does.

A part that fails is reported once, and again when it works; the other parts go on.

Compatibility: ``SlaveSynchronize`` (4.9.8): topics, offsets, delay offsets, groups; it compares versions only, sets
offsets back, and stores the delay offsets at once, whatever its own log has.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import attrs
import trio

from rocketpy.broker.delay.offsets import DelayOffsetManager, DelayProgress
from rocketpy.broker.metadata.groups import SubscriptionGroupManager
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager, split_key
from rocketpy.broker.metadata.topic_deletions import TopicDeletions
from rocketpy.broker.metadata.topics import TopicConfigManager
from rocketpy.broker.replication.broker_tables import BrokerTables, MasterState, marks_of
from rocketpy.broker.replication.offset_differences import CommittedOffset, OffsetDifferences
from rocketpy.containment import Contained
from rocketpy.errors import BrokerError, LocalProtocolError, RemoteProtocolError, RemotingError, ShortageError
from rocketpy.log_files import event_fields
from rocketpy.store.message_store import MessageStore

FIRST_SECONDS = 3.0
PERIOD_SECONDS = 10.0
"""Java's times: the first synchronization, and from one to the next."""

BROUGHT_HOME_PER_ROUND_MAX = 2000
"""Bound of the offsets that are brought home in one round, with three requests each."""

REACH_LOOKS, REACH_PAUSE_SECONDS = 100, 0.01
"""How often a round looks whether the own log has what the master had when it told its offsets: usually after some
milliseconds. Else the next round does."""

NOTE_AFTER_BYTES = 64 << 20
"""Growth of the log after which the progress of delayed messages is stored again although it is the same."""

_KEYS_PER_TURN = 500
_SHOWN_MAX = 300

_log = logging.getLogger("rocketpy.broker")


class KnownMaster(Protocol):
    """Where the master is."""

    @property
    def master_addr(self) -> str | None:
        """Its address for requests, HOST:PORT; None while it is not known."""
        ...


@attrs.frozen
class SlaveSynchronizeStatistics:
    """Counters since the start, the parts that fail now, and the offsets that differ from the master's."""

    round_count: int
    brought_home_count: int
    failing: tuple[str, ...]
    different_offset_count: int


@attrs.frozen
class _PendingOffsets:
    """Consumer offsets that the slave may store when its log has reached ``log_end``."""

    master: str
    run: int | None
    table: dict[str, dict[int, int]]
    log_end: int


@attrs.frozen
class _PendingProgress:
    """Progress of delayed messages that the slave may store when its log has reached ``log_end``."""

    master: str
    run: int | None
    progress: DelayProgress
    log_end: int


class SlaveSynchronize:
    """One loop. Only a slave has it."""

    def __init__(
        self,
        *,
        master: KnownMaster,
        tables: BrokerTables,
        topics: TopicConfigManager,
        groups: SubscriptionGroupManager,
        offsets: ConsumerOffsetManager,
        delay_offsets: DelayOffsetManager,
        deletions: TopicDeletions,
        differences: OffsetDifferences,
        store: MessageStore,
        is_following: Callable[[], bool],
    ) -> None:
        """``is_following`` tells whether the log is compared with the master's, and replicates it now."""
        self._master = master
        self._is_following = is_following
        self._tables = tables
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._delay_offsets = delay_offsets
        self._deletions = deletions
        self._differences = differences
        self._store = store
        self._pending_offsets: _PendingOffsets | None = None
        self._pending: _PendingProgress | None = None
        self._failing: dict[str, None] = {}
        self._round_count = 0
        self._brought_home_count = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Synchronize until cancelled."""
        task_status.started()
        next_at = trio.current_time() + FIRST_SECONDS
        while True:
            await trio.sleep_until(next_at)
            await self.synchronize()
            next_at = max(next_at + PERIOD_SECONDS, trio.current_time())

    async def synchronize(self) -> None:
        """Do one round; nothing while the master is not known. Never fails for what a master answers."""
        address = self._master.master_addr
        if address is None:
            return
        await self._part("groups", address, self._take_groups)
        await self._part("topics", address, self._take_topics)
        await self._part("consumer offsets", address, self._take_offsets)
        await self._part("delay offsets", address, self._take_delay_offsets)
        self._round_count += 1

    def figures(self) -> dict[str, str]:
        """Return the rows of the runtime info."""
        return {
            "slaveTablesFailing": ", ".join(self._failing),
            "slaveOffsetsKept": str(self._differences.count),
        }

    def statistics(self) -> SlaveSynchronizeStatistics:
        """Return the counters."""
        return SlaveSynchronizeStatistics(
            self._round_count, self._brought_home_count, tuple(self._failing), self._differences.count
        )

    # ---- private --------------------------------------------------------------------------------------------------

    async def _part(self, name: str, address: str, work: Callable[[str], Awaitable[None]]) -> None:
        why = "it failed unexpectedly"
        with Contained(_log, "the synchronization of %s with the master %s", name, address):
            try:
                await work(address)
                why = ""
            except (RemotingError, BrokerError, RemoteProtocolError, LocalProtocolError, ShortageError) as failure:
                why = str(failure)[:_SHOWN_MAX]
        fields = event_fields(part=name, master=address, why=why)
        if why and name not in self._failing:
            self._failing[name] = None
            _log.warning("a part of the master's tables could not be taken; it is tried again", extra=fields)
        elif not why and name in self._failing:
            del self._failing[name]
            _log.info("the master's tables are taken again", extra=fields)

    async def _take_groups(self, address: str) -> None:
        wrapper = await self._tables.groups(address)
        if self._groups.take(wrapper):
            _log.info("groups taken from the master", extra=_fields(address, len(wrapper.subscription_group_table)))

    async def _take_topics(self, address: str) -> None:
        wrapper = await self._tables.topics(address)
        is_following = self._is_following()
        if self._topics.take(wrapper, drops=is_following):
            _log.info("topics taken from the master", extra=_fields(address, len(wrapper.topic_config_table)))
        if is_following and await self._deletions.take(marks_of(wrapper)):
            self._pending_offsets = None  # it may have offsets of a topic as it was before

    # ---- consumer offsets -----------------------------------------------------------------------------------------

    async def _take_offsets(self, address: str) -> None:
        pending = await self._pending_of(address)
        is_reached = await self._reaches(pending.log_end)
        if not self._is_following():
            self._pending_offsets = None
            return
        self._pending_offsets = None if is_reached else pending
        if not is_reached:
            return
        table, run = pending.table, pending.run
        is_same_run = self._differences.is_same_run(run)
        await self._bring_home(address, table, is_same_run=is_same_run)
        keys = list({**self._offsets.offset_table, **table})  # in an order that does not depend on hashes
        for number, key in enumerate(keys):
            if number % _KEYS_PER_TURN == _KEYS_PER_TURN - 1:
                await trio.lowlevel.checkpoint()
            own, master = self._offsets.offset_table.get(key, {}), table.get(key, {})
            settled = self._differences.settle(key, own, master, is_same_run=is_same_run)
            if settled != own:
                self._offsets.replace(key, settled)
        self._differences.synchronized(run)

    async def _pending_of(self, address: str) -> _PendingOffsets:
        """Return the table that waits for the log, or the master's as it is now."""
        pending = self._pending_offsets
        if pending is None or (pending.master, pending.run) != (address, (await self._state(address)).run):
            table = await self._tables.consumer_offsets(address)
            # Asked after the table: if the run is still the known one, then the table is of that run too.
            state = await self._state(address)
            pending = _PendingOffsets(address, state.run, table, _log_end_in(state))
        return pending

    async def _reaches(self, log_end: int) -> bool:
        """Whether the own log reaches an offset that the master's has, at once or in a moment."""
        for _ in range(REACH_LOOKS):
            if self._store.max_physical_offset >= log_end or not self._is_following():
                break
            await trio.sleep(REACH_PAUSE_SECONDS)
        return self._store.max_physical_offset >= log_end

    async def _bring_home(self, address: str, table: dict[str, dict[int, int]], *, is_same_run: bool) -> None:
        """Commit to the master what clients have committed here; the table then has what the master has taken.

        One offset that the master refuses does not stop the others.
        """
        waiting = self._differences.to_bring_home(self._offsets.offset_table, table, is_same_run=is_same_run)
        refusal: BrokerError | None = None
        for each in waiting[:BROUGHT_HOME_PER_ROUND_MAX]:
            try:
                home = await self._commit_home(address, each)
            except BrokerError as failure:
                refusal = failure
            else:
                if home is None:
                    self._differences.revoked(each)
                    continue
                table.setdefault(each.key, {})[each.queue_id] = home
        if refusal is not None and "offsets to the master" not in self._failing:
            self._failing["offsets to the master"] = None
            fields = event_fields(master=address, why=str(refusal)[:_SHOWN_MAX])
            _log.warning("the master refuses an offset that was committed to this slave", extra=fields)
        elif refusal is None:
            self._failing.pop("offsets to the master", None)

    async def _commit_home(self, address: str, committed: CommittedOffset) -> int | None:
        """Return the master's offset, which was raised unless the group has committed a higher one meanwhile.

        None if the master answers that the group was set back since the commit.

        It never exceeds the end of the master's queue: a master that has lost its last messages would otherwise skip
        those that take their places.
        """
        topic, group = split_key(committed.key)
        queue_id = committed.queue_id
        current = await self._tables.consumer_offset(address, group, topic, queue_id)
        home = min(committed.consumer_offset, await self._tables.max_offset(address, topic, queue_id))
        if home <= max(current, 0):
            return current
        ago_ms = self._differences.ago_ms(committed)
        is_taken = await self._tables.commit(address, group, topic, queue_id, home, ago_ms=ago_ms)
        fields = event_fields(master=address, topic=topic, group=group, queueId=queue_id, now=home, was=current)
        if not is_taken:
            _log.info("an offset that was committed to this slave was revoked by a reset on the master", extra=fields)
            return None
        self._brought_home_count += 1
        _log.info("an offset that was committed to this slave was brought to the master", extra=fields)
        return home

    # ---- delayed messages -----------------------------------------------------------------------------------------

    async def _take_delay_offsets(self, address: str) -> None:
        # Deliveries that the answer does not have come after the master's end, which is not before this slave's.
        physical_offset = self._store.durable_offset
        offsets = (await self._tables.delay_offsets(address)).offsets
        pending = self._pending
        if pending is not None or self._is_outdated(offsets, physical_offset):
            state = await self._state(address)
            if pending is None or (pending.master, pending.run) != (address, state.run):
                progress = DelayProgress(offsets, physical_offset)
                pending = _PendingProgress(address, state.run, progress, _log_end_in(state))
        if not self._is_following():  # else this log, and so its durable part, is a beginning of the master's
            pending = None
        self._pending = pending
        if pending is not None and self._store.max_physical_offset >= pending.log_end:
            await self._store.flush()
            self._delay_offsets.take(pending.progress)
            self._pending = None
        await self._delay_offsets.stored.persist()

    def _is_outdated(self, offsets: Mapping[int, int], physical_offset: int) -> bool:
        """Whether the master has delivered more, or a start would have to search much of the log for deliveries."""
        noted = self._delay_offsets.noted
        searched_from = noted.physical_offset
        return offsets != noted.offsets or searched_from is None or physical_offset - searched_from >= NOTE_AFTER_BYTES

    async def _state(self, address: str) -> MasterState:
        """Return the master's figures; none if it refuses, as a master may that knows no account of this broker."""
        try:
            return await self._tables.state(address)
        except (BrokerError, RemoteProtocolError):
            return MasterState(None, None)


def _log_end_in(state: MasterState) -> int:
    if state.log_end is None:
        raise RemoteProtocolError("expected commitLogMaxOffset among the master's figures (28), found none")
    return state.log_end


def _fields(address: str, count: int) -> dict[str, object]:
    return event_fields(master=address, count=count)
