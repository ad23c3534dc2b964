"""Send one by one, and several at once: ``python simple.py 127.0.0.1:9876``."""

import sys

import trio

from rocketpy.client import Message, open_producer


async def main(name_server: str) -> None:
    async with open_producer(name_server, group="simple") as producer:
        for number in range(3):
            result = await producer.send(Message("Simple", f"message {number}".encode(), {"TAGS": "example"}))
            print(result.status.name, result.message_queue.queue_id)

        pending = [await producer.send_soon(Message("Simple", f"message {number}".encode())) for number in range(3, 10)]
        for each in pending:
            await each
        print(f"{len(pending)} more")


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
