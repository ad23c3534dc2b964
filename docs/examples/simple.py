"""Send one by one, several at once, and without an answer: ``python simple.py 127.0.0.1:9876``.

Prints status and queue of three messages, and how many more were sent.
"""

import sys

import trio

from rocketpy.client import Message, open_producer


async def main(name_server: str) -> None:
    async with open_producer(name_server, group="simple") as producer:
        for number in range(3):
            message = Message.create("Simple", f"message {number}".encode(), tags="example", keys=f"key{number}")
            result = await producer.send(message)
            print(result.status.name, result.message_queue.queue_id)

        pending = [await producer.send_soon(Message("Simple", f"message {number}".encode())) for number in range(3, 10)]
        for each in pending:
            await each
        print(f"{len(pending)} more")

        await producer.send_oneway(Message("Simple", b"stored or not"))


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
