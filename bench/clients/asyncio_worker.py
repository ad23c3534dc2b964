"""One row with our client in an asyncio program. Arguments and output are those of ``ClientBench.java``."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque

from rocketpy.client import ConsumeFromWhere, ConsumerConfig, Message, PendingSend, Producer, aio

TASKS = 64
RESULTS_LATER = 1000
GROUP_CONFIG = ConsumerConfig(
    consume_message_batch_max_size=32, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
)


def main() -> None:
    """Run the row that the command line names."""
    row, namesrv, topic, warm, total, body_bytes = sys.argv[1:]
    if row == "idle":
        asyncio.run(idle(namesrv, topic, int(warm), int(total)))
    elif row == "consume":
        asyncio.run(consume(namesrv, topic, int(warm), int(total)))
    else:
        asyncio.run(produce(row, namesrv, topic, b"x" * int(body_bytes), int(warm), int(total)))


async def produce(row: str, namesrv: str, topic: str, body: bytes, warm: int, total: int) -> None:
    """Send ``warm`` messages, then ``total``, which count."""
    send = {"sequence": send_in_sequence, "tasks": send_in_tasks, "pipelined": send_pipelined}[row]
    async with aio.open_producer(namesrv, group="bench_asyncio") as producer:
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
    async with asyncio.TaskGroup() as group:
        for _ in range(TASKS):
            group.create_task(send_in_sequence(producer, topic, body, total // TASKS))


async def send_pipelined(producer: Producer, topic: str, body: bytes, total: int) -> None:
    """Send, and ask for each result a thousand messages later."""
    pending: deque[PendingSend] = deque()
    for _ in range(total):
        pending.append(await producer.send_soon(Message(topic, body)))
        if len(pending) > RESULTS_LATER:
            await pending.popleft()
    while pending:
        await pending.popleft()


async def consume(namesrv: str, topic: str, warm: int, total: int) -> None:
    """Consume as the only member of a group, 32 messages at a time."""
    counted, started = 0, (0.0, 0.0)
    async with (
        aio.open_client(namesrv) as client,
        client.consumer(f"bench_asyncio_{time.time_ns()}", topic, config=GROUP_CONFIG) as consumer,
    ):
        async for batch in consumer:
            before = counted
            counted += len(batch)
            if before < warm <= counted:
                started = time.process_time(), time.perf_counter()
            if counted >= warm + total:
                report(total, started[1], started[0])
                return


async def idle(namesrv: str, topic: str, warm_s: int, seconds: int) -> None:
    """Have a producer that has sent a message, and a consumer that waits for more."""
    async with aio.open_client(namesrv) as client, client.producer("bench_idle") as producer:
        await producer.send(Message(topic, b"x"))
        async with client.consumer(f"bench_idle_{time.time_ns()}", topic) as consumer:
            await consumer.wait_assigned()
            await asyncio.sleep(warm_s)
            processor, begin = time.process_time(), time.perf_counter()
            await asyncio.sleep(seconds)
            report(1, begin, processor)


def report(total: int, begin: float, processor: float) -> None:
    """Print the result."""
    seconds, used = time.perf_counter() - begin, time.process_time() - processor
    print(json.dumps({"messages": total, "seconds": seconds, "processor_s": used}), flush=True)


main()
