"""Send and consume in an asyncio program: ``python asyncio_program.py 127.0.0.1:9876``. Prints how many came."""

import asyncio
import sys

from rocketpy.client import ConsumeFromWhere, ConsumerConfig, Message, aio


async def main(name_server: str) -> None:
    config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with aio.open_client(name_server) as client:
        async with client.producer("asyncio_producer") as producer:
            sends = [producer.send(Message("Asyncio", f"message {number}".encode())) for number in range(5)]
            await asyncio.gather(*sends)

        count = 0
        async with client.consumer("asyncio", "Asyncio", config=config) as consumer:
            async for batch in consumer:
                count += len(batch)
                await batch.done()
                if count >= len(sends):
                    break
    print(f"{count} messages")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
