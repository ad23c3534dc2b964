"""What visitors of a cluster do: each kind of visit brings names that were never there, and takes all of them away.

A visit makes a topic, a group, producers and members of the group in clients of their own, uses them, waits for what
must come, leaves, and deletes what it made. Two kinds leave as no program should: one loses its connections without a
goodbye, with a delayed message and an undecided transaction on the way; one changes the members of a group that stays.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import attrs
import trio

from rocketpy.client import (
    Client,
    ClientConfig,
    ClientEnvironment,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumeOrderlyStatus,
    ConsumerConfig,
    LocalTransactionState,
    Message,
    MessageBatch,
    MessageExt,
    MessageModel,
    MessageSelector,
    open_client,
)
from rocketpy.errors import RemotingConnectError, RocketpyError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.remoting.network import SocketNetwork

CLUSTER = "DefaultCluster"
RESIDENT_TOPIC, RESIDENT_GROUP = "resident", "resident_group"
RESIDENT_QUEUES = 16
"""More than the group ever has members: each gets some."""
PREFIX = "visit-"
"""Of every name that a visit brings."""
SENDS, BATCH = 6, 8
QUEUES = 2
PATIENCE_SECONDS = 60.0
"""How long one visit may take; most of it is to wait for messages that are delayed by a second."""
LOOK_SECONDS = 0.05

QUICK = ClientConfig(heartbeat_broker_interval=2_000, poll_name_server_interval=2_000)
FIRST = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, consume_message_batch_max_size=4)


class CuttableNetwork(SocketNetwork):
    """TCP until it is cut: then each connection ends, and there are no new ones."""

    def __init__(self) -> None:
        self._streams: list[trio.SocketStream] = []
        self._is_cut = False

    async def connect(self, address: str) -> trio.SocketStream:
        """Connect, unless it is cut."""
        if self._is_cut:
            raise RemotingConnectError(f"cannot connect to {address}: it is cut")
        stream = await super().connect(address)
        self._streams.append(stream)
        return stream

    def cut(self) -> None:
        """End all connections below the client, which has no time for a word."""
        self._is_cut = True
        for stream in self._streams:
            with suppress(OSError):  # it has ended
                stream.socket.shutdown(socket.SHUT_RDWR)


@attrs.define(eq=False)
class Host:
    """What a visit finds: a client that stays, addresses, and a folder for files of its own."""

    client: Client
    name_server: str
    broker: str
    directory: Path

    @asynccontextmanager
    async def guest(self, network: SocketNetwork | None = None) -> AsyncIterator[Client]:
        """Open a client that only this visit uses."""
        environment = ClientEnvironment(network=network) if network else None
        async with open_client(self.name_server, config=QUICK, environment=environment) as client:
            yield client

    @asynccontextmanager
    async def names(self, title: str) -> AsyncIterator[tuple[str, str]]:
        """Make a topic for the block; delete it, and the group of the same name with all of its topics, at its end."""
        topic, group = f"{PREFIX}{title}", f"{PREFIX}{title}-group"
        admin = self.client.admin()
        await admin.topics.create_like(CLUSTER, topic, queue_nums=QUEUES)
        try:
            yield topic, group
        finally:
            with trio.fail_after(PATIENCE_SECONDS) as scope:
                scope.shield = True
                await admin.groups.delete(self.broker, group, remove_offset=True)
                for each in (topic, f"%RETRY%{group}", f"%DLQ%{group}"):
                    await admin.topics.delete(each, cluster=CLUSTER)


class Received:
    """The bodies that handlers have seen."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def handle(self, batch: MessageBatch) -> ConsumeConcurrentlyStatus:
        """Send each message of the batch back once that asks for it, and keep the others."""
        await trio.lowlevel.checkpoint()
        if any(each.tags == "back" and not each.reconsume_times for each in batch):
            return ConsumeConcurrentlyStatus.RECONSUME_LATER
        self.keep(batch)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    async def handle_in_order(self, batch: MessageBatch) -> ConsumeOrderlyStatus:
        """Keep a batch."""
        await trio.lowlevel.checkpoint()
        self.keep(batch)
        return ConsumeOrderlyStatus.SUCCESS

    def keep(self, messages: Iterable[MessageExt]) -> None:
        """Note bodies."""
        self.bodies += [each.body for each in messages]

    async def wait(self, bodies: Iterable[bytes]) -> None:
        """Wait until all of these have been seen."""
        wanted = set(bodies)
        while not wanted <= set(self.bodies):
            await trio.sleep(LOOK_SECONDS)


async def send_and_consume(host: Host, title: str) -> None:
    """Send messages one by one, in a batch, delayed and to be sent back; consume all, and look some up by key."""
    bodies = [f"{title} {number}".encode() for number in range(SENDS)]
    batch = [f"{title} batch {number}".encode() for number in range(BATCH)]
    received = Received()
    async with host.names(title) as (topic, group), host.guest() as sender, host.guest() as receiver:
        async with sender.producer(f"{group}-producers") as producer:
            await producer.send(Message.create(topic, bodies[0], keys=title))
            await producer.send(Message.create(topic, bodies[1], delay_level=1))
            await producer.send(Message.create(topic, bodies[2], tags="back"))
            for body in bodies[3:]:
                await producer.send(Message.create(topic, body, tags="other", keys=[title, "every"]))
            await producer.send_batch([Message.create(topic, each, keys=title) for each in batch])
            async with receiver.consumer(group, topic, config=FIRST) as consumer, trio.open_nursery() as nursery:
                nursery.start_soon(consumer.run, received.handle)
                await received.wait([*bodies, *batch])
                await host.client.admin().clients.consumers(group)
                await host.client.admin().clients.producers(f"{group}-producers", topic)
                nursery.cancel_scope.cancel()
        found = await indexed(host, topic, title)
        assert len(found) >= 1 + BATCH, found
        await host.client.admin().offsets.progress(group, topic)


async def indexed(host: Host, topic: str, key: str) -> Sequence[MessageExt]:
    """Return what a key finds; the index follows the log."""
    while True:
        try:
            return (await host.client.admin().messages.query(topic, key)).messages
        except RocketpyError as failure:
            if getattr(failure, "response_code", None) != ResponseCode.NO_MESSAGE:
                raise
        await trio.sleep(LOOK_SECONDS)


async def transact(host: Host, title: str) -> None:
    """Commit a transaction, roll one back, leave one to a check; members consume in order."""
    received = Received()

    async def check(message: MessageExt) -> LocalTransactionState:
        await trio.lowlevel.checkpoint()
        return LocalTransactionState.COMMIT_MESSAGE

    async with host.names(title) as (topic, group), host.guest() as guest:
        async with (
            guest.transaction_producer(f"{group}-producers", check=check) as producer,
            guest.consumer(group, topic, config=FIRST) as consumer,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(consumer.run_orderly, received.handle_in_order)
            for verdict in ("COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"):
                async with producer.transaction(Message.create(topic, verdict.encode())) as transaction:
                    await transaction.end(LocalTransactionState[verdict])
            await received.wait([b"COMMIT_MESSAGE", b"UNKNOW"])
            nursery.cancel_scope.cancel()
        assert b"ROLLBACK_MESSAGE" not in received.bodies


async def broadcast(host: Host, title: str) -> None:
    """Let two members of a group consume every message, each with its offsets in a file."""
    both = Received(), Received()
    bodies = [f"{title} {number}".encode() for number in range(SENDS)]
    directory = host.directory / title
    config = attrs.evolve(FIRST, message_model=MessageModel.BROADCASTING, local_offset_store_dir=directory)

    async def consume(received: Received) -> None:
        async with host.guest() as guest, guest.consumer(group, topic, config=config) as consumer:
            await consumer.run(received.handle)

    try:
        async with host.names(title) as (topic, group), trio.open_nursery() as nursery:
            for each in both:
                nursery.start_soon(consume, each)
            async with host.guest() as guest, guest.producer(f"{group}-producers") as producer:
                for body in bodies:
                    await producer.send(Message.create(topic, body))
            for each in both:
                await each.wait(bodies)
            nursery.cancel_scope.cancel()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def filter_and_poll(host: Host, title: str) -> None:
    """Subscribe by SQL92, and poll what passes."""
    received = Received()
    async with host.names(title) as (topic, group), host.guest() as guest:
        async with guest.producer(f"{group}-producers") as producer:
            for number in range(SENDS):
                await producer.send(Message.create(topic, b"%d" % number, properties={"number": str(number)}))
        wanted = {topic: MessageSelector.by_sql(f"number >= {SENDS // 2}")}
        async with guest.lite_pull_consumer(group, subscriptions=wanted) as consumer:
            for queue in await consumer.wait_assigned():
                await consumer.seek_to_begin(queue)
            while len(set(received.bodies)) < SENDS - SENDS // 2:
                received.keep(await consumer.poll(1.0))
            await consumer.commit()


async def pull_and_manage(host: Host, title: str) -> None:
    """Pull a topic queue by queue, and ask for what an operator looks at."""
    admin = host.client.admin()
    async with host.names(title) as (topic, group), host.guest() as guest:
        async with guest.producer(f"{group}-producers") as producer:
            result = await producer.send(Message.create(topic, b"pulled", keys=title))
        async with guest.pull_consumer(group) as consumer:
            for queue in await consumer.queues(topic):
                await consumer.search_offset(queue, 0)
                await consumer.pull(queue, 0)
                await consumer.commit(queue, await consumer.max_offset(queue))
        await admin.messages.view(result.offset_msg_id)
        await admin.topics.stats(topic)
        await admin.topics.config(host.broker, topic)
        await admin.groups.configs(host.broker)
        await admin.brokers.runtime_info(host.broker)
        await admin.brokers.stats(host.broker, "TOPIC_PUT_NUMS", topic)
        await admin.offsets.progress_of_all(host.broker)


async def vanish(host: Host, title: str) -> None:
    """Lose every connection, with a delayed message, one to be sent back and an undecided transaction on the way."""
    received, network = Received(), CuttableNetwork()

    async def check(message: MessageExt) -> LocalTransactionState:
        await trio.lowlevel.checkpoint()
        return LocalTransactionState.UNKNOW

    async with (
        host.names(title) as (topic, group),
        host.guest(network) as guest,
        guest.transaction_producer(f"{group}-producers", check=check) as producer,
        guest.consumer(group, topic, config=FIRST) as consumer,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(consumer.run, received.handle)
        sends = producer.producer
        await sends.send(Message.create(topic, b"seen"))
        await received.wait([b"seen"])
        await sends.send(Message.create(topic, b"back", tags="back"))
        await sends.send(Message.create(topic, b"late", delay_level=1))
        async with producer.transaction(Message.create(topic, b"undecided")):
            network.cut()
        nursery.cancel_scope.cancel()


async def join(host: Host, title: str) -> None:
    """Be a member of the group that stays, until it has queues and has had messages."""
    received = Received()
    body = title.encode()
    async with (
        host.guest() as guest,
        guest.producer(f"{PREFIX}{title}-producers") as producer,
        guest.consumer(RESIDENT_GROUP, RESIDENT_TOPIC, config=FIRST) as consumer,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(consumer.run, received.handle)
        while not received.bodies:  # by and by one comes to a queue that is this member's
            await producer.send(Message.create(RESIDENT_TOPIC, body))
            await trio.sleep(LOOK_SECONDS)
        nursery.cancel_scope.cancel()


VISITS: Mapping[str, Callable[[Host, str], Awaitable[None]]] = {
    "send": send_and_consume,
    "transact": transact,
    "broadcast": broadcast,
    "filter": filter_and_poll,
    "manage": pull_and_manage,
    "vanish": vanish,
    "join": join,
}
