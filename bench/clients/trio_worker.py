"""One row with our client on Trio. Arguments and output are those of ``ClientBench.java``."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

import trio

from rocketpy.client import (
    BatchingProducer,
    ConsumeFromWhere,
    ConsumerConfig,
    Message,
    MessageQueue,
    PendingSend,
    Producer,
    PullStatus,
    open_client,
    open_producer,
    open_pull_consumer,
)

TASKS = 64
PULL_SIZE = 32
BATCH = 32
RESULTS_LATER = 1000
GROUP_CONFIG = ConsumerConfig(
    consume_message_batch_max_size=BATCH, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
)

SendAll = Callable[[Producer, str, bytes, int], Awaitable[None]]


def main() -> None:
    """Run the row that the command line names."""
    row, namesrv, topic, warm, total, body_bytes = sys.argv[1:]
    if row == "idle":
        trio.run(idle, namesrv, topic, int(warm), int(total))
    elif row == "pulls":
        trio.run(pull, namesrv, topic, int(warm), int(total))
    elif row == "consume":
        trio.run(consume, namesrv, topic, int(warm), int(total))
    else:
        trio.run(produce, SENDS[row], namesrv, topic, b"x" * int(body_bytes), int(warm), int(total))


async def produce(send: SendAll, namesrv: str, topic: str, body: bytes, warm: int, total: int) -> None:
    """Send ``warm`` messages, then ``total``, which count."""
    async with open_producer(namesrv, group="bench_ours") as producer:
        await send(producer, topic, body, warm)
        processor, begin = time.process_time(), time.perf_counter()
        await send(producer, topic, body, total)
        report(total, begin, processor)


async def send_in_sequence(producer: Producer, topic: str, body: bytes, total: int) -> None:
    """Await each send before the next."""
    for _ in range(total):
        await producer.send(Message(topic, body))


async def send_in_tasks(producer: Producer, topic: str, body: bytes, total: int) -> None:
    """Send from 64 tasks, each in sequence."""
    async with trio.open_nursery() as nursery:
        for _ in range(TASKS):
            nursery.start_soon(send_in_sequence, producer, topic, body, total // TASKS)


async def send_pipelined(producer: Producer, topic: str, body: bytes, total: int) -> None:
    """Send without waiting for answers, as many at once as the producer's window allows, and ask for each result."""
    await send_soon(producer, topic, body, total)


async def send_collected(producer: Producer, topic: str, body: bytes, total: int) -> None:
    """Send one by one to a producer that collects batches, and ask for each result."""
    async with producer.batching() as batching:
        await send_soon(batching, topic, body, total)


async def send_soon(producer: Producer | BatchingProducer, topic: str, body: bytes, total: int) -> None:
    """Send, and ask for each result a thousand messages later."""
    pending: deque[PendingSend] = deque()
    for _ in range(total):
        pending.append(await producer.send_soon(Message(topic, body)))
        if len(pending) > RESULTS_LATER:
            await pending.popleft()
    while pending:
        await pending.popleft()


async def send_batches(producer: Producer, topic: str, body: bytes, total: int) -> None:
    """Send batches of 32 in sequence."""
    for _ in range(0, total, BATCH):
        await producer.send_batch([Message(topic, body) for _ in range(BATCH)])


SENDS: Mapping[str, SendAll] = {
    "sequence": send_in_sequence,
    "tasks": send_in_tasks,
    "pipelined": send_pipelined,
    "batched": send_batches,
    "collected": send_collected,
}


async def consume(namesrv: str, topic: str, warm: int, total: int) -> None:
    """Consume as the only member of a group, 32 messages at a time."""
    counted, started = 0, (0.0, 0.0)
    async with (
        open_client(namesrv) as client,
        client.consumer(f"bench_ours_{time.time_ns()}", topic, config=GROUP_CONFIG) as consumer,
    ):
        async for batch in consumer:
            before = counted
            counted += len(batch)
            if before < warm <= counted:
                started = time.process_time(), time.perf_counter()
            if counted >= warm + total:
                report(total, started[1], started[0])
                return


async def pull(namesrv: str, topic: str, warm: int, total: int) -> None:
    """Pull all queues at once, 32 messages at a time."""
    counted, started = 0, (0.0, 0.0)

    async def read(queue: MessageQueue) -> None:
        nonlocal counted, started
        position = 0
        while True:
            result = await consumer.pull(queue, position, max_msg_nums=PULL_SIZE)
            if result.status is not PullStatus.FOUND:
                return
            position = result.next_begin_offset
            before = counted
            counted += len(result.messages)
            if before < warm <= counted:
                started = time.process_time(), time.perf_counter()
            if counted >= warm + total:
                nursery.cancel_scope.cancel()

    async with open_pull_consumer(namesrv, group="bench_ours") as consumer, trio.open_nursery() as nursery:
        for queue in await consumer.queues(topic):
            nursery.start_soon(read, queue)
    report(counted - warm, started[1], started[0])


async def idle(namesrv: str, topic: str, warm_s: int, seconds: int) -> None:
    """Have a producer that has sent a message, and a consumer that waits for more."""
    async with open_client(namesrv) as client, client.producer("bench_idle") as producer:
        await producer.send(Message(topic, b"x"))
        async with client.consumer(f"bench_idle_{time.time_ns()}", topic) as consumer:
            await consumer.wait_assigned()
            await trio.sleep(warm_s)
            processor, begin = time.process_time(), time.perf_counter()
            await trio.sleep(seconds)
            report(1, begin, processor)


def report(total: int, begin: float, processor: float) -> None:
    """Print the result."""
    seconds, used = time.perf_counter() - begin, time.process_time() - processor
    print(json.dumps({"messages": total, "seconds": seconds, "processor_s": used}), flush=True)


main()
