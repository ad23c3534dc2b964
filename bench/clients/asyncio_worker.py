"""One row with our client in an asyncio program. Arguments and output are those of ``ClientBench.java``."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from rocketpy.client import Message, Producer, aio

TASKS = 64


def main() -> None:
    """Run the row that the command line names."""
    row, namesrv, topic, warm, total, body_bytes = sys.argv[1:]
    asyncio.run(produce(row, namesrv, topic, b"x" * int(body_bytes), int(warm), int(total)))


async def produce(row: str, namesrv: str, topic: str, body: bytes, warm: int, total: int) -> None:
    """Send ``warm`` messages, then ``total``, which count."""
    tasks = {"sequence": 1, "tasks": TASKS}[row]
    async with aio.open_producer(namesrv, group="bench_asyncio") as producer:
        await send(producer, topic, body, warm, tasks)
        processor, begin = time.process_time(), time.perf_counter()
        await send(producer, topic, body, total, tasks)
        seconds, used = time.perf_counter() - begin, time.process_time() - processor
    print(json.dumps({"messages": total, "seconds": seconds, "processor_s": used}), flush=True)


async def send(producer: Producer, topic: str, body: bytes, total: int, tasks: int) -> None:
    """Send from some tasks, each in sequence."""

    async def send_some() -> None:
        for _ in range(total // tasks):
            await producer.send(Message(topic, body))

    async with asyncio.TaskGroup() as group:
        for _ in range(tasks):
            group.create_task(send_some())


main()
