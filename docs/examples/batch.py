"""Send many messages in few requests: ``python batch.py 127.0.0.1:9876``.

``send_batch`` sends its messages as one: all are stored, side by side, or none. ``batching`` collects messages that are
sent one by one. Prints where the batch is, and how many messages were collected.
"""

import sys

import trio

from rocketpy.client import Message, open_producer


async def main(name_server: str) -> None:
    messages = [Message("Batch", f"line {number}".encode()) for number in range(100)]
    async with open_producer(name_server, group="batch") as producer:
        result = await producer.send_batch(messages)
        print(f"{len(messages)} messages from offset {result.queue_offset} of queue {result.message_queue.queue_id}")

        async with producer.batching() as batches, trio.open_nursery() as nursery:
            for message in messages:
                nursery.start_soon(batches.send, message)
        print(f"{len(messages)} messages collected")


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
