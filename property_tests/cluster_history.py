"""Histories of a whole cluster: a plan is carried out, and everything that clients were told is written down.

Producers send numbered messages one after the other; each number is in the body. Consumers read one topic as groups of
their own and note what they get. The nemesis carries out the faults of the plan. Then everything is healed, producers
and consumers have time to come to an end, and a client that comes last reads all queues from their beginning.
What must hold is in ``cluster_checker.py``.

::

    plan (of a seed) --> carry_out, each operation in its time
                           |
             +-------------+--------------+-------------------+
             v             v              v                   v
         producers    transactions      liar              nemesis: kills, losses of power, cuts, changes of role
             |             |              |                   |
             +------------>+------------> 1 or 2 brokers, each perhaps with a slave; 2 nameservers
                                          |                   |
                                          v                   v
                                      consumers           observer: offsets, as each broker serves them
                                          |                   |
             Sent ----------------------> History <-----------+
    heal: until every producer reaches every queue and every group reads it; then logs, indexes and figures are noted
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

import trio

from property_tests.cluster_deletions import Deletions
from property_tests.cluster_exemptions import may_lose
from property_tests.cluster_late import is_due
from property_tests.cluster_liar import Liar
from property_tests.cluster_nemesis import Nemesis
from property_tests.cluster_offsets import QUEUES_OF_BROKER, Observer, open_recorded_consumer
from property_tests.cluster_plan import CONSUMERS, LIES, PRODUCERS, TRANSACTIONS, Decision, Plan
from property_tests.cluster_record import Got, History, Sent, are_equal, body_of, has_record
from property_tests.cluster_retries import SentBack
from property_tests.cluster_status_checks import SLAVE_TIMEOUT_S
from property_tests.cluster_transactions import TransactionalProducer
from rocketpy.client.client import open_admin_client, open_client, open_pull_consumer
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.pull_consumer import PullConsumer
from rocketpy.client.hooks import SendMessageContext, SendMessageHook
from rocketpy.client.instance import open_client_instance
from rocketpy.client.producer.producer import Producer
from rocketpy.client.results import SendResult, SendStatus
from rocketpy.errors import RemotingError, RocketpyError
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.query import QueryMessageRequestHeader
from rocketpy.protocol.message import Message, MessageExt
from rocketpy.protocol.message_id import decode_offset_msg_id
from rocketpy.protocol.properties import PROPERTY_DELAY_TIME_LEVEL
from rocketpy.remoting.client import RemotingClient, open_remoting_client
from rocketpy.store.config import BrokerRole, FlushDiskType
from rocketpy.store.services import clean_commit_log, clean_consume_queue
from rocketpy.testing.cluster_world import ClusterWorld, environment_of, simulate
from rocketpy.testing.sim.host import Program, SimProcess

TOPIC = "T"
RESTART_SECONDS = 1.0
HEALING_SECONDS = 100.0
"""Brokers register every 30 s, and clients look for them every 30 s."""
CATCH_UP_SECONDS, ALARM_SECONDS = 60, 10
LATE_SECONDS = 60
"""A delayed message waits at most twice its delay, a transaction that is to be checked for some rounds of checks."""
COMMIT_EVERY = 5
KEYS = 8
"""Messages of a broker that are looked for by their keys in the end."""


def run_history(plan: Plan) -> History:
    """Carry out a plan."""
    history = History(plan)
    with _early_cleaning() if plan.expires else nullcontext():
        history.trace_hash = simulate(partial(_scene, history), seed=plan.seed).trace_hash
    return history


@contextmanager
def _early_cleaning() -> Iterator[None]:
    """Let brokers look for old files a second after they start, and not only a minute later."""
    modules = (clean_commit_log, clean_consume_queue)
    before = [module.FIRST_RUN_SECONDS for module in modules]
    for module in modules:
        module.FIRST_RUN_SECONDS = 1.0
    try:
        yield
    finally:
        for module, seconds in zip(modules, before, strict=True):
            module.FIRST_RUN_SECONDS = seconds


async def _scene(history: History, world: ClusterWorld) -> None:
    cluster = Cluster(world, history)
    await cluster.start()
    async with trio.open_nursery() as nursery:
        await cluster.start_clients()
        nursery.start_soon(cluster.carry_out, nursery)
        for name in cluster.nemesis.brokers:
            nursery.start_soon(cluster.nemesis.keep_running, name)
        await trio.sleep_until(cluster.began_at + history.plan.seconds)
        await cluster.heal()
        nursery.cancel_scope.cancel()


class LastAttempt(SendMessageHook):
    """Notes when the last attempt of a producer's send left: an earlier one may have waited for its own time."""

    hook_name = "last attempt"
    sent: Sent

    def send_message_before(self, context: SendMessageContext) -> None:
        self.sent.attempted_at = trio.current_time()

    def send_message_after(self, context: SendMessageContext) -> None:
        """Nothing more is noted."""


class Cluster:
    """The hosts of one history, and its clients."""

    def __init__(self, world: ClusterWorld, history: History) -> None:
        self.world = world
        self.history = history
        self.nemesis = Nemesis(world, history)
        self.began_at = 0.0
        self.observer = Observer(history, self.nemesis.brokers)
        self.nemesis.serving = self.observer.look_at_started
        self.liar = Liar(history, lambda name: self.nemesis.brokers[self.nemesis.roles(name)[0]])
        self.transactions = TransactionalProducer(world, history)
        self.backs = SentBack(history)
        self.deletions = Deletions(history, self.nemesis)
        self._orders: dict[str, trio.MemorySendChannel[tuple[Sent, int | list[Sent]]]] = {}

    # ---- the cluster and its clients ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start nameservers and brokers, and create the topic."""
        plan, nemesis = self.history.plan, self.nemesis
        for number in range(2):
            nameserver = await self.world.start_nameserver()
            nemesis.nameservers[f"nameserver-{number}"] = nameserver
            nemesis.hosts[f"nameserver-{number}"] = nameserver.host
        store = {
            "flush_disk_type": FlushDiskType.SYNC_FLUSH if plan.is_sync_flush else FlushDiskType.ASYNC_FLUSH,
            "clean_file_forcibly_enable": False,
            "slave_timeout": int(SLAVE_TIMEOUT_S * 1000),
            "ha_truncate_diverged_log": plan.cuts_tails,
            "transient_store_pool_enable": plan.has_pool,
            "store_path_commit_log": ",".join(plan.log_directories) or None,
        }
        if plan.expires:
            store |= {
                "clean_file_forcibly_enable": True,
                "clean_resource_interval": 1_000,
                "mapped_file_size_commit_log": 1 << 14,
            }
        checks = {"transaction_check_interval": 5_000, "transaction_time_out": 2_000, "transaction_check_max": 1_000}
        role = BrokerRole.SYNC_MASTER if plan.is_sync_master else BrokerRole.ASYNC_MASTER
        for name in plan.masters:
            nemesis.brokers[name] = self.world.broker(name, store={**store, "broker_role": role})
        for name in plan.masters:
            for slave in plan.slaves_of(name):
                broker_id = int(slave.rpartition("/")[2])
                nemesis.brokers[slave] = self.world.slave(nemesis.brokers[name], broker_id=broker_id, store=store)
        for name, broker in nemesis.brokers.items():
            nemesis.hosts[name] = broker.host
            broker.host.disk_delay_s = plan.disk_delay_s
            broker.change(broker=checks)
            assert await broker.start(), broker.host.failure
        await self.world.run_client(self._create_topic)

    async def start_clients(self) -> None:
        """Start producers and consumers."""
        for number in range(PRODUCERS):
            name = f"producer-{number}"
            self._orders[name], orders = trio.open_memory_channel[tuple[Sent, int | list[Sent]]](math.inf)
            self.nemesis.hosts[name] = await self.world.start_client(partial(self._produce, name, orders))
        for number in range(CONSUMERS):
            name = f"consumer-{number}"
            self.history.got[name] = []
            await self._start_client(name, partial(self._consume, name))
        await self._start_client(TRANSACTIONS, self.transactions.run)
        await self.world.start_client(self.observer.run)
        await self.world.start_client(self.liar.run)
        self.began_at = self.history.began_at = trio.current_time()

    async def _start_client(self, name: str, program: Program) -> None:
        self.nemesis.clients[name] = program
        self.nemesis.hosts[name] = await self.world.start_client(program)

    async def _create_topic(self, process: SimProcess) -> None:
        async with open_admin_client(self.world.name_servers, environment=environment_of(process)) as admin:
            await admin.create_topic(TOPIC, queue_nums=QUEUES_OF_BROKER)

    async def _produce(
        self, name: str, orders: trio.MemoryReceiveChannel[tuple[Sent, int | list[Sent]]], process: SimProcess
    ) -> None:
        attempts = LastAttempt()
        async with (
            open_client(self.world.name_servers, environment=environment_of(process)) as client,
            client.producer(f"{TOPIC}-producers", send_hooks=[attempts]) as producer,
        ):
            process.started()
            async for attempts.sent, size in orders:
                if isinstance(size, list):
                    await self._send_batch(producer, [attempts.sent, *size])
                else:
                    await self._send(producer, attempts.sent, size)

    async def _send(self, producer: Producer, sent: Sent, size: int) -> None:
        sent.asked_at = trio.current_time()
        try:
            result = await self._ask(producer, sent, size)
        except RocketpyError as failure:
            sent.failure = f"{type(failure).__name__}: {failure}"
        else:
            sent.status = result.status
            sent.broker, sent.msg_id = result.message_queue.broker_name, result.msg_id
            if not sent.delay_level:
                sent.queue = (sent.broker, result.message_queue.queue_id)
                sent.queue_offset = result.queue_offset
            sent.physical_offset = decode_offset_msg_id(result.offset_msg_id)[1]
            self._look_at_slave(sent)
        sent.answered_at = trio.current_time()
        self.history.note(str(sent))

    async def _send_batch(self, producer: Producer, batch: list[Sent]) -> None:
        for sent in batch:
            sent.asked_at = trio.current_time()
        try:
            result = await producer.send_batch([Message(TOPIC, body_of(sent.number)) for sent in batch])
        except RocketpyError as failure:
            for sent in batch:
                sent.failure = f"{type(failure).__name__}: {failure}"
        else:
            ids = zip(batch, result.msg_id.split(","), result.offset_msg_id.split(","), strict=True)
            for number, (sent, msg_id, offset_msg_id) in enumerate(ids):
                sent.status, sent.broker, sent.msg_id = result.status, result.message_queue.broker_name, msg_id
                sent.queue = (sent.broker, result.message_queue.queue_id)
                sent.queue_offset = result.queue_offset + number
                sent.physical_offset = decode_offset_msg_id(offset_msg_id)[1]
                self._look_at_slave(sent)
        for sent in batch:
            sent.attempted_at, sent.answered_at = batch[0].attempted_at, trio.current_time()
            self.history.note(f"{sent}, in a batch")

    async def _ask(self, producer: Producer, sent: Sent, size: int) -> SendResult:
        """Send a message; a delayed one only once, so that it may be there only once."""
        body = body_of(sent.number) + b"x" * size
        if not sent.delay_level:
            return await producer.send(Message(TOPIC, body))
        queues = await producer.publish_queues(TOPIC)
        delayed = Message(TOPIC, body, {PROPERTY_DELAY_TIME_LEVEL: str(sent.delay_level)})
        return await producer.send(delayed, queue=queues[sent.number % len(queues)])

    def _look_at_slave(self, sent: Sent) -> None:
        """Note whether the slave's log has a message that was just answered, unless it may have lost it since."""
        assert sent.broker is not None
        slaves = self.nemesis.roles(sent.broker)[1:]
        has_lost = any(at >= sent.asked_at and broker in slaves for at, broker in self.history.tail_losses)
        has_lost |= any(at >= sent.asked_at and broker == sent.broker for at, broker in self.history.promotions)
        if slaves and sent.status is SendStatus.SEND_OK and not has_lost:
            sent.is_on_slave = any(has_record(self.nemesis.brokers[each].log, sent) for each in slaves)

    async def _consume(self, name: str, process: SimProcess) -> None:
        process.started()
        while True:
            life: list[Got] = []
            self.history.got[name].append(life)
            try:
                async with (
                    open_recorded_consumer(self.world, self.history, process, group=name) as (consumer, instance),
                    consumer.open_messages(TOPIC) as messages,
                ):
                    async for message in messages:
                        life.append(_got(message))
                        await self.backs.send_back(instance, name, message, life[-1])
                        if len(life) % COMMIT_EVERY == 0:
                            await messages.commit()
            except RocketpyError as failure:
                self.history.note(f"{name}: {type(failure).__name__}: {failure}")
            await trio.sleep(RESTART_SECONDS)

    async def carry_out(self, nursery: trio.Nursery) -> None:
        """Begin each operation of the plan in its time."""
        for operation in self.history.plan.operations:
            await trio.sleep_until(self.began_at + operation.at_s)
            if operation.kind == "send":
                self._order(operation.target, int(operation.value))
            elif operation.kind == "send batch":
                self._order_batch(operation.target, int(operation.value))
            elif operation.kind == "delete topic":
                nursery.start_soon(self.world.run_client, partial(self.deletions.carry_out, operation))
            elif operation.kind == "lie":
                self.liar.lie(operation.target, LIES[int(operation.value)], operation.seconds)
            elif operation.kind == "send delayed":
                self._order(operation.target, 0, delay_level=int(operation.value))
            elif operation.kind in ("transaction", "checked transaction"):
                self.transactions.begin(
                    Decision(int(operation.value)),
                    operation.seconds,
                    is_left_to_checks=operation.kind == "checked transaction",
                )
            else:
                nursery.start_soon(self.nemesis.carry_out, operation)

    def _order(self, producer: str, size: int, *, delay_level: int = 0) -> None:
        sent = Sent(len(self.history.sent), producer, trio.current_time(), delay_level=delay_level)
        self.history.sent.append(sent)
        self._orders[producer].send_nowait((sent, size))

    def _order_batch(self, producer: str, count: int) -> None:
        begin = len(self.history.sent)
        batch = [Sent(begin + number, producer, trio.current_time()) for number in range(count)]
        self.history.sent += batch
        self._orders[producer].send_nowait((batch[0], batch[1:]))

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
        for name in self.history.plan.masters:
            self.history.masters[name] = master = self.nemesis.roles(name)[0]
            self.history.begin_offsets[name] = self.nemesis.brokers[master].log.begin_offset
        self.nemesis.note_begins()
        await self._wait_late_messages()
        await self.world.run_client(self._read_all)
        await self.world.run_client(partial(self.backs.read_retries, self.world))
        await self.world.run_client(self.deletions.look)
        await self._wait_equal_logs()
        for name, broker in self.nemesis.brokers.items():
            self.history.logs[name] = broker.log  # all in one moment
        self.nemesis.note_cut_tails()
        for name in filter(self._has_masters_log, self.nemesis.brokers):
            self.history.found_by_key[name] = await self.world.run_client(partial(self._find_by_key, name))
        for name in self.history.plan.masters:
            for slave in self.nemesis.roles(name)[1:]:
                address = self.nemesis.brokers[slave].address
                self.history.figures[slave] = await self.world.run_client(partial(self._ask_figures, address))

    async def _wait_late_messages(self) -> None:
        """Give delayed messages and transactions a while to be delivered."""
        await trio.sleep(5)
        late = {sent.number for sent in self.history.sent if is_due(self.history, sent)}
        for _ in range(LATE_SECONDS):
            if late <= {got.number for lives in self.history.got.values() for life in lives for got in life}:
                return
            await trio.sleep(1)

    async def _wait_equal_logs(self) -> None:
        """Give the slaves a while to catch up; none that stands with its alarm for good."""
        for second in range(CATCH_UP_SECONDS):
            waiting = [name for name in self.nemesis.brokers if not self._has_masters_log(name)]
            if not waiting:
                return
            if second % ALARM_SECONDS == ALARM_SECONDS - 1 and not self.history.plan.cuts_tails:
                figures = [
                    await self.world.run_client(partial(self._ask_figures, self.nemesis.brokers[each].address))
                    for each in waiting
                ]
                if all("part at" in each.get("haAlarm", "") for each in figures):
                    return
            await trio.sleep(1)

    def _has_masters_log(self, name: str) -> bool:
        master = self.history.masters[name.partition("/")[0]]
        return are_equal(self.nemesis.brokers[name].log, self.nemesis.brokers[master].log)

    async def _ask_figures(self, address: str, process: SimProcess) -> dict[str, str]:
        config = ClientConfig(name_servers=self.world.name_servers)
        async with open_client_instance(config, environment=environment_of(process)) as instance:
            try:
                answer = await instance.request(address, make_request(RequestCode.GET_BROKER_RUNTIME_INFO))
            except RocketpyError as failure:
                return {"failure": str(failure)}
            return decode_body(answer.body, KVTable).table

    async def _find_by_key(self, name: str, process: SimProcess) -> dict[int, bool]:
        """Ask a broker for some messages by their unique keys; an index that was lost is catching up."""
        deadline = trio.current_time() + CATCH_UP_SECONDS
        begin_offset = self.history.logs[name].begin_offset
        stored = [
            each
            for each in self.history.sent
            if each.broker == name.partition("/")[0]
            and each.queue
            and each.physical_offset >= begin_offset
            and not may_lose(self.history, each)
        ]
        found: dict[int, bool] = {}
        async with open_remoting_client(network=process.network) as client:
            for sent in stored[:: len(stored) // KEYS + 1]:
                while sent.msg_id and not found.get(sent.number):
                    found[sent.number] = await self._is_found(client, self.nemesis.brokers[name].address, sent)
                    if trio.current_time() > deadline:
                        break
                    await trio.sleep(0 if found[sent.number] else 1)
        return found

    async def _is_found(self, client: RemotingClient, address: str, sent: Sent) -> bool:
        header = QueryMessageRequestHeader(
            topic=TOPIC, key=sent.msg_id, max_num=32, begin_timestamp=0, end_timestamp=1 << 62
        )
        try:
            answer = await client.request(address, make_request(RequestCode.QUERY_MESSAGE, header))
        except RemotingError:
            return False
        return answer.code == ResponseCode.SUCCESS and body_of(sent.number) in (answer.body or b"")

    def _is_healed(self, sent: list[Sent]) -> bool:
        """Whether every producer reaches every broker, and every group gets what comes to any queue."""
        reached = {(each.producer, each.queue[0]) for each in sent if each.queue and each.producer in self._orders}
        queues = {each.queue for each in sent if each.queue}
        newest = {each.number for each in sent}
        # A consumer that has begun again may have a route without a broker yet: what it read before says nothing.
        read = [{got.queue for got in lives[-1] if got.number in newest} for lives in self.history.got.values()]
        return (
            len(reached) == PRODUCERS * len(self.history.plan.masters)
            and len(queues) == QUEUES_OF_BROKER * len(self.history.plan.masters)
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
        """Whether the chosen nameserver has heard of every master since it began or lost its connection."""
        try:
            queues = await consumer.queues(TOPIC)
            for queue in queues:
                await consumer.max_offset(queue)  # a slave has the queue too, but is not asked for its end
        except RocketpyError:
            return False
        return len(queues) == QUEUES_OF_BROKER * len(self.history.plan.masters)


def _got(message: MessageExt) -> Got:
    number = int(message.body.split()[0])
    queue = (message.broker_name, message.queue_id)
    return Got(queue, message.queue_offset, number, message.body, trio.current_time())
