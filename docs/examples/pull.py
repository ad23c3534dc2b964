"""Read a topic to its end, and go on from there next time: ``python pull.py 127.0.0.1:9876``, or with a topic after it.

Sends one message first. Prints queue, offset and body of each message, and how many there were.
"""

import sys

import trio

from rocketpy.client import Message, open_producer, open_pull_consumer


async def main(name_server: str, topic: str = "Pull") -> None:
    async with open_producer(name_server) as producer:
        await producer.send(Message(topic, b"one more"))
    count = 0
    async with (
        open_pull_consumer(name_server, group="pull") as consumer,
        consumer.open_messages(topic, start="stored", until_end=True) as messages,
    ):
        async for message in messages:
            print(message.queue_id, message.queue_offset, message.body.decode())
            count += 1
        await messages.commit()
    print(f"{count} messages")


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
