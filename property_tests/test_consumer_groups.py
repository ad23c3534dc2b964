"""Members of a consumer group in a simulated cluster: joins, leaves, crashes, restarts of brokers, new queues.

A seed is a history. Once it is quiet, each queue has exactly one owner, and every message whose send was acknowledged
has been handled. An orderly group also handles one batch of a queue at a time, and no message before all earlier ones
of its queue. The planted bugs show that a broken promise would be found.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import attrs
import pytest
import trio

from property_tests.hunts import Function, planted
from rocketpy.client.client import open_admin_client, open_client, open_producer, open_pull_consumer
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.consumer import Consumer
from rocketpy.client.consumer.group.assigned_queues import AssignedQueues
from rocketpy.client.consumer.group.queue_locks import QueueLocks
from rocketpy.client.consumer.group.requests import GroupRequests
from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.errors import RocketpyError
from rocketpy.protocol.allocation.averagely import AllocateAveragely
from rocketpy.protocol.bodies.heartbeat import ConsumeFromWhere
from rocketpy.protocol.message import Message, MessageQueue
from rocketpy.testing.cluster_world import ClusterWorld, environment_of, simulate
from rocketpy.testing.sim.host import SimHost, SimProcess

TIER = os.environ.get("ROCKETPY_TIER", "dev")
HISTORIES = {"dev": 6, "ci": 60, "deep": 2_000}[TIER]
SEEDS_FOR_BUGS = range(14)

TOPIC, GROUP = "T", "g"
STEPS = 8
MEMBERS_MAX = 4
QUIET_SECONDS = 200.0
"""Longer than a broker keeps the lock of a member that has crashed, and the longest pause between two rebalances."""

CONFIG = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, consume_message_batch_max_size=3)
QUICK = ClientConfig(mq_client_api_timeout=1000)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Switch off what the programs log."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@attrs.define(eq=False)
class History:
    """What has happened, and which promises it broke."""

    is_orderly: bool
    sent: set[int] = attrs.field(factory=set)
    handled: set[int] = attrs.field(factory=set)
    members: dict[SimHost, Consumer] = attrs.field(factory=dict)
    busy: Counter[MessageQueue] = attrs.field(factory=Counter)
    next_offsets: Counter[MessageQueue] = attrs.field(factory=Counter)
    broken: list[str] = attrs.field(factory=list)
    queue_nums: int = 2
    is_over: bool = False

    async def handle(self, batch: MessageBatch) -> None:
        """The handler of every member."""
        queue = batch.queue
        self.busy[queue] += 1
        try:
            if self.is_orderly and self.busy[queue] > 1:
                self.broken.append(f"order: two handlers of {queue} at once")
            if self.is_orderly and batch.messages[0].queue_offset > self.next_offsets[queue]:
                first = batch.messages[0].queue_offset
                self.broken.append(f"order: {first} of {queue} comes before {self.next_offsets[queue]}")
            # From time to time a handler takes longer than a rebalance waits.
            await trio.sleep(4.0 if batch.messages[0].queue_offset % 40 == 7 else 0.05)
            self.handled.update(int(each.body) for each in batch)
            last = batch.messages[-1].queue_offset + 1
            self.next_offsets[queue] = max(self.next_offsets[queue], last)
        finally:
            self.busy[queue] -= 1

    def check(self, queues: set[MessageQueue]) -> None:
        """Check what must hold once everything is quiet."""
        owners = Counter(queue for each in self.members.values() for queue in each.assigned if queue.topic == TOPIC)
        if owners != Counter(queues):
            self.broken.append(f"owners: {dict(owners)} of {sorted(queues)}")
        if lost := self.sent - self.handled:
            self.broken.append(f"lost: {sorted(lost)}")


async def consume(history: History, world: ClusterWorld, process: SimProcess, host: SimHost) -> None:
    """A member of the group, until its process is told to stop."""
    async with (
        open_client(world.name_servers, config=QUICK, environment=environment_of(process)) as client,
        client.consumer(GROUP, TOPIC, config=CONFIG) as consumer,
        trio.open_nursery() as nursery,
    ):
        run = consumer.run_orderly if history.is_orderly else consumer.run
        nursery.start_soon(run, history.handle)
        history.members[host] = consumer
        process.started()
        await process.stop.wait()
        nursery.cancel_scope.cancel()


async def produce(history: History, world: ClusterWorld, process: SimProcess) -> None:
    """Send numbered messages until the history is over."""
    async with open_producer(world.name_servers, config=QUICK, environment=environment_of(process)) as producer:
        process.started()
        number = 0
        while not history.is_over:
            with suppress(RocketpyError):
                await producer.send(Message(TOPIC, b"%d" % number))
                history.sent.add(number)
            number += 1
            await trio.sleep(0.2)


async def play(history: History, world: ClusterWorld, randomness: Random) -> None:
    """Everything that happens."""
    await world.start_nameserver()
    for name in ("broker-a", "broker-b"):
        assert await world.broker(name).start()
    await world.start_client(lambda process: produce(history, world, process))
    await trio.sleep(2)
    await join(history, world)
    for _ in range(STEPS):
        await trio.sleep(randomness.choice([0.1, 1.0, 3.0, 25.0]))
        await step(history, world, randomness)
    if not history.members:
        await join(history, world)
    await trio.sleep(30)
    history.is_over = True
    await trio.sleep(QUIET_SECONDS)
    history.check(await world.run_client(lambda process: queues_of_topic(world, process)))
    for host in list(history.members):
        await host.stop()


async def queues_of_topic(world: ClusterWorld, process: SimProcess) -> set[MessageQueue]:
    """Return what a member that starts now would find."""
    async with open_pull_consumer(world.name_servers, group="other", environment=environment_of(process)) as consumer:
        return set(await consumer.queues(TOPIC))


async def widen(world: ClusterWorld, process: SimProcess, queue_nums: int) -> None:
    """Give the topic more queues."""
    async with open_admin_client(world.name_servers, config=QUICK, environment=environment_of(process)) as admin:
        with suppress(RocketpyError):
            await admin.create_topic(TOPIC, queue_nums=queue_nums)


async def step(history: History, world: ClusterWorld, randomness: Random) -> None:
    """One thing that changes the group or the cluster."""
    hosts = list(history.members)
    action = randomness.choice(["join", "join", "leave", "crash", "widen", "restart", "restart"])
    if action == "join" and len(hosts) < MEMBERS_MAX:
        await join(history, world)
    elif action == "leave" and hosts:
        host = randomness.choice(hosts)
        await host.stop()
        del history.members[host]
    elif action == "crash" and hosts:
        host = randomness.choice(hosts)
        await host.kill()
        del history.members[host]
    elif action == "widen":
        history.queue_nums += 1
        queue_nums = history.queue_nums
        await world.run_client(lambda process: widen(world, process, queue_nums))
    elif action == "restart":
        broker = world.brokers[randomness.choice(sorted(world.brokers))]
        await broker.host.kill()
        await trio.sleep(randomness.choice([0.1, 5.0]))
        assert await broker.start()


async def join(history: History, world: ClusterWorld) -> None:
    """Start one more member."""
    host = world.host()
    await host.start(lambda process: consume(history, world, process, host))


def history_of(seed: int, *, is_orderly: bool) -> History:
    """Play a seed to its end."""
    history = History(is_orderly)
    randomness = Random(f"group {seed}")
    simulate(lambda world: play(history, world, randomness), seed=seed)
    return history


@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.parametrize("is_orderly", [False, True])
def test_every_promise_holds_in_every_history(seed: int, is_orderly: bool) -> None:
    history = history_of(seed, is_orderly=is_orderly)
    assert history.broken == []
    assert len(history.sent) > 100


# ---- planted bugs ---------------------------------------------------------------------------------------------------


def _found(*, is_orderly: bool) -> list[str]:
    """Return the first promises that the bug of the moment breaks."""
    for seed in SEEDS_FOR_BUGS:
        broken = history_of(seed, is_orderly=is_orderly).broken
        if broken:
            return broken
    return []


def _commits_what_is_in_flight(removed: Function) -> Function:
    """The offset after the highest message is committed, whatever is still being handled."""

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


def _forgets_the_last_queue(allocate: Function) -> Function:
    def wrong(self: Any, group: str, client_id: str, queues: Any, client_ids: Any) -> Any:
        share = allocate(self, group, client_id, queues, client_ids)
        return share[:-1] if len(client_ids) > 1 else share

    return wrong


def _keeps_what_is_not_its_own(change: Function) -> Function:
    async def wrong(self: Any, dropped: Any, added: Any) -> Any:
        return await change(self, [], added)

    return wrong


BUGS = {
    "an offset is committed past a message that is being handled": (
        (ProcessQueue, "_removed", _commits_what_is_in_flight),
        False,
        "lost",
    ),
    "an orderly queue is taken without its lock": ((GroupRequests, "lock", _takes_without_lock), True, "order"),
    "an orderly queue is unlocked while its handler runs": (
        (AssignedQueues, "_give_up", _gives_up_busy_queues),
        True,
        "order",
    ),
    "a lock is trusted when its broker may have restarted": (
        (QueueLocks, "_is_in_doubt", _trusts_a_lock_over_a_restart),
        True,
        "order",
    ),
    "nobody takes the last queue": ((AllocateAveragely, "allocate", _forgets_the_last_queue), False, "owners"),
    "a queue is kept that another member has": (
        (AssignedQueues, "change", _keeps_what_is_not_its_own),
        False,
        "owners",
    ),
}


@pytest.mark.parametrize("what", BUGS)
def test_a_planted_bug_is_found(what: str) -> None:
    change, is_orderly, kind = BUGS[what]
    with planted(*change):
        broken = _found(is_orderly=is_orderly)
    assert any(each.startswith(kind) for each in broken), broken
