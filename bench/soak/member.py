"""A process of a soak: one producer or one member of a group, until SIGTERM.

Arguments: role, name, nameserver, directory, seconds between sends. Its journal is ``DIRECTORY/NAME``; what it logs
goes to stderr. It ends with status 0 when it has left its group, or has had the answers to all that it sent. After
SIGUSR1 a producer of transactions begins no more of them, writes ``quiet`` and goes on answering checks.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import attrs
import trio

from bench.soak.journal import Journal, JournalReader
from bench.soak.judge import (
    ORDERED_TOPIC,
    PLAIN_TOPIC,
    TRANSACTION_TOPIC,
    is_committed,
    is_decided_by_check,
)
from rocketpy.client import (
    Client,
    ClientConfig,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumeOrderlyStatus,
    ConsumerConfig,
    LocalTransactionState,
    Message,
    MessageBatch,
    MessageExt,
    MessageQueue,
    Producer,
    open_client,
)
from rocketpy.errors import RocketpyError
from tests.blackbox.load import body_of, parse_body

BROKERS = ("broker-a", "broker-b")
QUEUES = 4
TASKS = 4
BATCH = 8
ON_THE_WAY = 32
FAILING_SHARE = 50
"""One of so many messages fails when it is handled for the first time."""

FAST_CLIENT = ClientConfig(heartbeat_broker_interval=2_000, poll_name_server_interval=2_000)
FIRST = ConsumerConfig(
    consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    consume_message_batch_max_size=4,
    suspend_current_queue_time_millis=50,
)


@attrs.define(eq=False)
class Orders:
    """What a member is told: by signals, and how long to pause between sends."""

    pause_s: float
    quiet: trio.Event = attrs.field(factory=trio.Event)
    end: trio.Event = attrs.field(factory=trio.Event)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take signals."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGUSR1) as signals:
            task_status.started()
            async for number in signals:
                self.quiet.set()
                if number == signal.SIGTERM:
                    self.end.set()


Role = Callable[[Client, str, Path, Orders], Awaitable[None]]


async def send_single(client: Client, name: str, directory: Path, orders: Orders) -> None:
    """Send from several tasks, each in sequence; half of them to the ordered topic, again until it is stored."""
    journal = Journal(directory / name)

    async def send(producer: Producer, sender: str) -> None:
        sequence = 0
        while not orders.quiet.is_set():
            message = message_of(PLAIN_TOPIC, sender, sequence)
            await attempt(journal, PLAIN_TOPIC, sender, [sequence], producer.send(message))
            sequence += 1
            await trio.sleep(orders.pause_s)

    async def send_in_order(producer: Producer, sender: str, queue: MessageQueue) -> None:
        sequence = 0
        while not orders.quiet.is_set():
            message = message_of(ORDERED_TOPIC, sender, sequence)
            sequence += await attempt(journal, ORDERED_TOPIC, sender, [sequence], producer.send(message, queue=queue))
            await trio.sleep(orders.pause_s)

    async with client.producer(f"{name}_producers") as producer, trio.open_nursery() as nursery:
        for number in range(TASKS):
            nursery.start_soon(send, producer, f"{name}-{number}")
            queue = MessageQueue(ORDERED_TOPIC, BROKERS[number % 2], number % QUEUES)
            nursery.start_soon(send_in_order, producer, f"{name}-ordered-{number}", queue)


async def send_batches(client: Client, name: str, directory: Path, orders: Orders) -> None:
    """Send batches in sequence."""
    journal, sequence = Journal(directory / name), 0
    async with client.producer(f"{name}_producers") as producer:
        while not orders.quiet.is_set():
            sequences = range(sequence, sequence + BATCH)
            messages = [message_of(PLAIN_TOPIC, name, each) for each in sequences]
            await attempt(journal, PLAIN_TOPIC, name, sequences, producer.send_batch(messages))
            sequence += BATCH
            await trio.sleep(BATCH * orders.pause_s / TASKS)


async def send_pipelined(client: Client, name: str, directory: Path, orders: Orders) -> None:
    """Send without waiting for the answers of those before."""
    journal, sequence = Journal(directory / name), 0
    pending: deque[tuple[int, Awaitable[object]]] = deque()

    async def settle(count: int) -> None:
        while len(pending) > count:
            number, answer = pending.popleft()
            await attempt(journal, PLAIN_TOPIC, name, [number], answer)

    async with client.producer(f"{name}_producers") as producer:
        while not orders.quiet.is_set():
            message = message_of(PLAIN_TOPIC, name, sequence)
            try:
                pending.append((sequence, producer.send_nowait(message)))
            except RocketpyError as failure:
                journal.write("fail", PLAIN_TOPIC, name, sequence, type(failure).__name__)
            sequence += 1
            await settle(ON_THE_WAY)
            await trio.sleep(orders.pause_s / TASKS)
        await settle(0)


async def attempt(
    journal: Journal, topic: str, sender: str, sequences: Sequence[int], answer: Awaitable[object]
) -> bool:
    """Await the answer to a send, and write it down; whatever the status is, a message with one is stored."""
    try:
        await answer
    except RocketpyError as failure:
        for sequence in sequences:
            journal.write("fail", topic, sender, sequence, type(failure).__name__)
        return False
    for sequence in sequences:
        journal.write("ack", topic, sender, sequence)
    return True


def message_of(topic: str, sender: str, sequence: int) -> Message:
    """Return the message that a sender sends under a number."""
    return Message.create(topic, body_of(sender, sequence), keys=f"{sender}-{sequence}")


async def send_transactions(client: Client, name: str, directory: Path, orders: Orders) -> None:
    """Send transactions, and answer the checks of all producers of the group by their journals: those are the truth.

    What a killed producer has not written down stays unknown, and is never consumed.
    """
    journal = Journal(directory / name)
    known: dict[tuple[str, int], str] = {}
    readers: dict[str, JournalReader] = {}

    async def check(message: MessageExt) -> LocalTransactionState:
        sender, sequence = parse_body(message.body)
        for event, who, *number in readers.setdefault(sender, JournalReader(directory / sender)).read_on():
            if number:
                known[who, int(number[0])] = event
        found = known.get((sender, sequence))
        if found is None:
            return LocalTransactionState.UNKNOW
        return verdict_of(sequence) if found == "begin" else LocalTransactionState.ROLLBACK_MESSAGE

    async with client.transaction_producer("soak_transactions_producers", check=check) as producer:
        sequence = 0
        while not orders.quiet.is_set():
            has_begun = False
            try:
                async with producer.transaction(message_of(TRANSACTION_TOPIC, name, sequence)) as transaction:
                    has_begun = True
                    journal.write("begin", name, sequence)
                    if not is_decided_by_check(sequence):
                        await transaction.end(verdict_of(sequence))
            except RocketpyError:
                if has_begun:
                    raise
                journal.write("undone", name, sequence)
            sequence += 1
            await trio.sleep(orders.pause_s)
        journal.write("quiet", name)
        await orders.end.wait()


def verdict_of(sequence: int) -> LocalTransactionState:
    """Return how a transaction of this number ends."""
    if is_committed(sequence):
        return LocalTransactionState.COMMIT_MESSAGE
    return LocalTransactionState.ROLLBACK_MESSAGE


class Handlers:
    """The handlers of a member: they write down what they got, and fail now and then."""

    def __init__(self, path: Path) -> None:
        self._journal = Journal(path)
        self._failed: set[tuple[str, int]] = set()

    async def handle(self, batch: MessageBatch) -> ConsumeConcurrentlyStatus:
        """Handle a batch beside others."""
        await trio.lowlevel.checkpoint()
        if any(self._fails(parse_body(each.body)) for each in batch if not each.reconsume_times):
            return ConsumeConcurrentlyStatus.RECONSUME_LATER
        self.write(batch)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    async def handle_in_order(self, batch: MessageBatch) -> ConsumeOrderlyStatus:
        """Handle a batch of a queue after the one before."""
        await trio.lowlevel.checkpoint()
        failing = {key for key in (parse_body(each.body) for each in batch) if self._fails(key)} - self._failed
        if failing:
            self._failed |= failing
            return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        self.write(batch)
        return ConsumeOrderlyStatus.SUCCESS

    def write(self, batch: MessageBatch) -> None:
        """Write down what a handler is done with."""
        for message in batch:
            sender, sequence = parse_body(message.body)
            where = batch.queue.broker_name, message.queue_id, message.queue_offset
            self._journal.write("got", message.topic, sender, sequence, time.monotonic_ns(), *where)

    @staticmethod
    def _fails(key: tuple[str, int]) -> bool:
        return key[1] % FAILING_SHARE == FAILING_SHARE - 1


async def consume_concurrently(client: Client, name: str, directory: Path, orders: Orders) -> None:
    """Be a member of the group with concurrent handlers."""
    handlers = Handlers(directory / name)
    async with (
        client.consumer("soak_concurrent", PLAIN_TOPIC, TRANSACTION_TOPIC, config=FIRST) as consumer,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(consumer.run, handlers.handle)
        await orders.end.wait()
        nursery.cancel_scope.cancel()


async def consume_in_order(client: Client, name: str, directory: Path, orders: Orders) -> None:
    """Be a member of the group that handles each queue in its order."""
    handlers = Handlers(directory / name)
    async with client.consumer("soak_orderly", ORDERED_TOPIC, config=FIRST) as consumer, trio.open_nursery() as nursery:
        nursery.start_soon(consumer.run_orderly, handlers.handle_in_order)
        await orders.end.wait()
        nursery.cancel_scope.cancel()


async def consume_by_iterating(client: Client, name: str, directory: Path, orders: Orders) -> None:
    """Be a member of the group that loops over batches."""
    handlers = Handlers(directory / name)
    async with client.consumer("soak_iterating", PLAIN_TOPIC, config=FIRST) as consumer, trio.open_nursery() as nursery:

        async def iterate() -> None:
            async for batch in consumer:
                await trio.lowlevel.checkpoint()
                handlers.write(batch)

        nursery.start_soon(iterate)
        await orders.end.wait()
        nursery.cancel_scope.cancel()


ROLES: Mapping[str, Role] = {
    "single": send_single,
    "batches": send_batches,
    "pipelined": send_pipelined,
    "transactions": send_transactions,
    "concurrent": consume_concurrently,
    "orderly": consume_in_order,
    "iterating": consume_by_iterating,
}


async def run(role: str, name: str, namesrv: str, directory: str, pause_s: str) -> None:
    """Run a role until SIGTERM."""
    orders = Orders(float(pause_s))
    async with trio.open_nursery() as nursery:
        await nursery.start(orders.run)
        async with open_client(namesrv, config=FAST_CLIENT) as client:
            await ROLES[role](client, name, Path(directory), orders)
        nursery.cancel_scope.cancel()


def main(arguments: Sequence[str]) -> None:
    """Be a member until SIGTERM."""
    trio.run(run, *arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
