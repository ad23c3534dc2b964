"""Make a topic, look at what waits in it, and skip it: ``python administer.py 127.0.0.1:9876``.

Prints how many messages the group ``late`` has skipped.
"""

import sys

import trio

from rocketpy.client import Message, open_admin_client, open_producer
from rocketpy.client.admin import TO_END, SubscriptionGroupConfig
from rocketpy.errors import BrokersError


async def main(name_server: str) -> None:
    async with open_admin_client(name_server) as admin:
        try:
            await admin.topics.create("Administered", queue_nums=2)  # at all masters, or at those of one cluster=...
            await admin.groups.create(SubscriptionGroupConfig("late"))
        except BrokersError as failure:  # of several brokers, some have them now
            print(failure.failures)
            raise
        async with open_producer(name_server) as producer:
            for number in range(4):
                await producer.send(Message("Administered", b"%d" % number, {"KEYS": f"key{number}"}))
        route = await admin.topics.route("Administered")
        assert route is not None
        masters = {broker.broker_name: broker.broker_addrs[0] for broker in route.broker_datas}
        for queue, found in (await admin.topics.stats("Administered")).offset_table.items():
            await admin.offsets.commit(masters[queue.broker_name], "late", queue, found.min_offset)
        skipped = await admin.resets.reset("Administered", "late", TO_END)
        print(f"{sum(skipped.values())} messages skipped")


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
