"""What brokers see of a member: heartbeats from joining to leaving, and questions about its filters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from rocketpy.client.consumer.group.membership import Membership
from rocketpy.client.consumer.group.subscriptions import Subscriptions
from rocketpy.client.consumer.message_selector import MessageSelector
from rocketpy.errors import ClientError
from rocketpy.protocol.bodies.heartbeat import ConsumerData
from rocketpy.protocol.codes import RequestCode
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.client.opened import opened
from tests.patience import PATIENCE_SECONDS


@asynccontextmanager
async def membership(
    cluster: FakeCluster, selector: str | MessageSelector = "*"
) -> AsyncIterator[tuple[Membership, Subscriptions]]:
    subscriptions = Subscriptions(lambda: 1)
    subscriptions.add(TOPIC, selector)
    with trio.fail_after(PATIENCE_SECONDS):
        async with opened(cluster.address) as instance:
            yield (
                Membership(
                    instance=instance,
                    group="g",
                    subscriptions=subscriptions,
                    data=lambda: ConsumerData("g", subscription_data_set=subscriptions.values),
                ),
                subscriptions,
            )


async def test_a_member_is_known_when_it_has_joined_and_unknown_when_it_has_left(cluster: FakeCluster) -> None:
    async with membership(cluster) as (member, _):
        member.register()
        with pytest.raises(ClientError, match=r"The consumer group\[g\] has been created before"):
            member.register()
        await member.join()
        assert cluster.broker.heartbeats[-1].consumer_data_set[0].group_name == "g"
        await member.leave()
        assert cluster.broker.asked(RequestCode.UNREGISTER_CLIENT)


async def test_a_change_looks_for_the_brokers_of_a_new_topic_before_it_is_announced(cluster: FakeCluster) -> None:
    async with membership(cluster) as (member, subscriptions):
        member.register()
        await member.join()
        cluster.add_topic("Other")
        subscriptions.add("Other", "*")
        await member.announce_change()
        topics = [each.topic for each in cluster.broker.heartbeats[-1].consumer_data_set[0].subscription_data_set]
        assert sorted(topics) == ["Other", TOPIC]


async def test_a_broker_that_does_not_answer_delays_an_announcement_only_a_little(cluster: FakeCluster) -> None:
    cluster.broker.be_silent(RequestCode.HEART_BEAT)
    async with membership(cluster) as (member, _):
        member.register()
        begun = trio.current_time()
        await member.join()
        assert 1 <= trio.current_time() - begun < PATIENCE_SECONDS / 2
