"""Poll a topic as a member of a group, and go back in it: ``python lite_pull.py 127.0.0.1:9876``.

Prints how many messages came, and the last one once more.
"""

import sys

import trio

from rocketpy.client import ConsumeFromWhere, LitePullConfig, Message, MessageExt, MessageQueue, open_client


async def main(name_server: str) -> None:
    config = LitePullConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, auto_commit=False)
    async with open_client(name_server) as client:
        async with client.producer("lite_pull_producer") as producer:
            for number in range(10):
                await producer.send(Message("LitePull", f"message {number}".encode()))

        async with client.lite_pull_consumer("lite_pull", "LitePull", config=config) as consumer:
            polled: list[MessageExt] = []
            while len(polled) < 10:
                polled += await consumer.poll(timeout_s=5)
                await consumer.commit()
            print(f"{len(polled)} messages")

            last = polled[-1]
            await consumer.seek(MessageQueue(last.topic, last.broker_name, last.queue_id), last.queue_offset)
            for message in await consumer.poll(timeout_s=5):
                print(f"again: {message.body.decode()}")
            await consumer.commit()


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
