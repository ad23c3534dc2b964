"""How a member joins its group, says what it wants, and leaves, against a scripted broker."""

from __future__ import annotations

import pytest

from rocketpy.client.consumer.group.consumer_group import retry_topic_of
from tests.client.consumer.group.group_member import member
from tests.client.fake_cluster import FakeCluster


@pytest.mark.parametrize("suspended", [True, False])
async def test_a_suspended_member_does_not_rebalance(cluster: FakeCluster, *, suspended: bool) -> None:
    async with member(cluster) as world:
        if suspended:
            world.group.suspend()
            world.group.suspend()
        await world.group.membership.announce()
        await world.group.rebalance.rebalance()
        assert bool(world.group.queues.assigned) is not suspended


def test_the_retry_topic_is_named_after_the_group() -> None:
    assert retry_topic_of("g") == "%RETRY%g"
