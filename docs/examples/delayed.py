"""Send a message for later: ``python delayed.py 127.0.0.1:9876``.

Levels are the broker's ``messageDelayLevel``: 1s 5s 10s 30s 1m ..., so level 1 is a second. Prints the time from
sending to delivery: ``delivered after 1004 ms``.
"""

import sys

import trio

from rocketpy.client import ConsumeFromWhere, ConsumerConfig, Message, open_client


async def main(name_server: str) -> None:
    config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with open_client(name_server) as client:
        async with client.producer("delayed_producer") as producer:
            await producer.send(Message.create("Delayed", b"in a second", delay_level=1))

        async with client.consumer("delayed", "Delayed", config=config) as consumer:
            async for batch in consumer:
                for message in batch:
                    print(f"delivered after {message.store_timestamp - message.born_timestamp} ms")
                await batch.done()
                break


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
