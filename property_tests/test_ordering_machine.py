"""Consuming in order: queues are locked by members of a group, who come, go, fall silent and crash.

The model is a table of two columns for each queue: which consumer got its lock last, and when; and how far its messages
were consumed. Consumers do as Java's do: one consumes only queues that it locked, begins at the broker's offset, and
commits its offset before it goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from property_tests.group_clients import (
    LOCK_SECONDS,
    commit,
    lock,
    make_world,
    pull,
    pulled,
    query_offset,
    send,
    unlock,
)
from property_tests.hunts import Bug, Function, MachineTests, PromiseBroken
from rocketpy.broker.clients.queue_locks import RebalanceLockManager
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager
from rocketpy.protocol.codes import ResponseCode
from rocketpy.testing.broker_world import BrokerWorld, Client

QUEUES = range(3)
clients = st.sampled_from(["a", "b", "c"])
queue_sets = st.sets(st.sampled_from(list(QUEUES)), min_size=1)


class Promise(Enum):
    """What holds of ordered consumption."""

    ONE_HOLDER = "at most one client holds a queue"
    FREE_AGAIN = "a queue that is free, given back or not renewed in time can be held by who asks"
    IN_ORDER = "the messages of a queue are consumed in order, each of them"
    ONCE = "a message is consumed again only if a client died before it was noted"


@attrs.define(eq=False)
class Queue:
    """What the model knows of one queue. Offsets that a crash may take back are in ``repeats_from`` too."""

    holder: str | None = None
    renewed: float = 0.0
    sent: list[bytes] = attrs.field(factory=list)
    consumed: int = 0  # messages that some client has consumed
    repeats_from: int | None = None  # the first that may come again


class OrderingMachine(RuleBasedStateMachine):
    """One group and its queues."""

    def __init__(self) -> None:
        super().__init__()
        self.world: BrokerWorld = make_world(queue_nums=len(QUEUES))
        self.queues = {queue_id: Queue() for queue_id in QUEUES}
        self.clients: dict[str, Client] = {}
        self.count = 0

    def teardown(self) -> None:
        self.world.life.kill()

    @initialize()
    def first_start(self) -> None:
        self.start()

    def start(self) -> None:
        self.world.begin()
        self.world.pass_time(0)
        self.clients = {name: self.world.connect() for name in "abc"}

    @property
    def now(self) -> float:
        return self.world.life.clock.timestamp_ms() / 1000

    # ---- what happens ---------------------------------------------------------------------------------------------

    @rule(name=clients, queue_ids=queue_sets)
    def ask_for(self, name: str, queue_ids: set[int]) -> None:
        held = lock(self.clients[name], name, queue_ids)
        for queue_id in queue_ids:
            queue = self.queues[queue_id]
            is_free = queue.holder in (None, name) or self.now - queue.renewed > LOCK_SECONDS
            if queue_id in held and not is_free:
                raise PromiseBroken(Promise.ONE_HOLDER, f"{name} and {queue.holder} both got the lock of {queue_id}")
            if queue_id not in held and is_free:
                raise PromiseBroken(Promise.FREE_AGAIN, f"{name} does not get {queue_id}, held by {queue.holder}")
            if queue_id in held:
                queue.holder, queue.renewed = name, self.now
        assert held <= queue_ids

    @rule(name=clients, queue_ids=queue_sets)
    def give_back(self, name: str, queue_ids: set[int]) -> None:
        unlock(self.clients[name], name, queue_ids)
        for queue_id in queue_ids:
            if self.queues[queue_id].holder == name:
                self.queues[queue_id].holder = None

    @rule(queue_id=st.sampled_from(list(QUEUES)), count=st.sampled_from([1, 3, 8]))
    def messages_come(self, queue_id: int, count: int) -> None:
        client = self.world.connect()
        for _ in range(count):
            self.count += 1
            body = b"%d" % self.count
            answer = client.ask(send(body, queue_id=queue_id, queue_nums=len(QUEUES)))
            assert answer is not None
            assert answer.code == ResponseCode.SUCCESS, answer
            self.queues[queue_id].sent.append(body)

    @rule(name=clients, count=st.sampled_from([1, 3, 5]), dies=st.sampled_from([False, False, False, True]))
    def consume(self, name: str, count: int, dies: bool = False) -> None:
        """A client consumes what it holds; it may die before it says so, and then it is unknown."""
        self.ask_for(name, set(QUEUES))
        client = self.clients[name]
        for queue_id, queue in self.queues.items():
            if queue.holder != name or self.now - queue.renewed > LOCK_SECONDS:
                continue
            begin = query_offset(client, queue_id=queue_id)
            messages = pulled(client.ask(pull(begin, queue_id=queue_id, count=count)))
            for message in messages:
                self.consumed(queue, message.queue_offset, message.body)
            if messages and dies:
                queue.repeats_from = begin if queue.repeats_from is None else min(queue.repeats_from, begin)
            elif messages:
                client.ask(commit(begin + len(messages), queue_id=queue_id))
                if begin + len(messages) == queue.consumed:
                    queue.repeats_from = None
        if dies:
            client.close()
            self.clients[name] = self.world.connect()

    @rule(seconds=st.sampled_from([1, 20, 45, 61]))
    def time_passes(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule(orderly=st.sampled_from([None, None, True, False]))
    def broker_restarts(self, orderly: bool | None) -> None:
        """Locks are in memory only; offsets may be a little old after a crash."""
        if orderly is None:
            return
        if orderly:
            self.world.stop()
        else:
            self.world.kill()
        for queue in self.queues.values():
            queue.holder = None
            if not orderly:
                queue.repeats_from = 0
        self.start()

    # ---- the model ------------------------------------------------------------------------------------------------

    def consumed(self, queue: Queue, queue_offset: int, body: bytes) -> None:
        if body != queue.sent[queue_offset]:
            raise PromiseBroken(Promise.IN_ORDER, f"{body!r} came for {queue.sent[queue_offset]!r}")
        if queue_offset > queue.consumed:
            raise PromiseBroken(Promise.IN_ORDER, f"{queue_offset} was consumed after {queue.consumed - 1}")
        if queue_offset < queue.consumed and (queue.repeats_from is None or queue_offset < queue.repeats_from):
            raise PromiseBroken(Promise.ONCE, f"{queue_offset} was consumed again")
        queue.consumed = max(queue.consumed, queue_offset + 1)


TestOrdering = OrderingMachine.TestCase
TestOrdering.settings = settings(max_examples=max(15, settings.default.max_examples // 4))


# ---- deliberate bugs ------------------------------------------------------------------------------------------------


def _gives_to_every_client(try_lock: Function) -> Function:
    def given(self: Any, group: str, queues: Any, client_id: str) -> Any:
        try_lock(self, group, queues, client_id)
        return list(queues)

    return given


def _never_expires(try_lock: Function) -> Function:
    def kept(self: Any, group: str, queues: Any, client_id: str) -> Any:
        now = self._current_time()
        for lock_of in self._locks.get(group, {}).values():
            lock_of.renewed = now
        return try_lock(self, group, queues, client_id)

    return kept


def _any_client_unlocks(unlock_batch: Function) -> Function:
    def unlocked(self: Any, group: str, queues: Any, client_id: str) -> None:
        for queue in queues:
            self._locks.get(group, {}).pop(queue, None)

    return unlocked


def _one_too_far(commit_offset: Function) -> Function:
    def committed(self: Any, peer: str, group: str, topic: str, queue_id: int, consumer_offset: int) -> None:
        commit_offset(self, peer, group, topic, queue_id, consumer_offset + (consumer_offset > 3))

    return committed


def _forgets_commits(commit_offset: Function) -> Function:
    def committed(self: Any, peer: str, group: str, topic: str, queue_id: int, consumer_offset: int) -> None:
        if consumer_offset % 4:
            commit_offset(self, peer, group, topic, queue_id, consumer_offset)

    return committed


# ---- scripts that lead there: the right code passes them, the wrong one does not ------------------------------------


def two_clients_that_want_the_same_queue(state: OrderingMachine) -> None:
    state.first_start()
    state.ask_for("a", {0, 1})
    state.ask_for("b", {1, 2})


def a_client_that_falls_silent(state: OrderingMachine) -> None:
    state.first_start()
    state.ask_for("a", {0})
    state.time_passes(seconds=61)
    state.ask_for("b", {0})


def a_client_that_gives_back_what_another_one_holds(state: OrderingMachine) -> None:
    state.first_start()
    state.ask_for("a", {0})
    state.give_back("b", {0})
    state.ask_for("b", {0})


def a_queue_that_is_consumed_bit_by_bit(state: OrderingMachine) -> None:
    state.first_start()
    state.messages_come(queue_id=0, count=8)
    state.consume("a", count=3)
    state.consume("a", count=1)
    state.consume("a", count=3)


PLANTED: Mapping[str, Bug] = {
    "every client gets it": Bug(
        RebalanceLockManager,
        "try_lock_batch",
        _gives_to_every_client,
        (Promise.ONE_HOLDER,),
        two_clients_that_want_the_same_queue,
    ),
    "no lock expires": Bug(
        RebalanceLockManager, "try_lock_batch", _never_expires, (Promise.FREE_AGAIN,), a_client_that_falls_silent
    ),
    "any client unlocks": Bug(
        RebalanceLockManager,
        "unlock_batch",
        _any_client_unlocks,
        (Promise.ONE_HOLDER,),
        a_client_that_gives_back_what_another_one_holds,
    ),
    "a message is skipped": Bug(
        ConsumerOffsetManager,
        "commit_offset",
        _one_too_far,
        (Promise.IN_ORDER,),
        a_queue_that_is_consumed_bit_by_bit,
        is_common=False,
    ),
    "a commit is forgotten": Bug(
        ConsumerOffsetManager,
        "commit_offset",
        _forgets_commits,
        (Promise.ONCE,),
        a_queue_that_is_consumed_bit_by_bit,
        is_common=False,
    ),
}


class TestScripts(MachineTests):
    machine, bugs = OrderingMachine, PLANTED
    hunt_steps = 40
