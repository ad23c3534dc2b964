"""A consumer that is cancelled at each of its checkpoints: nothing stays locked or registered, and nothing is lost."""

from __future__ import annotations

from contextlib import aclosing

import trio

from rocketpy.client.client import open_client
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.statuses import ConsumeOrderlyStatus
from rocketpy.protocol.bodies.heartbeat import ConsumeFromWhere
from tests.client.cancelled_everywhere import cancelled_everywhere
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.patience import PATIENCE_SECONDS

FIRST = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


def stored(cluster: FakeCluster) -> int:
    """How many messages the group has committed."""
    return sum(
        offset for (group, topic, _), offset in cluster.broker.progress.items() if (group, topic) == ("g", TOPIC)
    )


async def test_what_was_acknowledged_is_stored_and_nothing_else(cluster: FakeCluster) -> None:
    cluster.add_topic("%RETRY%g", 1)
    bodies = {b"%d" % number for number in range(8)}
    for number in range(8):
        cluster.broker.put(TOPIC, number % 4, b"%d" % number)
    acknowledged: set[bytes] = set()

    async with open_client(cluster.address) as client:

        async def consume() -> None:
            async with client.consumer("g", TOPIC, config=FIRST) as consumer:
                batches = consumer.batches(acknowledges=False)
                for _ in range(2):
                    batch = await anext(batches)
                    acknowledged.update(each.body for each in batch)
                    await batch.done()

        with trio.fail_after(PATIENCE_SECONDS):
            async with aclosing(cancelled_everywhere(consume)) as attempts:
                async for _ in attempts:
                    assert stored(cluster) <= len(acknowledged)
                    if acknowledged == bodies:
                        break
            async with client.consumer("g", TOPIC, config=FIRST) as again:
                while acknowledged != bodies:
                    acknowledged.update(each.body for each in await anext(again.batches()))


async def test_an_orderly_consumer_leaves_no_locks(cluster: FakeCluster) -> None:
    cluster.add_topic("%RETRY%g", 1)
    for number in range(4):
        cluster.broker.put(TOPIC, number, b"x")

    async with open_client(cluster.address) as client:

        async def consume() -> bool:
            handled = trio.Event()

            async def handler(batch: MessageBatch) -> ConsumeOrderlyStatus | None:
                handled.set()
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT

            async with client.consumer("g", TOPIC, config=FIRST) as consumer, trio.open_nursery() as nursery:
                nursery.start_soon(consumer.run_orderly, handler)
                await handled.wait()
                nursery.cancel_scope.cancel()
            return True

        with trio.fail_after(PATIENCE_SECONDS):
            async for attempt in cancelled_everywhere(consume):
                assert cluster.broker.locks == {}, f"cancelled at checkpoint {attempt.checkpoint}"
                assert stored(cluster) == 0
