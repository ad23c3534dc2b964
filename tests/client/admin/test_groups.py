"""Settings of consumer groups."""

from __future__ import annotations

import pytest

from rocketpy.client.admin.groups import SYSTEM_GROUPS
from rocketpy.client.client import open_admin_client
from rocketpy.errors import BrokerError, BrokersError
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from tests.client.admin.conftest import RealScene
from tests.client.fake_cluster import FakeCluster


async def test_a_group_is_created_shown_changed_and_deleted(real: RealScene) -> None:
    groups = real.admin.groups
    assert await groups.create(SubscriptionGroupConfig("g", retry_max_times=3)) == [real.broker]
    assert await groups.config(real.broker, "g") == SubscriptionGroupConfig("g", retry_max_times=3)
    changed = SubscriptionGroupConfig("g", consume_enable=False, retry_queue_nums=2)
    await groups.update(real.broker, changed)
    assert (await groups.configs(real.broker)).subscription_group_table["g"] == changed
    assert await groups.config(real.broker, "nobody") is None
    await groups.delete(real.broker, "g")
    assert await groups.config(real.broker, "g") is None


async def test_groups_of_users_are_told_from_those_of_rocketmq(real: RealScene) -> None:
    for group in ("mine", "CID_RMQ_SYS_mine"):
        await real.admin.groups.update(real.broker, SubscriptionGroupConfig(group))
    everything = (await real.admin.groups.configs(real.broker)).subscription_group_table
    assert {"TOOLS_CONSUMER", "CID_RMQ_SYS_mine"} <= set(everything)
    assert set((await real.admin.groups.user_configs(real.broker)).subscription_group_table) == {"mine"}
    assert SYSTEM_GROUPS & set(everything)


async def test_the_brokers_that_refuse_a_group_are_named(two_brokers: FakeCluster) -> None:
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    first, second = two_brokers.brokers
    for broker in (first, second):
        broker.answer(code)
    second.refuse(code, ResponseCode.SYSTEM_ERROR, "a slave")
    async with open_admin_client(two_brokers.address) as admin:
        with pytest.raises(BrokersError, match="a slave") as caught:
            await admin.groups.create(SubscriptionGroupConfig("g"))
        assert (set(caught.value.failures), set(caught.value.results)) == ({second.address}, {first.address})
        with pytest.raises(BrokerError, match="a slave BROKER"):
            await admin.groups.update(second.address, SubscriptionGroupConfig("g"))
