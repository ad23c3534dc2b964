"""Have each consumer of a group get every message: ``python broadcast.py 127.0.0.1:9876``.

The progress of a broadcasting consumer is in a file below ``~/.rocketmq_offsets``, found by the client's name. Prints a
line for each of two consumers: ``first: 5 messages``.
"""

import sys

import trio

from rocketpy.client import (
    ClientConfig,
    ConsumeFromWhere,
    ConsumerConfig,
    Message,
    MessageModel,
    open_client,
    open_producer,
)

COUNT = 5


async def consume(name_server: str, name: str, counts: dict[str, int]) -> None:
    config = ConsumerConfig(
        message_model=MessageModel.BROADCASTING, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    )
    async with (
        open_client(name_server, config=ClientConfig(instance_name=name)) as client,
        client.consumer("broadcast", "Broadcast", config=config) as consumer,
    ):
        async for batch in consumer:
            counts[name] += len(batch)
            await batch.done()
            if counts[name] >= COUNT:
                break


async def main(name_server: str) -> None:
    async with open_producer(name_server, group="broadcast_producer") as producer:
        for number in range(COUNT):
            await producer.send(Message("Broadcast", f"news {number}".encode()))
    counts = {"first": 0, "second": 0}
    async with trio.open_nursery() as nursery:
        for name in counts:
            nursery.start_soon(consume, name_server, name, counts)
    for name, count in counts.items():
        print(f"{name}: {count} messages")


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
