"""End a consumer on SIGTERM without cutting off what is in hand: ``python drain.py 127.0.0.1:9876``.

Prints how many handlers have ended, and whether all that had begun have. The example sends itself the signal that an
orchestrator sends.
"""

import os
import signal
import sys

import trio

from rocketpy.client import ConsumeFromWhere, Consumer, ConsumerConfig, Message, MessageBatch, open_client

FIRST = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


async def drain_on_sigterm(consumer: Consumer) -> None:
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            is_finished = await consumer.drain(25)
            print("all finished" if is_finished else "some were cut off")
            break


async def main(name_server: str) -> None:
    count = 0

    async def handle(batch: MessageBatch) -> None:
        nonlocal count
        os.kill(os.getpid(), signal.SIGTERM)
        await trio.sleep(0.5)
        count += len(batch)

    async with open_client(name_server) as client:
        async with client.producer("drain_producer") as producer:
            for number in range(10):
                await producer.send(Message("Drain", f"message {number}".encode()))
        async with client.consumer("drain", "Drain", config=FIRST) as consumer, trio.open_nursery() as nursery:
            nursery.start_soon(drain_on_sigterm, consumer)
            await consumer.run(handle, tasks=1)
    print(f"{count} of 10 handled")


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
