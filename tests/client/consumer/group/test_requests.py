"""Who is in a group, and locks, as brokers see them."""

from __future__ import annotations

from random import Random

from rocketpy.client.consumer.group.requests import GroupRequests
from rocketpy.client.instance import ClientInstance
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.message import MessageQueue
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.client.opened import opened

ON_A, ON_B = MessageQueue(TOPIC, "broker-a", 0), MessageQueue(TOPIC, "broker-b", 0)


async def requests_of(instance: ClientInstance) -> GroupRequests:
    await instance.routes.look_up_again(TOPIC)
    return GroupRequests(instance=instance, group="g", randomness=Random(1))


async def test_members_are_sorted_and_any_broker_of_the_topic_will_do(two_brokers: FakeCluster) -> None:
    for broker in two_brokers.brokers:
        broker.other_members = ["c", "a"]
    async with opened(two_brokers.address) as instance:
        requests = await requests_of(instance)
        assert await requests.member_ids("unknown") is None
        assert await requests.member_ids(TOPIC) == ["a", "c"]
        two_brokers.brokers[0].refuse(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ResponseCode.SYSTEM_ERROR)
        for _ in range(5):
            assert await requests.member_ids(TOPIC) == ["a", "c"]
        two_brokers.brokers[1].other_members = []
        assert await requests.member_ids(TOPIC) is None


async def test_locks_are_taken_from_each_broker_and_given_back(two_brokers: FakeCluster) -> None:
    broker_a, broker_b = two_brokers.brokers
    async with opened(two_brokers.address) as instance:
        requests = await requests_of(instance)
        broker_b.locks[ON_B] = "another client"
        assert await requests.lock([ON_A, ON_B]) == ({ON_A}, {ON_B})
        assert broker_a.locks == {ON_A: instance.client_id}
        await requests.unlock([ON_A, ON_B])
        assert broker_a.locks == {}
        assert broker_b.locks == {ON_B: "another client"}


async def test_a_broker_that_does_not_answer_has_neither_locked_nor_refused(two_brokers: FakeCluster) -> None:
    two_brokers.brokers[0].refuse(RequestCode.LOCK_BATCH_MQ, ResponseCode.SYSTEM_ERROR)
    two_brokers.brokers[0].refuse(RequestCode.UNLOCK_BATCH_MQ, ResponseCode.SYSTEM_ERROR)
    async with opened(two_brokers.address) as instance:
        requests = await requests_of(instance)
        assert await requests.lock([ON_A, ON_B]) == ({ON_B}, set())
        await requests.unlock([ON_A, ON_B])
        assert two_brokers.brokers[1].locks == {}
