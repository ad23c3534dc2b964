"""The same as ``drain.py`` in asyncio: ``python drain_asyncio.py 127.0.0.1:9876``. Prints the same."""

import asyncio
import os
import signal
import sys

from rocketpy.client import ConsumeFromWhere, Consumer, ConsumerConfig, Message, MessageBatch, aio

FIRST = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


async def drain_on_sigterm(consumer: Consumer) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    is_finished = await consumer.drain(25)
    print("all finished" if is_finished else "some were cut off")


async def main(name_server: str) -> None:
    count = 0

    async def handle(batch: MessageBatch) -> None:
        nonlocal count
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.5)
        count += len(batch)

    async with aio.open_client(name_server) as client:
        async with client.producer("drain_asyncio_producer") as producer:
            for number in range(10):
                await producer.send(Message("DrainAsyncio", f"message {number}".encode()))
        async with (
            client.consumer("drain_asyncio", "DrainAsyncio", config=FIRST) as consumer,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(drain_on_sigterm(consumer))
            await consumer.run(handle, tasks=1)
    print(f"{count} of 10 handled")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
