"""A consumer that pulls every queue of a topic in tasks of its own, for scenes of whole clusters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from rocketpy.client.client import open_pull_consumer
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.pull_consumer import PullConsumer
from rocketpy.protocol.message import MessageQueue
from rocketpy.testing.cluster_world import ClusterWorld, environment_of
from rocketpy.testing.sim.host import SimProcess

ConsumeQueue = Callable[[PullConsumer, MessageQueue], Awaitable[None]]


async def consume_queues(
    world: ClusterWorld, process: SimProcess, consume_queue: ConsumeQueue, *, config: ClientConfig
) -> None:
    """Run the loop of each queue of the topic T, as a client in a process, until that ends."""
    environment = environment_of(process)
    async with open_pull_consumer(world.name_servers, group="g", config=config, environment=environment) as consumer:
        process.started()
        async with trio.open_nursery() as nursery:
            for queue in await consumer.queues("T"):
                nursery.start_soon(consume_queue, consumer, queue)
