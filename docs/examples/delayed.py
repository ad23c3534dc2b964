"""Send a message for later: ``python delayed.py 127.0.0.1:9876``.

Levels are the broker's ``messageDelayLevel``: 1s 5s 10s 30s 1m ..., so level 3 is ten seconds.
"""

import sys

import trio

from rocketpy.client import Message, open_producer


async def main(name_server: str) -> None:
    async with open_producer(name_server, group="delayed") as producer:
        result = await producer.send(Message("Delayed", b"in ten seconds", {"DELAY": "3"}))
    print(result.status.name)


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
