"""Send from an asyncio program: ``python asyncio_program.py 127.0.0.1:9876``."""

import asyncio
import sys

from rocketpy.client import Message, aio


async def main(name_server: str) -> None:
    async with aio.open_producer(name_server, group="asyncio") as producer:
        sends = [producer.send(Message("Asyncio", f"message {number}".encode())) for number in range(5)]
        results = await asyncio.gather(*sends)
    print(f"{len(results)} messages")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
