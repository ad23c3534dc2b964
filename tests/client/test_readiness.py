"""Waiting until a role can work, and the error that says what is missing."""

from __future__ import annotations

import math

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client import LocalTransactionState, MessageExt, open_client
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.readiness import PAUSE_SECONDS
from rocketpy.errors import ClientError, LocalProtocolError, NotReadyError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.message import MessageQueue
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.patience import PATIENCE_SECONDS

NOWHERE = "127.0.0.1:1"
SOON = 0.3


async def never(batch: MessageBatch) -> None:
    raise AssertionError("nothing is consumed")


async def unknown(message: MessageExt) -> LocalTransactionState:
    return LocalTransactionState.UNKNOW


async def test_every_role_waits_until_it_can_work(cluster: FakeCluster) -> None:
    async with open_client(cluster.address) as client, trio.open_nursery() as nursery:
        await client.wait_ready(PATIENCE_SECONDS, TOPIC)
        async with client.producer("p") as producer, client.transaction_producer("q", check=unknown) as transactions:
            await producer.wait_ready(PATIENCE_SECONDS, TOPIC, "Created by the broker")
            await transactions.wait_ready(PATIENCE_SECONDS)
        async with client.consumer("g", TOPIC) as consumer:
            await consumer.wait_ready(PATIENCE_SECONDS)
            assert len(consumer.assigned) == 4
            assert (await anext(consumer.assignment_changes())).topic == TOPIC
        async with client.consumer("g", TOPIC) as consumer:
            await nursery.start(lambda task_status: consumer.run_orderly(never, task_status=task_status))
            await consumer.wait_ready(PATIENCE_SECONDS)
        async with client.lite_pull_consumer("g", TOPIC) as polling:
            await polling.wait_ready(PATIENCE_SECONDS)
        async with client.lite_pull_consumer("g") as polling:
            await polling.assign([MessageQueue(TOPIC, "broker-a", 0)])
            await polling.wait_ready(PATIENCE_SECONDS)
        async with client.pull_consumer("g", TOPIC) as pulling, client.pull_consumer("h") as other:
            await pulling.wait_ready(PATIENCE_SECONDS)
            await other.wait_ready(PATIENCE_SECONDS, TOPIC)


async def test_an_address_or_a_topic_with_a_typo_is_named() -> None:
    async with open_client(NOWHERE) as client:
        with pytest.raises(NotReadyError, match=rf"not ready after 0.3 s: .*no nameserver answers.*{NOWHERE}"):
            await client.wait_ready(SOON)
        async with client.consumer("g", "T") as consumer:
            with pytest.raises(NotReadyError, match=NOWHERE):
                await consumer.run(never, fail_fast_s=SOON)


async def test_a_topic_that_does_not_exist_is_named(cluster: FakeCluster) -> None:
    del cluster.name_server.routes["TBW102"]
    async with open_client(cluster.address) as client:
        async with client.consumer("g", "Typo", TOPIC) as consumer:
            for start in (consumer.run, consumer.run_orderly):
                with pytest.raises(NotReadyError, match="no route for topic Typo: no nameserver has a route") as caught:
                    await start(never, fail_fast_s=SOON)
            assert len(caught.value.missing) == 1
            assert isinstance(caught.value, ClientError)
        async with client.producer("p") as producer:
            with pytest.raises(NotReadyError, match="No route info of this topic: Typo"):
                await producer.wait_ready(SOON, TOPIC, "Typo")
        async with client.lite_pull_consumer("g") as polling:
            with pytest.raises(NotReadyError, match="expected a call of subscribe or assign"):
                await polling.wait_ready(SOON)
        with pytest.raises(ValueError, match="timeout_s is nan"):
            await client.wait_ready(math.nan)


async def test_a_member_that_no_broker_takes_is_not_ready(cluster: FakeCluster) -> None:
    cluster.broker.refuse(RequestCode.HEART_BEAT, ResponseCode.NO_PERMISSION, "no account")
    cluster.broker.other_members = ["0.0.0.0@another"]
    async with open_client(cluster.address) as client, client.consumer("g", TOPIC) as consumer:
        with pytest.raises(LocalProtocolError, match="has not joined"):
            consumer.assignment_changes()
        with pytest.raises(NotReadyError, match=r"the group has not divided the queues of TopicTest.*no account"):
            await consumer.wait_ready(3 * PAUSE_SECONDS)  # there are rounds of the rebalance, which give it nothing
        cluster.broker.behave()
        await consumer.wait_ready(PATIENCE_SECONDS)


async def test_a_nameserver_that_is_silent_is_named_in_time(cluster: FakeCluster, autojump_clock: MockClock) -> None:
    autojump_clock.autojump_threshold = 0.05
    cluster.name_server.be_silent(RequestCode.GET_BROKER_CLUSTER_INFO)
    async with open_client(cluster.address) as client:
        with pytest.raises(NotReadyError, match=f"no answer yet of {cluster.address}"):
            await client.wait_ready(1)


async def test_a_nameserver_that_refuses_answers(cluster: FakeCluster) -> None:
    cluster.name_server.refuse(RequestCode.GET_BROKER_CLUSTER_INFO, ResponseCode.NO_PERMISSION)
    async with open_client(cluster.address) as client:
        await client.wait_ready(PATIENCE_SECONDS, TOPIC)
