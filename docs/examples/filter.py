"""Receive only some messages of a topic: ``python filter.py 127.0.0.1:9876``.

Tags are compared by every broker. SQL92 expressions over properties need ``enablePropertyFilter=true``, which is off by
default: this program sets it in every broker. Prints what passes the two filters.
"""

import sys

import trio

from rocketpy.client import ConsumeFromWhere, ConsumerConfig, Message, MessageSelector, open_client


async def main(name_server: str) -> None:
    config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    subscriptions = {
        "FilterByTag": "created || paid",
        "FilterBySql": MessageSelector.by_sql("amount BETWEEN 10 AND 99 AND region = 'east'"),
    }
    async with open_client(name_server) as client:
        brokers = client.admin().brokers
        for each in (await brokers.clusters()).broker_addr_table.values():
            for address in each.broker_addrs.values():
                await brokers.update_config(address, {"enablePropertyFilter": "true"})

        async with client.producer("filter_producer") as producer:
            for tag in ("created", "paid", "shipped"):
                await producer.send(Message.create("FilterByTag", f"an order is {tag}".encode(), tags=tag))
            for amount, region in ((5, "east"), (50, "east"), (50, "west")):
                properties = {"amount": str(amount), "region": region}
                body = f"{amount} in the {region}".encode()
                await producer.send(Message.create("FilterBySql", body, properties=properties))

        passed: list[str] = []
        async with client.consumer("filter", subscriptions=subscriptions, config=config) as consumer:
            async for batch in consumer:
                passed += [message.body.decode() for message in batch]
                await batch.done()
                if len(passed) >= 3:
                    break
    print("\n".join(sorted(passed)))


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
