"""Send many messages in one request: ``python batch.py 127.0.0.1:9876``."""

import sys

import trio

from rocketpy.client import Message, open_producer


async def main(name_server: str) -> None:
    messages = [Message("Batch", f"line {number}".encode()) for number in range(100)]
    async with open_producer(name_server, group="batch") as producer:
        result = await producer.send_batch(messages)
    print(f"{len(messages)} messages from offset {result.queue_offset} of queue {result.message_queue.queue_id}")


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
