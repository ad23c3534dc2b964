"""Share the messages of a topic with the other members of a group: ``python group.py 127.0.0.1:9876``.

Prints how many messages came.
"""

import sys

import trio

from rocketpy.client import ConsumeFromWhere, ConsumerConfig, Message, MessageBatch, open_client


async def main(name_server: str) -> None:
    config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with open_client(name_server) as client:
        async with client.producer("group_producer") as producer:
            for number in range(10):
                await producer.send(Message("Group", f"message {number}".encode()))

        count = 0
        with trio.CancelScope() as until_all_are_handled:

            async def handle(batch: MessageBatch) -> None:
                nonlocal count
                count += len(batch)
                if count >= 10:
                    until_all_are_handled.cancel()

            async with client.consumer("group", "Group", config=config) as consumer:
                await consumer.run(handle, tasks=4)
    print(f"{count} messages")


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
