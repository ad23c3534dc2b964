"""Handle the messages of each order in their order: ``python ordered.py 127.0.0.1:9876``.

Messages with one key go to one queue, and an orderly consumer handles each queue in its order. Prints a line for each
order: ``order 1: created, paid, shipped``.
"""

import sys
from collections import defaultdict

import trio

from rocketpy.client import ConsumeFromWhere, ConsumerConfig, Message, MessageBatch, open_client, queue_by_hash

ORDERS = ("order 1", "order 2", "order 3")
STEPS = ("created", "paid", "shipped")


async def main(name_server: str) -> None:
    config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with open_client(name_server) as client:
        async with client.producer("ordered_producer") as producer:
            for step in STEPS:
                for order in ORDERS:
                    message = Message("Ordered", f"{order}: {step}".encode())
                    await producer.send(message, queue=queue_by_hash(order))

        seen: dict[str, list[str]] = defaultdict(list)
        with trio.CancelScope() as until_all_are_shipped:

            async def handle(batch: MessageBatch) -> None:
                for message in batch:
                    order, _, step = message.body.decode().partition(": ")
                    seen[order].append(step)
                if sum(map(len, seen.values())) >= len(ORDERS) * len(STEPS):
                    until_all_are_shipped.cancel()

            async with client.consumer("ordered", "Ordered", config=config) as consumer:
                await consumer.run_orderly(handle)
    for order in ORDERS:
        print(f"{order}: {', '.join(seen[order])}")


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
