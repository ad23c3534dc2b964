"""When the route of a retry topic is looked up, in virtual time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.client import open_client
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.group.retry_route import ATTEMPTS, RetryRoute
from rocketpy.client.consumer.statuses import ConsumeConcurrentlyStatus
from rocketpy.client.routes import RouteTable
from rocketpy.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketpy.protocol.message import MessageQueue
from tests.client.conftest import FIRST, TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.patience import until

RETRY = "%RETRY%g"


class Routes:
    """Nameservers that learn of a broker's queue at some time."""

    def __init__(self, known_at: dict[str, float]) -> None:
        self.table = RouteTable()
        self.looked_up_at: list[float] = []
        self._known_at = known_at

    async def look_up_subscribed(self, topic: str, *, anew: bool) -> list[MessageQueue] | None:
        assert (topic, anew) == (RETRY, True)
        await trio.lowlevel.checkpoint()
        self.looked_up_at.append(trio.current_time())
        names = [name for name, at in self._known_at.items() if at <= trio.current_time()]
        brokers = [BrokerData("c", name, {0: name}) for name in names]
        self.table.put(
            RETRY, TopicRouteData(queue_datas=[QueueData(each, 1, 1, 6) for each in names], broker_datas=brokers)
        )
        return None


@pytest.mark.parametrize(
    ("known_at", "looked_up_at", "rebalanced"),
    [({"a": 0, "b": 0}, [1], 1), ({"a": 0, "b": 2}, [1, 3], 2), ({"a": 0}, [1, 3, 7, 15, 31], 1)],
)
async def test_it_is_looked_up_until_the_queues_of_all_brokers_that_need_it_are_known(
    known_at: dict[str, float], looked_up_at: list[float], rebalanced: int, autojump_clock: MockClock
) -> None:
    begun = trio.current_time()
    routes = Routes({name: begun + at for name, at in known_at.items()})
    count = 0

    def rebalance() -> None:
        nonlocal count
        count += 1

    service = RetryRoute(routes=routes, retry_topic=RETRY, rebalance=rebalance)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        for name in ("a", "b", "b"):
            service.note_sent_back(name)
        await trio.sleep(100)
        assert [round(each - begun) for each in routes.looked_up_at] == looked_up_at
        assert count == rebalanced
        assert len(looked_up_at) <= ATTEMPTS
        service.note_sent_back("a")
        await trio.sleep(100)
        assert len(routes.looked_up_at) == len(looked_up_at), "it is known"
        nursery.cancel_scope.cancel()


async def test_a_queue_of_the_retry_topic_is_taken_soon_after_a_broker_has_made_it(two_brokers: FakeCluster) -> None:
    """The other broker's was there when the group was made, and no refresh of all routes comes to help."""
    first, second = two_brokers.brokers
    two_brokers.name_server.routes[RETRY] = two_brokers.route(1, brokers=[first])
    second.put(TOPIC, 0, b"fails")
    config = ClientConfig(poll_name_server_interval=1_000_000_000)

    async def handler(batch: MessageBatch) -> ConsumeConcurrentlyStatus:
        return ConsumeConcurrentlyStatus.RECONSUME_LATER

    async with (
        open_client(two_brokers.address, config=config) as client,
        client.consumer("g", TOPIC, config=FIRST) as consumer,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(consumer.run, handler)
        await until(lambda: second.sent_back)
        two_brokers.add_topic(RETRY, 1)
        await until(lambda: MessageQueue(RETRY, "broker-b", 0) in consumer.assigned)
        nursery.cancel_scope.cancel()
