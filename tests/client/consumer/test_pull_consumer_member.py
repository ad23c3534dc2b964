"""A pull consumer as a member of its group: its share of queues, its offsets, what brokers learn of it and ask it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from rocketpy.client.client import open_client, open_pull_consumer
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.config import PullConfig
from rocketpy.client.consumer.group.assignment_changes import AssignmentChange
from rocketpy.client.consumer.pull_consumer import PullConsumer
from rocketpy.errors import ClientError, LocalProtocolError
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.heartbeat import MessageModel
from rocketpy.protocol.bodies.offset import GetConsumerStatusBody
from rocketpy.protocol.bodies.running import ConsumerRunningInfo
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.client import (
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
)
from rocketpy.protocol.message import MessageQueue
from tests.client.cancelled_everywhere import cancelled_everywhere
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.patience import PATIENCE_SECONDS, until

QUEUES = [MessageQueue(TOPIC, "broker-a", each) for each in range(4)]
QUEUE = QUEUES[0]
LATER = PullConfig(persist_consumer_offset_interval=3_600_000)


@asynccontextmanager
async def member(cluster: FakeCluster, config: PullConfig = LATER) -> AsyncIterator[PullConsumer]:
    """A member of the group g that has its queues."""
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_pull_consumer(cluster.address, group="g", topics=[TOPIC], consumer=config) as consumer:
            await consumer.wait_assigned()
            yield consumer


def let_another_join(cluster: FakeCluster) -> None:
    """Let the group have a member whose id comes first: it has the first half of the queues."""
    cluster.broker.let_join("g", "0.0.0.0@before")


async def test_it_shares_the_queues_of_its_topics_and_the_program_sees_each_change(cluster: FakeCluster) -> None:
    async with member(cluster) as consumer:
        assert consumer.assigned == QUEUES
        changes = consumer.assignment_changes()
        assert await anext(changes) == AssignmentChange(TOPIC, tuple(QUEUES), tuple(QUEUES))
        let_another_join(cluster)
        assert await anext(changes) == AssignmentChange(TOPIC, tuple(QUEUES), tuple(QUEUES[2:]))
        assert consumer.assigned == QUEUES[2:]
    with pytest.raises(StopAsyncIteration):
        await anext(changes)


async def test_a_broadcasting_one_has_every_queue_and_a_file_for_its_offsets(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    config = PullConfig(message_model=MessageModel.BROADCASTING, local_offset_store_dir=tmp_path)
    cluster.broker.other_members = ["0.0.0.0@before"]
    async with member(cluster, config) as consumer:
        assert consumer.assigned == QUEUES
        await consumer.commit(QUEUE, 3)
        (file,) = tmp_path.rglob("offsets.json")  # noqa: ASYNC240
        assert ":3" in file.read_text()
        await consumer.commit(QUEUES[1], 4, persist=False)
    async with member(cluster, config) as consumer:
        assert [await consumer.consumer_offset(each) for each in QUEUES[:3]] == [3, 4, None]
    assert cluster.broker.progress == {}


async def test_waiting_for_queues_ends_with_the_consumer(cluster: FakeCluster) -> None:
    cluster.broker.be_silent(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
    with trio.fail_after(PATIENCE_SECONDS):
        async with (
            trio.open_nursery() as nursery,
            open_pull_consumer(cluster.address, group="g", topics=[TOPIC]) as consumer,
        ):
            nursery.start_soon(consumer.wait_assigned)
            nursery.start_soon(consumer.run_pull_task, TOPIC, _never)
            await until(lambda: cluster.broker.asked(RequestCode.GET_CONSUMER_LIST_BY_GROUP))


async def test_offsets_that_are_only_noted_are_stored_later(cluster: FakeCluster) -> None:
    progress = cluster.broker.progress
    async with member(cluster) as consumer:
        await consumer.commit(QUEUES[0], 1, persist=False)
        await consumer.commit(QUEUES[2], 2, persist=False)
        await consumer.commit(MessageQueue("Other", "broker-a", 0), 3, persist=False)
        assert progress == {}
        assert await consumer.consumer_offset(QUEUES[0]) == 1
        changes = consumer.assignment_changes()
        await anext(changes)
        let_another_join(cluster)
        assert (await anext(changes)).assigned == tuple(QUEUES[2:])
        assert progress == {("g", TOPIC, 0): 1}
        progress["g", TOPIC, 0] = 9  # by its new owner
        assert await consumer.consumer_offset(QUEUES[0]) == 9
        await consumer.commit(QUEUES[0], 5, persist=False)
    assert progress == {("g", TOPIC, 0): 9, ("g", TOPIC, 2): 2, ("g", "Other", 0): 3}

    async with member(cluster, PullConfig(persist_consumer_offset_interval=20)) as consumer:
        (queue, *_) = consumer.assigned
        await consumer.commit(queue, 7, persist=False)
        await until(lambda: progress.get(("g", TOPIC, queue.queue_id)) == 7)


async def test_a_commit_that_is_stored_is_not_undone_by_one_that_was_noted_before(cluster: FakeCluster) -> None:
    async with member(cluster) as consumer:
        await consumer.commit(QUEUE, 1, persist=False)
        await consumer.commit(QUEUE, 2)
        assert await consumer.consumer_offset(QUEUE) == 2
    assert cluster.broker.progress == {("g", TOPIC, 0): 2}


async def test_heartbeats_name_its_topics_with_a_version_that_replaces_nothing(cluster: FakeCluster) -> None:
    async with member(cluster) as consumer:
        await consumer.pull(QUEUE, 0, expression="A")
        await consumer.pull(MessageQueue("TBW102", "broker-a", 0), 0, expression="B")
        await until(lambda: len(cluster.broker.heartbeats[-1].consumer_data_set[0].subscription_data_set) == 2)
        (data,) = cluster.broker.heartbeats[-1].consumer_data_set
    found = {each.topic: (each.sub_string, each.sub_version > 0) for each in data.subscription_data_set}
    assert found == {TOPIC: ("*", False), "TBW102": ("B", True)}
    assert (data.consume_type, data.message_model) == ("CONSUME_ACTIVELY", "CLUSTERING")


async def test_brokers_are_told_its_settings_and_the_offsets_that_it_has_noted(cluster: FakeCluster) -> None:
    async with member(cluster) as consumer:
        await consumer.commit(QUEUE, 1, persist=False)
        (peer, *_) = cluster.broker.peers
        running = GetConsumerRunningInfoRequestHeader(consumer_group="g", client_id="")
        answer = await peer.request(make_request(RequestCode.GET_CONSUMER_RUNNING_INFO, running), PATIENCE_SECONDS)
        status = GetConsumerStatusRequestHeader(topic=TOPIC, group="g")
        offsets = await peer.request(
            make_request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, status), PATIENCE_SECONDS
        )
    info = decode_body(answer.body, ConsumerRunningInfo)
    assert info.properties["consumerPullTimeoutMillis"] == "10000"
    assert [each.topic for each in info.subscription_set] == [TOPIC]
    assert decode_body(offsets.body, GetConsumerStatusBody).message_queue_table == {QUEUE: 1}


async def test_one_without_topics_has_no_share(cluster: FakeCluster) -> None:
    async with open_pull_consumer(cluster.address, group="g") as consumer:
        assert consumer.assigned == []
        for call in (consumer.wait_assigned, lambda: consumer.run_pull_task(TOPIC, _never)):
            with pytest.raises(
                LocalProtocolError, match=r"expected a consumer that was opened with .*, found one with"
            ):
                await call()
        with pytest.raises(LocalProtocolError):
            consumer.assignment_changes()
    async with member(cluster) as consumer:
        with pytest.raises(LocalProtocolError, match="opened with Other"):
            await consumer.run_pull_task("Other", _never)


async def _never(queue: MessageQueue) -> None:
    raise AssertionError("it is not called")


async def test_a_client_has_one_consumer_of_a_group_and_the_first_goes_on(cluster: FakeCluster) -> None:
    async with open_client(cluster.address) as client, client.pull_consumer("g", TOPIC) as first:
        with pytest.raises(ClientError, match="has been created before"):
            async with client.pull_consumer("g", TOPIC):
                pass
        with trio.fail_after(PATIENCE_SECONDS):
            assert await first.wait_assigned() == QUEUES
            let_another_join(cluster)
            await until(lambda: first.assigned == QUEUES[2:])


async def test_pull_tasks_read_each_queue_from_where_the_group_is(cluster: FakeCluster) -> None:
    for number in range(20):
        cluster.broker.put(TOPIC, number % 4, b"%d" % number)
    cluster.broker.progress["g", TOPIC, 1] = 3
    found: list[int] = []
    async with member(cluster) as consumer, trio.open_nursery() as nursery:

        async def pull(queue: MessageQueue) -> float:
            begin = await consumer.consumer_offset(queue) or 0
            result = await consumer.pull(queue, begin, max_msg_nums=2)
            found.extend(int(each.body) for each in result.messages)
            await consumer.commit(queue, result.next_begin_offset, persist=False)
            return 0 if result.messages else 0.01

        nursery.start_soon(consumer.run_pull_task, TOPIC, pull)
        await until(lambda: len(found) == 17)
        nursery.cancel_scope.cancel()
    assert sorted(found) == sorted(set(range(20)) - {1, 5, 9})
    assert cluster.broker.progress == {("g", TOPIC, each): 5 for each in range(4)}


async def test_wherever_it_is_cancelled_its_group_is_left_and_what_was_noted_is_stored(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    noted = 0

    async def join() -> bool:
        nonlocal noted
        async with client.pull_consumer("g", TOPIC, config=LATER) as consumer:
            await consumer.wait_assigned()
            await consumer.commit(QUEUE, noted + 1, persist=False)
            noted += 1
            await trio.lowlevel.checkpoint()
            return True

    with trio.fail_after(PATIENCE_SECONDS), caplog.at_level(logging.WARNING):
        async with open_client(cluster.address, config=ClientConfig(heartbeat_broker_interval=3_600_000)) as client:
            async for attempt in cancelled_everywhere(join):
                assert cluster.broker.progress.get(("g", TOPIC, 0), 0) == noted, attempt.checkpoint
    assert noted
    assert not caplog.records


async def test_one_whose_block_raises_leaves_its_group(cluster: FakeCluster) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with member(cluster):
            raise KeyError("mine")
    assert len(cluster.broker.asked(RequestCode.UNREGISTER_CLIENT)) == 1
