"""Keep programs apart that share brokers: ``python namespace.py 127.0.0.1:9876``.

Two clients use the same names of a topic and a group, and do not meet. Prints what each reads, and the names of the
topics at the brokers.
"""

import sys

import trio

from rocketpy.client import (
    ClientConfig,
    ConsumeFromWhere,
    ConsumerConfig,
    Message,
    open_admin_client,
    open_client,
)


async def main(name_server: str) -> None:
    from_first = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    for tenant in ("blue", "green"):
        config = ClientConfig(namespace=tenant)
        async with open_client(name_server, config=config) as client:
            async with client.producer("namespace_producer") as producer:
                await producer.send(Message("Namespace", f"for {tenant}".encode()))
            async with client.consumer("namespace", "Namespace", config=from_first) as consumer:
                async for batch in consumer:
                    for message in batch:
                        print(f"{tenant} reads from {message.topic}: {message.body.decode()}")
                    await batch.done()
                    break

    async with open_admin_client(name_server) as admin:
        print(*(topic for topic in await admin.topics.names() if topic.endswith("%Namespace")))


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
