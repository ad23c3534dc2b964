"""What a member knows of topics, queues and members."""

from __future__ import annotations

from rocketpy.client.consumer.group.knowledge import GroupKnowledge
from rocketpy.client.consumer.group.requests import GroupRequests
from rocketpy.client.consumer.group.subscriptions import Subscriptions
from rocketpy.client.instance import ClientInstance
from rocketpy.protocol.codes import RequestCode
from tests.client.conftest import TOPIC
from tests.client.consumer.group.group_member import QUEUES
from tests.client.fake_cluster import FakeCluster


async def test_queues_are_looked_up_when_the_route_is_not_known_and_only_then(
    cluster: FakeCluster, instance: ClientInstance
) -> None:
    subscriptions = Subscriptions(lambda: 1)
    subscriptions.add(TOPIC, "*")
    requests = GroupRequests(instance=instance, group="g", randomness=instance.randomness)
    knowledge = GroupKnowledge(subscriptions, instance, requests)
    assert knowledge.topics() == [TOPIC]
    assert await knowledge.member_ids(TOPIC) is None, "no route, so no broker to ask"
    assert await knowledge.queues(TOPIC) == QUEUES
    assert await knowledge.queues(TOPIC) == QUEUES
    assert len(cluster.name_server.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 1
    assert await knowledge.queues("another") is None
    assert instance.states.troubles == [], "it was unsubscribed before it was looked up"
    subscriptions.add("another", "*")
    assert await knowledge.queues("another") is None
    assert [each.name for each in instance.states.troubles] == ["another"]
