"""Histories of a whole cluster: a plan is carried out, and everything that clients were told is written down.

Producers send numbered messages one after the other; each number is in the body. Consumers read one topic as groups of
their own and note what they get. The nemesis carries out the faults of the plan. Then everything is healed, producers
and consumers have time to come to an end, and a client that comes last reads all queues from their beginning.
What must hold is in ``cluster_checker.py``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import attrs
import trio

from property_tests.cluster_plan import CONSUMERS, PRODUCERS, Operation, Plan
from rocketpy.client.admin import open_admin_client
from rocketpy.client.producer import Producer, open_producer
from rocketpy.client.pull_consumer import PullConsumer, open_pull_consumer
from rocketpy.client.results import SendStatus
from rocketpy.errors import RocketpyError
from rocketpy.protocol.message import Message, MessageExt
from rocketpy.store.config import FlushDiskType
from rocketpy.testing.cluster_world import ClusterWorld, SimBroker, SimNameserver, environment_of, simulate
from rocketpy.testing.sim_host import SimHost, SimProcess
from rocketpy.testing.sim_network import Link

TOPIC = "T"
QUEUES_OF_BROKER = 2
RESTART_SECONDS = 1.0
HEALING_SECONDS = 100.0
"""Brokers register every 30 s, and clients look for them every 30 s."""
COMMIT_EVERY = 5

Queue = tuple[str, int]
"""Name of a broker, id of a queue."""


@attrs.define
class Sent:
    """One message, and what its producer was told."""

    number: int
    producer: str
    asked_at: float
    answered_at: float | None = None
    status: SendStatus | None = None
    queue: Queue | None = None
    queue_offset: int = -1
    failure: str = ""

    def __str__(self) -> str:
        if self.status is None:
            return f"{self.producer} sent #{self.number}: {self.failure or 'no answer'}"
        return f"{self.producer} sent #{self.number}: {self.status.name}, {_place(self.queue, self.queue_offset)}"


@attrs.frozen
class Got:
    """One message as a client got it."""

    queue: Queue
    queue_offset: int
    number: int
    body: bytes

    def __str__(self) -> str:
        return f"#{self.number} of {_place(self.queue, self.queue_offset)}"


@attrs.define
class History:
    """What happened."""

    plan: Plan
    sent: list[Sent] = attrs.Factory(list)
    got: dict[str, list[list[Got]]] = attrs.Factory(dict)
    """Of each group the lives of its consumer, and in each of them what it got, in order."""
    final: dict[Queue, list[Got]] = attrs.Factory(dict)
    """What the queues held in the end."""
    events: list[str] = attrs.Factory(list)
    tail_losses: list[tuple[float, str]] = attrs.Factory(list)
    """When a broker lost power, or a sync of it failed."""
    is_healed: bool = False
    """Whether after the faults every producer reached every broker, and every group got messages of every queue."""
    trace_hash: str = ""

    def note(self, text: str) -> None:
        """Write down an event of this moment."""
        self.events.append(f"{trio.current_time():7.3f}  {text}")

    def text(self, broken: list[str]) -> str:
        """Return the history for a person to read, with what is broken at its end."""
        return "\n".join(["", str(self.plan).splitlines()[0], *self.events, "broken:", *broken])


def run_history(plan: Plan) -> History:
    """Carry out a plan."""
    history = History(plan)
    history.trace_hash = simulate(partial(_scene, history), seed=plan.seed).trace_hash
    return history


async def _scene(history: History, world: ClusterWorld) -> None:
    cluster = Cluster(world, history)
    await cluster.start()
    async with trio.open_nursery() as nursery:
        await cluster.start_clients()
        nursery.start_soon(cluster.carry_out, nursery)
        for broker in cluster.brokers.values():
            nursery.start_soon(cluster.keep_running, broker)
        await trio.sleep_until(cluster.began_at + history.plan.seconds)
        await cluster.heal()
        nursery.cancel_scope.cancel()


class Cluster:
    """The hosts of one history, its clients, and the nemesis."""

    def __init__(self, world: ClusterWorld, history: History) -> None:
        self.world = world
        self.history = history
        self.brokers: dict[str, SimBroker] = {}
        self.nameservers: dict[str, SimNameserver] = {}
        self.hosts: dict[str, SimHost] = {}
        self.began_at = 0.0
        self._held: set[str] = set()  # brokers that the nemesis keeps down
        self._orders: dict[str, trio.MemorySendChannel[tuple[Sent, int]]] = {}
        self._faults: dict[str, Callable[[Operation], Awaitable[None]]] = {
            "kill": partial(self._down, end=SimHost.kill),
            "stop": partial(self._down, end=SimHost.stop),
            "lose power": self._lose_power,
            "pause": self._pause,
            "fail sync": self._fail_sync,
            "fill disk": self._fill_disk,
            "slow disk": self._slow_disk,
            "step clock": self._step_clock,
            "run clock": self._run_clock,
            "kill nameserver": self._kill_nameserver,
            "restart consumer": self._restart_consumer,
            "cut": self._cut,
            "cut one way": partial(self._cut, one_way=True),
            "reset": self._reset,
            "slow link": self._slow_link,
        }

    # ---- the cluster and its clients ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start nameservers and brokers, and create the topic."""
        for number in range(2):
            nameserver = await self.world.start_nameserver()
            self.nameservers[f"nameserver-{number}"] = nameserver
            self.hosts[f"nameserver-{number}"] = nameserver.host
        flush = FlushDiskType.SYNC_FLUSH if self.history.plan.is_sync_flush else FlushDiskType.ASYNC_FLUSH
        for name in self.history.plan.brokers:
            store = {"flush_disk_type": flush, "clean_file_forcibly_enable": False}
            broker = self.brokers[name] = self.world.broker(name, store=store)
            self.hosts[name] = broker.host
            broker.host.disk_delay_s = self.history.plan.disk_delay_s
            assert await broker.start(), broker.host.failure
        await self.world.run_client(self._create_topic)

    async def start_clients(self) -> None:
        """Start producers and consumers."""
        for number in range(PRODUCERS):
            name = f"producer-{number}"
            self._orders[name], orders = trio.open_memory_channel[tuple[Sent, int]](len(self.history.plan.operations))
            self.hosts[name] = await self.world.start_client(partial(self._produce, name, orders))
        for number in range(CONSUMERS):
            name = f"consumer-{number}"
            self.history.got[name] = []
            self.hosts[name] = await self.world.start_client(partial(self._consume, name))
        self.began_at = trio.current_time()

    async def _create_topic(self, process: SimProcess) -> None:
        async with open_admin_client(self.world.name_servers, environment=environment_of(process)) as admin:
            await admin.create_topic(TOPIC, queue_nums=QUEUES_OF_BROKER)

    async def _produce(
        self, name: str, orders: trio.MemoryReceiveChannel[tuple[Sent, int]], process: SimProcess
    ) -> None:
        async with open_producer(self.world.name_servers, environment=environment_of(process)) as producer:
            process.started()
            async for sent, size in orders:
                await self._send(producer, sent, size)

    async def _send(self, producer: Producer, sent: Sent, size: int) -> None:
        sent.asked_at = trio.current_time()
        try:
            result = await producer.send(Message(TOPIC, b"%d " % sent.number + b"x" * size))
        except RocketpyError as failure:
            sent.failure = f"{type(failure).__name__}: {failure}"
        else:
            sent.status = result.status
            sent.queue = (result.message_queue.broker_name, result.message_queue.queue_id)
            sent.queue_offset = result.queue_offset
        sent.answered_at = trio.current_time()
        self.history.note(str(sent))

    async def _consume(self, name: str, process: SimProcess) -> None:
        environment = environment_of(process)
        process.started()
        while True:
            life: list[Got] = []
            self.history.got[name].append(life)
            try:
                async with (
                    open_pull_consumer(self.world.name_servers, group=name, environment=environment) as consumer,
                    consumer.open_messages(TOPIC) as messages,
                ):
                    async for message in messages:
                        life.append(_got(message))
                        if len(life) % COMMIT_EVERY == 0:
                            await messages.commit()
            except RocketpyError as failure:
                self.history.note(f"{name}: {type(failure).__name__}: {failure}")
                await trio.sleep(RESTART_SECONDS)

    async def keep_running(self, broker: SimBroker) -> None:
        """Start a broker again that has ended by itself, as an operator's supervisor does."""
        while True:
            await broker.host.wait_ended()
            await trio.sleep(RESTART_SECONDS)
            if not broker.host.is_running and broker.name not in self._held:
                self.history.note(f"{broker.name} has ended: {broker.host.failure}")
                await self._start(broker)

    async def heal(self) -> None:
        """Wait until all works again, or for as long as that may take; then read everything."""
        self.history.note("healed")
        goal = len(self.history.sent)
        deadline = trio.current_time() + HEALING_SECONDS
        while trio.current_time() < deadline and not self.history.is_healed:
            for name in self._orders:
                self._order(name, 1)
            await trio.sleep(2)
            self.history.is_healed = self._is_healed(self.history.sent[goal:])
        for orders in self._orders.values():
            orders.close()
        await trio.sleep(5)
        await self.world.run_client(self._read_all)

    def _is_healed(self, sent: list[Sent]) -> bool:
        """Whether every producer reaches every broker, and every group gets what comes to any queue."""
        reached = {(each.producer, each.queue[0]) for each in sent if each.queue}
        queues = {each.queue for each in sent if each.queue}
        newest = {each.number for each in sent}
        read = [
            {got.queue for life in lives for got in life if got.number in newest} for lives in self.history.got.values()
        ]
        return (
            len(reached) == PRODUCERS * len(self.brokers)
            and len(queues) == QUEUES_OF_BROKER * len(self.brokers)
            and all(each == queues for each in read)
        )

    async def _read_all(self, process: SimProcess) -> None:
        environment = environment_of(process)
        async with open_pull_consumer(self.world.name_servers, group="last", environment=environment) as consumer:
            deadline = trio.current_time() + HEALING_SECONDS
            while not await self._knows_all_queues(consumer) and trio.current_time() < deadline:
                await trio.sleep(1)
            try:
                async with consumer.open_messages(TOPIC, start="beginning", until_end=True) as messages:
                    async for message in messages:
                        got = _got(message)
                        self.history.final.setdefault(got.queue, []).append(got)
            except RocketpyError as failure:
                self.history.note(f"reading everything: {type(failure).__name__}: {failure}")

    async def _knows_all_queues(self, consumer: PullConsumer) -> bool:
        """Whether the chosen nameserver has heard of every broker since it began."""
        try:
            return len(await consumer.queues(TOPIC)) == QUEUES_OF_BROKER * len(self.brokers)
        except RocketpyError:
            return False

    # ---- operations -----------------------------------------------------------------------------------------------

    async def carry_out(self, nursery: trio.Nursery) -> None:
        """Begin each operation of the plan in its time."""
        for operation in self.history.plan.operations:
            await trio.sleep_until(self.began_at + operation.at_s)
            if operation.kind == "send":
                self._order(operation.target, int(operation.value))
            else:
                self.history.note(f"    {operation.kind} {operation.target} {operation.value:g} {operation.seconds:g}s")
                nursery.start_soon(self._faults[operation.kind], operation)

    def _order(self, producer: str, size: int) -> None:
        sent = Sent(len(self.history.sent), producer, trio.current_time())
        self.history.sent.append(sent)
        self._orders[producer].send_nowait((sent, size))

    async def _start(self, broker: SimBroker) -> None:
        started = await broker.start()
        self.history.note(f"    {broker.name} " + ("serves" if started else f"does not start: {broker.host.failure}"))

    async def _down(self, operation: Operation, *, end: Callable[[SimHost], Awaitable[None]]) -> None:
        broker = self.brokers[operation.target]
        if not broker.host.is_running or broker.name in self._held:
            return
        self._held.add(broker.name)
        await end(broker.host)
        await trio.sleep(operation.seconds)
        self._held.discard(broker.name)
        await self._start(broker)

    async def _lose_power(self, operation: Operation) -> None:
        self.history.tail_losses.append((trio.current_time(), operation.target))
        await self._down(operation, end=SimHost.lose_power)

    async def _pause(self, operation: Operation) -> None:
        host = self.hosts[operation.target]
        if host.is_running:
            host.pause()
            await trio.sleep(operation.seconds)
            host.resume()

    async def _fail_sync(self, operation: Operation) -> None:
        if self.brokers[operation.target].host.is_running:
            self.history.tail_losses.append((trio.current_time(), operation.target))
            self.hosts[operation.target].disk.fail_call("sync")

    async def _fill_disk(self, operation: Operation) -> None:
        disk = self.hosts[operation.target].disk
        unlimited, disk.capacity_bytes = disk.capacity_bytes, disk.used_bytes("/") + int(operation.value)
        await trio.sleep(operation.seconds)
        disk.capacity_bytes = max(unlimited, disk.capacity_bytes)

    async def _slow_disk(self, operation: Operation) -> None:
        host = self.hosts[operation.target]
        host.disk_delay_s = operation.value
        await trio.sleep(operation.seconds)
        host.disk_delay_s = self.history.plan.disk_delay_s

    async def _step_clock(self, operation: Operation) -> None:
        self.hosts[operation.target].clock.advance_ms(int(operation.value))

    async def _run_clock(self, operation: Operation) -> None:
        clock = self.hosts[operation.target].clock
        clock.set_rate(operation.value)
        await trio.sleep(operation.seconds)
        clock.set_rate(1.0)

    async def _kill_nameserver(self, operation: Operation) -> None:
        nameserver = self.nameservers[operation.target]
        if nameserver.host.is_running:
            await nameserver.host.kill()
            await trio.sleep(operation.seconds)
            await nameserver.start()

    async def _restart_consumer(self, operation: Operation) -> None:
        host = self.hosts[operation.target]
        if host.is_running:
            await host.kill()
            await trio.sleep(operation.seconds)
            await host.start(partial(self._consume, operation.target))

    async def _cut(self, operation: Operation, *, one_way: bool = False) -> None:
        ends = self._ends(operation)
        self.world.network.cut(*ends, one_way=one_way)
        await trio.sleep(operation.seconds)
        self.world.network.heal(*ends)

    async def _reset(self, operation: Operation) -> None:
        self.world.network.reset(*self._ends(operation))

    async def _slow_link(self, operation: Operation) -> None:
        ends = self._ends(operation)
        self.world.network.set_link(*ends, Link(delay_s=operation.value, jitter_s=operation.value))
        await trio.sleep(operation.seconds)
        self.world.network.set_link(*ends, Link())

    def _ends(self, operation: Operation) -> tuple[str, str]:
        first, second = operation.target.split(">")
        return self.hosts[first].address, self.hosts[second].address


def _got(message: MessageExt) -> Got:
    number = int(message.body.split()[0])
    return Got((message.broker_name, message.queue_id), message.queue_offset, number, message.body)


def _place(queue: Queue | None, queue_offset: int) -> str:
    return "nowhere" if queue is None else f"{queue[0]} queue {queue[1]} offset {queue_offset}"
