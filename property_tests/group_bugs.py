"""Deliberate bugs of the client's consumers, each of which histories of a group must find.

A bug is a wrong function instead of a right one. Its row says which promise it breaks, in which kind of history, by
which actions, and from which seed on histories of random actions look.

Three bugs are left to unit tests. Dozens of histories with restarts were played with each, and none shows it:

- A queue that comes again is still paused. Only polled members pause single queues, and those here have handlers.
- The lock of a queue is not looked at again after the wait for a free handler. Its holder has it confirmed again half a
  second after a restart, and others wait for three, so two have the queue only where one is cut off for 30 seconds
  while a handler of it keeps its other queues waiting. None here takes so long (LONG_HANDLER_SECONDS).
- A broker that restarts again within its grace period counts as one that never went. Its holders are back within half a
  second, and until the period is over no rebalance takes a queue from them (``Reconnects.is_settling``).
"""

from __future__ import annotations

from typing import Any

import attrs

from property_tests.group_history import Kind, history_of
from property_tests.group_record import History
from property_tests.hunts import Change, Function
from rocketpy.client.consumer.group.assigned_queues import AssignedQueues
from rocketpy.client.consumer.group.begin_offsets import BeginOffsets
from rocketpy.client.consumer.group.consumer_group import ConsumerGroup
from rocketpy.client.consumer.group.knowledge import GroupKnowledge
from rocketpy.client.consumer.group.queue_locks import QueueLocks
from rocketpy.client.consumer.group.requests import GroupRequests
from rocketpy.client.consumer.offsets.remote_offset_store import RemoteOffsetStore
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.client.consumer.queue.requests import QueueRequests
from rocketpy.protocol.allocation.averagely import AllocateAveragely


@attrs.frozen
class GroupBug:
    """A bug, and where it shows itself."""

    what: str
    change: Change
    promise: str
    is_orderly: bool = False
    kind: Kind = Kind.CLEAN
    actions: tuple[str, ...] = ("join",)
    """Its script: what happens in a history that shows it."""

    seed: int = 0
    """That of the script."""

    first_seed: int = 0
    """From which on chance finds it soon."""

    @property
    def script(self) -> Script:
        """The history that shows it."""
        return Script(self.kind, self.is_orderly, self.actions, self.seed)


@attrs.frozen
class Script:
    """A history with few actions."""

    kind: Kind
    is_orderly: bool
    actions: tuple[str, ...]
    seed: int

    def __str__(self) -> str:
        return f"{', '.join(self.actions)}; {'orderly' if self.is_orderly else 'concurrent'}, seed {self.seed}"

    def play(self) -> History:
        """Play it, and wait until all is as it must be for no longer than it takes without a bug."""
        seconds = _SETTLE_SECONDS[self.kind]
        return history_of(
            self.seed, is_orderly=self.is_orderly, kind=self.kind, actions=self.actions, settle_seconds=seconds
        )


_SETTLE_SECONDS = {Kind.CLEAN: 40.0, Kind.MEMBERS: 80.0, Kind.FAULTS: 60.0}


def _commits_what_is_in_flight(removed: Function) -> Function:
    def wrong(self: Any, count: int, size: int) -> int | None:
        return None if removed(self, count, size) is None else self._highest + 1

    return wrong


def _takes_without_lock(lock: Function) -> Function:
    async def wrong(self: Any, address: str, queues: Any) -> Any:
        await lock(self, address, queues)
        return set(queues)

    return wrong


def _gives_up_busy_queues(give_up: Function) -> Function:
    async def wrong(self: Any, leaving: Any) -> Any:
        for each in leaving:
            each.process_queue.is_consuming = False
        return await give_up(self, leaving)

    return wrong


def _trusts_a_lock_over_a_restart(is_in_doubt: Function) -> Function:
    return lambda self, process_queue: False


def _keeps_its_locks(release: Function) -> Function:
    async def wrong(self: Any, queues: Any) -> None:
        pass

    return wrong


def _forgets_the_last_queue(allocate: Function) -> Function:
    def wrong(self: Any, group: str, client_id: str, queues: Any, client_ids: Any) -> Any:
        share = allocate(self, group, client_id, queues, client_ids)
        return share[:-1] if len(client_ids) > 1 else share

    return wrong


def _keeps_what_is_not_its_own(change: Function) -> Function:
    async def wrong(self: Any, dropped: Any, added: Any) -> Any:
        return await change(self, [], added)

    return wrong


def _knows_the_first_queues_only(queues: Function) -> Function:
    known: dict[Any, Any] = {}

    async def wrong(self: Any, topic: str) -> Any:
        key = (self.instance, topic)
        if known.get(key) is None:
            known[key] = await queues(self, topic)
        return known[key]

    return wrong


def _knows_the_first_members_only(member_ids: Function) -> Function:
    known: dict[Any, Any] = {}

    async def wrong(self: Any, topic: str) -> Any:
        if known.get(self) is None:
            known[self] = await member_ids(self, topic)
        return known[self]

    return wrong


def _stores_nothing_at_the_hand_over(persist: Function) -> Function:
    async def wrong(self: Any, queues: Any) -> None:
        pass

    return wrong


def _acknowledges_what_it_gives_up(give_up: Function) -> Function:
    async def wrong(self: Any, leaving: Any) -> Any:
        for each in leaving:
            bounds = each.process_queue.bounds
            if bounds is not None:
                self._progress.update(each.process_queue.queue, bounds[1] + 1)
        return await give_up(self, leaving)

    return wrong


def _reads_on_after_the_hand_over(give_up: Function) -> Function:
    async def wrong(self: Any, leaving: Any) -> bool:
        queues = [each.process_queue.queue for each in leaving]
        await self._store.persist(queues)
        await self._locks.release(queues)
        for queue in queues:
            del self._assigned[queue]
        return True

    return wrong


def _ignores_stored_progress(find: Function) -> Function:
    async def wrong(self: Any, queues: Any) -> Any:
        return dict.fromkeys(await find(self, queues), 0)

    return wrong


def _announces_its_first_subscriptions(data: Function) -> Function:
    first: dict[Any, Any] = {}

    def wrong(self: Any) -> Any:
        return first.setdefault(self, data(self))

    return wrong


def _skips_a_message_of_a_slave(pull: Function) -> Function:
    async def wrong(self: Any, asked: Any) -> Any:
        result = await pull(self, asked)
        has_master = self._routes.table.publish_address(asked.queue.broker_name) is not None
        if has_master or not result.messages:
            return result
        return attrs.evolve(result, messages=result.messages[1:])

    return wrong


BUGS = [
    GroupBug(
        "an offset is committed past a message that is being handled",
        (ProcessQueue, "_removed", _commits_what_is_in_flight),
        "lost",
        kind=Kind.MEMBERS,
        actions=("join", "crash", "crash"),
        seed=3,
        first_seed=2,
    ),
    GroupBug(
        "an orderly queue is taken without its lock",
        (GroupRequests, "lock", _takes_without_lock),
        "order",
        is_orderly=True,
    ),
    GroupBug(
        "an orderly queue is given up while its handler runs",
        (AssignedQueues, "_give_up", _gives_up_busy_queues),
        "order",
        is_orderly=True,
    ),
    GroupBug(
        "a lock is trusted when its broker may have restarted",
        (QueueLocks, "_is_in_doubt", _trusts_a_lock_over_a_restart),
        "order",
        is_orderly=True,
        kind=Kind.MEMBERS,
        actions=("restart and join", "restart and join", "restart and join"),
        seed=2,
        first_seed=3,
    ),
    GroupBug(
        "a member that leaves keeps its locks",
        (QueueLocks, "release", _keeps_its_locks),
        "late",
        is_orderly=True,
    ),
    GroupBug(
        "no member takes the last queue",
        (AllocateAveragely, "allocate", _forgets_the_last_queue),
        "owners",
    ),
    GroupBug(
        "a queue is kept that another member has",
        (AssignedQueues, "change", _keeps_what_is_not_its_own),
        "owners",
    ),
    GroupBug(
        "a rebalance ignores that a route has changed",
        (GroupKnowledge, "queues", _knows_the_first_queues_only),
        "owners",
        actions=("widen",),
    ),
    GroupBug(
        "a rebalance ignores that the members have changed",
        (GroupRequests, "member_ids", _knows_the_first_members_only),
        "owners",
    ),
    GroupBug(
        "an offset is not stored when its queue is handed over",
        (RemoteOffsetStore, "persist", _stores_nothing_at_the_hand_over),
        "again",
        is_orderly=True,
    ),
    GroupBug(
        "what is in flight is acknowledged when its queue is given up",
        (AssignedQueues, "_give_up", _acknowledges_what_it_gives_up),
        "lost",
        actions=("join", "leave"),
    ),
    GroupBug(
        "a reader goes on after its queue was handed over",
        (AssignedQueues, "_give_up", _reads_on_after_the_hand_over),
        "foreign",
    ),
    GroupBug(
        "a queue begins without its stored progress",
        (BeginOffsets, "find", _ignores_stored_progress),
        "again",
        is_orderly=True,
    ),
    GroupBug(
        "heartbeats name the subscriptions of the beginning",
        (ConsumerGroup, "_consumer_data", _announces_its_first_subscriptions),
        "lost",
        kind=Kind.MEMBERS,
        actions=("restart and join",),
        seed=2,
    ),
    GroupBug(
        "the first message of a slave's answer is dropped",
        (QueueRequests, "pull", _skips_a_message_of_a_slave),
        "lost",
        kind=Kind.FAULTS,
        actions=("stay away",),
        first_seed=1,
    ),
]
