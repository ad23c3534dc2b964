"""Topics, groups and clients that come and go leave nothing in a nameserver, a broker or a client that stays."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import trio

from rocketpy.broker.wiring import Wiring
from rocketpy.client import Client, ClientConfig, Message, open_client
from rocketpy.client.instance import ClientInstance
from rocketpy.nameserver.routes.route_info import RouteInfoManager
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from tests.client.real_cluster import RealCluster, open_real_cluster
from tests.forgotten import growth, sizes_within
from tests.patience import PATIENCE_SECONDS

CYCLES = 4
QUICK = ClientConfig(poll_name_server_interval=100)

ON_PURPOSE = {
    "ConsumeQueueTable.deleted_before",  # until the log has no record of the topic any more
    "DeletedTopics._marks",  # the same, and 20,000 at most: slaves have to hear of them
    "DeletedTopics._pieces",  # the same, as they are in the file
    "DelayProgress.offsets",  # one for each level that was used, as it was written last
    "OffsetResets._revoked",  # 100,000 pairs; of gone topics and groups until broker.metadata.gone_groups has looked
    "OffsetResets._revoked[]",
    "OffsetResets._reset_at",
    "OffsetResets._reset_at[]",
    "OffsetResets._unshared",  # of these pairs, those that changed since the file was written
    "OsDisk._unsynced_directories",  # of topics in deleted_before, until the directory is synced or removed
    "PutTimes._slow",  # the slow bursts of a minute
    "StatsItem._notes",  # samples of a minute, an hour and a day
    "StoreFigures._samples",  # of ten minutes at most
    "LatenessService._samples",  # of a minute
    "LatenessService._samples[]",
}
"""Tables that keep names for a time or up to a bound, each for its reason."""


async def wait_until_nothing_is_delayed(cluster: RealCluster, client: Client) -> None:
    """Wait until the progress of the first level is at the end of its queue."""
    progress, end = "", "0"
    with trio.fail_after(PATIENCE_SECONDS):
        while progress != end:
            await trio.sleep(0.1)
            rows = await client.admin().brokers.runtime_info(cluster.broker_address)
            progress, end = rows.get("scheduleMessageOffset_1", ",0").split(",")


async def cycle(cluster: RealCluster, stays: Client, number: int) -> None:
    """Let a topic, a group and a client come and go, as a test suite on a shared broker does."""
    admin, topic, group = stays.admin(), f"Topic{number:02}", f"group{number:02}"  # records of one size
    await admin.topics.create_like("DefaultCluster", topic, queue_nums=2)
    await admin.groups.update(cluster.broker_address, SubscriptionGroupConfig(group))
    async with stays.producer(f"p{number}") as producer:
        await producer.send(Message.create(topic, b"body", keys="key"))
        await producer.send(Message.create(topic, b"late", delay_level=1))  # due when the topic has gone
    async with open_client(cluster.address) as comes, comes.pull_consumer(group) as consumer:
        queues = await consumer.queues(topic)
        for queue in queues:
            await consumer.pull(queue, 0)
            await consumer.commit(queue, 1)
    await admin.groups.delete(cluster.broker_address, group, remove_offset=True)
    for each in (topic, f"%RETRY%{group}"):
        await admin.topics.delete(each, cluster="DefaultCluster")


def programs() -> list[object]:
    """Return what runs in this process: the broker, the tables of the nameserver, and the clients."""
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, (Wiring, RouteInfoManager, ClientInstance))]


async def test_names_that_come_and_go_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpy.client.route_finder.UNUSED_SECONDS", 0.0)
    async with open_real_cluster(tmp_path) as cluster, open_client(cluster.address, config=QUICK) as stays:
        for number in range(CYCLES):
            await cycle(cluster, stays, number)
        await wait_until_nothing_is_delayed(cluster, stays)
        sizes = sizes_within(*programs())
        for number in range(CYCLES, 3 * CYCLES):
            await cycle(cluster, stays, number)
        await wait_until_nothing_is_delayed(cluster, stays)
        found = {"": (0, 0)}
        with trio.move_on_after(PATIENCE_SECONDS):  # until ended connections and refreshed routes have been noticed
            while found:
                await trio.sleep(0.1)
                more = growth(sizes, sizes_within(*programs()))
                found = {title: pair for title, pair in more.items() if title not in ON_PURPOSE}
        assert found == {}
