"""Histories of a consumer group in a simulated cluster, each from a seed: members, brokers, network and routes change.

A producer sends numbered messages all the time, members handle them, and a few steps later everything is healed. Then
it is quiet, and must become as :mod:`property_tests.group_record` says.

::

    _start        a nameserver, broker-a (with a slave in FAULTS), broker-b, a producer, the first member
       |
    STEPS times   members     join, leave, crash, hang, subscribe, unsubscribe
       |          routes      widen, add broker, remove broker
       |          brokers     restart, restart and join, kill, lose power, stay away
       |          network     cut, cut one way, reset
    _heal         members with another strategy leave, all subscribe to both topics, the producer ends
       |
    _settle       until each queue has one member and every message was handled, and STABLE_SECONDS more
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from random import Random

import attrs
import trio

from property_tests.group_record import OTHER_TOPIC, TOPIC, Disturbance, History, Member
from rocketpy.client.client import open_admin_client, open_client, open_producer, open_pull_consumer
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.errors import RocketpyError
from rocketpy.protocol.allocation.averagely import AllocateAveragely, AllocateByCircle
from rocketpy.protocol.allocation.consistent_hash import AllocateConsistentHash
from rocketpy.protocol.allocation.strategy import AllocateMessageQueueStrategy
from rocketpy.protocol.bodies.heartbeat import ConsumeFromWhere
from rocketpy.protocol.message import Message, MessageQueue
from rocketpy.store.config import BrokerRole, FlushDiskType
from rocketpy.testing.cluster_world import ClusterWorld, environment_of, simulate
from rocketpy.testing.sim.host import SimHost, SimProcess
from rocketpy.testing.sim.network import Link

GROUP = "g"
STEPS = 8
MEMBERS_MAX = 4
BROKERS_MAX = 4
SETTLE_SECONDS = 260.0
"""More than a broker keeps the locks of a member that is gone, and than the longest pauses between two rebalances."""
STABLE_SECONDS = 25.0
"""More than the time between two rebalances."""

CONFIG = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, consume_message_batch_max_size=3)
STRATEGIES: list[AllocateMessageQueueStrategy] = [AllocateAveragely(), AllocateByCircle(), AllocateConsistentHash()]
ODD_SHARE = 0.15
"""How many of the members that join have another strategy than the group."""
QUICK = ClientConfig(mq_client_api_timeout=1000, poll_name_server_interval=10_000)


class Kind(Enum):
    """What changes in a history."""

    CLEAN = "members join and leave, topics get more queues, brokers are added"
    MEMBERS = "members also crash, hang, subscribe and divide queues as they like, brokers restart and leave"
    FAULTS = "a pair and a broker: kills, losses of power, a master that stays away, cut and broken connections"


ACTIONS = {
    Kind.CLEAN: ["join", "join", "leave", "leave", "widen", "add broker"],
    Kind.MEMBERS: [
        *["join", "join", "leave", "crash", "hang", "subscribe", "unsubscribe"],
        *["widen", "restart", "restart and join", "restart and join", "add broker", "remove broker"],
    ],
    Kind.FAULTS: ["kill", "lose power", "stay away", "stay away", "cut", "cut one way", "reset", "join", "leave"],
}


def history_of(
    seed: int,
    *,
    is_orderly: bool,
    kind: Kind,
    actions: Sequence[str] = (),
    settle_seconds: float = SETTLE_SECONDS,
) -> History:
    """Play a seed to its end: with random actions, or with these; the seed decides to whom they happen, and when."""
    history = History(is_orderly)
    strategy, randomness = STRATEGIES[seed % len(STRATEGIES)], Random(f"group {kind.name} {seed}")
    simulate(
        lambda world: _Play(history, world, kind, strategy, randomness).run(actions, settle_seconds),
        seed=seed,
    )
    return history


class _Play:
    """One history as it happens."""

    def __init__(
        self,
        history: History,
        world: ClusterWorld,
        kind: Kind,
        strategy: AllocateMessageQueueStrategy,
        randomness: Random,
    ) -> None:
        self.history = history
        self.world = world
        self.kind = kind
        self.strategy = strategy
        self.random = randomness
        self.queue_nums = 2
        self.host_of_producer: SimHost | None = None
        self._disagreement: Disturbance | None = None  # while a member has another strategy
        self._actions: dict[str, Callable[[], Awaitable[None]]] = {
            "join": self._join,
            "leave": partial(self._end_member, SimHost.stop),
            "crash": partial(self._end_member, SimHost.kill),
            "hang": self._hang,
            "subscribe": partial(self._subscribe, is_wanted=True),
            "unsubscribe": partial(self._subscribe, is_wanted=False),
            "widen": self._widen,
            "restart": partial(self._broker_down, SimHost.kill, [0.1, 5.0]),
            "restart and join": self._restart_and_join,
            "add broker": self._add_broker,
            "remove broker": self._remove_broker,
            "kill": partial(self._broker_down, SimHost.kill, [0.1, 5.0, 15.0]),
            "lose power": partial(self._broker_down, SimHost.lose_power, [0.1, 5.0, 15.0]),
            "stay away": self._stay_away,
            "cut": partial(self._cut, one_way=False),
            "cut one way": partial(self._cut, one_way=True),
            "reset": self._reset,
        }

    async def run(self, actions: Sequence[str], settle_seconds: float) -> None:
        """Play it."""
        await self._start()
        for number in range(len(actions) or STEPS):
            await trio.sleep(self.random.choice([0.1, 1.0, 3.0, 12.0]))
            action = actions[number] if actions else self.random.choice(ACTIONS[self.kind])
            self.history.note(action)
            await self._actions[action]()
        await self._heal()
        await trio.sleep(10)
        self.history.is_over = True
        await self._settle(settle_seconds)
        if self.kind is Kind.CLEAN:
            self.history.check_waits()
        for host in list(self.history.members):
            await host.stop()

    # ---- the cluster and its clients ------------------------------------------------------------------------------

    async def _start(self) -> None:
        await self.world.start_nameserver()
        await self._start_broker("broker-a", BrokerRole.SYNC_MASTER if self.kind is Kind.FAULTS else None)
        await self._start_broker("broker-b")
        if self.kind is Kind.FAULTS:
            slave = self.world.slave(
                self.world.brokers["broker-a"], store={"flush_disk_type": FlushDiskType.SYNC_FLUSH}
            )
            assert await slave.start()
            await trio.sleep(1)
        await self._widen()
        self.host_of_producer = await self.world.start_client(self._produce)
        for _ in range(2 if self.kind is Kind.FAULTS else 1):
            await self._join()

    async def _start_broker(self, name: str, role: BrokerRole | None = None) -> None:
        store: dict[str, object] = {}
        if self.kind is Kind.FAULTS:
            store = {"flush_disk_type": FlushDiskType.SYNC_FLUSH, "broker_role": role or BrokerRole.ASYNC_MASTER}
        assert await self.world.broker(name, store=store).start()

    async def _produce(self, process: SimProcess) -> None:
        async with open_producer(
            self.world.name_servers, config=QUICK, environment=environment_of(process)
        ) as producer:
            process.started()
            number = 0
            while not self.history.is_over:
                topic = OTHER_TOPIC if number % 4 == 3 else TOPIC
                with suppress(RocketpyError):
                    result = await producer.send(Message(topic, b"%d" % number))
                    self.history.sent[number] = (result.message_queue, trio.current_time())
                number += 1
                await trio.sleep(0.2)

    async def _consume(
        self,
        topics: list[str],
        strategy: AllocateMessageQueueStrategy,
        handlers_end_first: bool,
        host: SimHost,
        process: SimProcess,
    ) -> None:
        """Be a member until the process is to stop."""
        config = attrs.evolve(CONFIG, allocate_message_queue_strategy=strategy)
        async with (
            open_client(self.world.name_servers, config=QUICK, environment=environment_of(process)) as client,
            trio.open_nursery() as outer,
            client.consumer(GROUP, *topics, config=config) as consumer,
            trio.open_nursery() as inner,
        ):
            member = Member(host, consumer, is_odd=strategy is not self.strategy)
            run = consumer.run_orderly if self.history.is_orderly else consumer.run
            run_handlers = partial(run, partial(self.history.handle, member), tasks=3)
            (inner if handlers_end_first else outer).start_soon(run_handlers)
            self.history.members[host] = member
            process.started()
            await process.stop.wait()
            inner.cancel_scope.cancel()

    # ---- members --------------------------------------------------------------------------------------------------

    async def _join(self) -> None:
        if len(self.history.members) >= MEMBERS_MAX:
            return
        with_other = self.kind is not Kind.MEMBERS or self.random.random() < 0.6
        topics = [TOPIC, OTHER_TOPIC] if with_other else [TOPIC]
        strategy = self.strategy
        if self.kind is Kind.MEMBERS and self.random.random() < ODD_SHARE:
            strategy = self.random.choice([each for each in STRATEGIES if each is not self.strategy])
            self._disagreement = self._disagreement or self.history.disturb("change")
        host = self.world.host()
        self._changed()
        await host.start(partial(self._consume, topics, strategy, self.random.random() < 0.5, host))
        self.history.note(f"joined: {host.address} {topics} {strategy.name}")

    async def _end_member(self, end: Callable[[SimHost], Awaitable[None]]) -> None:
        may_be_empty = self.kind is Kind.MEMBERS
        member = self._any_member(at_least=1 if may_be_empty else 2)
        if member is None:
            return
        if end is SimHost.kill:
            self.history.disturb("member").ended_at = trio.current_time()
        self._changed()
        self.history.note(f"{member.host.address} ends")
        await end(member.host)
        del self.history.members[member.host]
        self._note_agreement()

    async def _hang(self) -> None:
        """Stop a process for a while, longer than its locks live or not; meanwhile nothing else happens to it."""
        member = self._any_member()
        if member is None:
            return
        disturbance = self.history.disturb("member")
        seconds = self.random.choice([5.0, 40.0, 90.0])
        self.history.note(f"{member.host.address} hangs for {seconds:g} s")
        self.history.hang(member)
        member.host.pause()
        await trio.sleep(seconds)
        member.host.resume()
        disturbance.ended_at = trio.current_time()

    async def _subscribe(self, *, is_wanted: bool) -> None:
        member = self._any_member()
        if member is None:
            return
        self._changed()
        if is_wanted:
            member.consumer.subscribe(OTHER_TOPIC)
        else:
            member.consumer.unsubscribe(OTHER_TOPIC)

    def _note_agreement(self) -> None:
        if self._disagreement is not None and not any(each.is_odd for each in self.history.members.values()):
            self._disagreement.ended_at = trio.current_time()
            self._disagreement = None

    def _any_member(self, *, at_least: int = 1) -> Member | None:
        members = list(self.history.members.values())
        return self.random.choice(members) if len(members) >= at_least else None

    def _changed(self) -> None:
        self.history.disturb("change").ended_at = trio.current_time()

    # ---- brokers and routes ---------------------------------------------------------------------------------------

    async def _widen(self) -> None:
        """Give the topics more queues, on every broker."""
        self._changed()
        self.queue_nums += 1
        await self.world.run_client(self._create_topics)

    async def _create_topics(self, process: SimProcess) -> None:
        async with open_admin_client(
            self.world.name_servers, config=QUICK, environment=environment_of(process)
        ) as admin:
            for topic, queue_nums in ((TOPIC, self.queue_nums), (OTHER_TOPIC, 1)):
                with suppress(RocketpyError):
                    await admin.create_topic(topic, queue_nums=queue_nums)

    async def _add_broker(self) -> None:
        if len(self.world.brokers) >= BROKERS_MAX:
            return
        await self._start_broker(f"broker-{chr(ord('a') + len(self.world.brokers))}")
        await self._widen()

    async def _remove_broker(self) -> None:
        """Stop a broker for good: its messages are gone with it."""
        if len(self.history.removed_brokers) == 0:
            self._changed()
            broker = self.world.brokers["broker-b"]
            self.history.removed_brokers.add(broker.name)
            await broker.host.stop()

    async def _broker_down(self, end: Callable[[SimHost], Awaitable[None]], seconds: list[float]) -> None:
        running = [name for name in sorted(self.world.brokers) if self.world.brokers[name].host.is_running]
        broker = self.world.brokers[self.random.choice(running)]
        pause_s = self.random.choice(seconds)
        self.history.note(f"{broker.address} down for {pause_s:g} s")
        disturbance = self.history.disturb("broker")
        await end(broker.host)
        await trio.sleep(pause_s)
        assert await broker.start(), broker.host.failure
        disturbance.ended_at = trio.current_time()
        if self.history.is_orderly:
            await trio.sleep(4)  # a member that joins meanwhile may get a queue whose holder is busy

    async def _restart_and_join(self) -> None:
        """Restart a broker, which forgets the locks, and start a member before the others would renew them."""
        await self._broker_down(SimHost.kill, [0.1])
        await trio.sleep(self.random.choice([0.0, 2.0]))
        await self._join()

    async def _stay_away(self) -> None:
        """Kill the master of the pair while members have fallen behind: they go on with its slave."""
        broker = self.world.brokers["broker-a"]
        members = list(self.history.members.values())
        for member in members:
            member.consumer.suspend()
        await trio.sleep(4)
        for member in members:
            member.consumer.resume()
        disturbance = self.history.disturb("broker")
        await broker.host.kill()
        await trio.sleep(45)
        assert await broker.start(), broker.host.failure
        disturbance.ended_at = trio.current_time()
        if self.history.is_orderly:
            await trio.sleep(4)

    # ---- the network ----------------------------------------------------------------------------------------------

    async def _cut(self, *, one_way: bool) -> None:
        """Cut a member, or the producer, off from a broker for a while."""
        client, broker = self._ends()
        ends = (client, broker) if not one_way or self.random.random() < 0.5 else (broker, client)
        disturbance = self.history.disturb("broker")
        self.world.network.cut(*ends, one_way=one_way)
        await trio.sleep(self.random.choice([2.0, 12.0, 35.0]))
        self.world.network.heal(*ends)
        disturbance.ended_at = trio.current_time()

    async def _reset(self) -> None:
        """Break the connections of a client with a broker, and slow them down for the next seconds."""
        client, broker = self._ends()
        disturbance = self.history.disturb("member")
        self.world.network.reset(client, broker)
        self.world.network.set_link(client, broker, Link(delay_s=0.2, jitter_s=0.2))
        await trio.sleep(3)
        self.world.network.set_link(client, broker, Link())
        disturbance.ended_at = trio.current_time()

    def _ends(self) -> tuple[str, str]:
        assert self.host_of_producer is not None
        client = self.random.choice([self.host_of_producer, *self.history.members]).address
        return client, self.random.choice(list(self.world.brokers.values())).host.address

    # ---- the end --------------------------------------------------------------------------------------------------

    async def _heal(self) -> None:
        for host, member in list(self.history.members.items()):
            if member.is_odd:
                await host.stop()
                del self.history.members[host]
        self._note_agreement()
        if not self.history.members:
            await self._join()
        self._changed()
        for member in self.history.members.values():
            member.consumer.subscribe(OTHER_TOPIC)

    async def _settle(self, seconds: float) -> None:
        """Wait until all is as it must be, and still is after another rebalance; or for as long as that may take."""
        deadline = trio.current_time() + seconds
        queues = await self.world.run_client(self._queues)
        missing = self.history.still_missing(queues)
        while missing and trio.current_time() < deadline:
            await trio.sleep(2)
            missing = self.history.still_missing(queues)
        self.history.note("settled")
        await trio.sleep(STABLE_SECONDS)
        self.history.broken += missing or self.history.still_missing(queues)

    async def _queues(self, process: SimProcess) -> set[MessageQueue]:
        """Return what a member that starts now would find."""
        async with open_pull_consumer(
            self.world.name_servers, group="other", environment=environment_of(process)
        ) as consumer:
            return {queue for topic in (TOPIC, OTHER_TOPIC) for queue in await consumer.queues(topic)}
