"""Who is in a group, and locks, as brokers see them."""

from __future__ import annotations

from random import Random

import pytest

from rocketpy.client.consumer.group.requests import GroupRequests
from rocketpy.client.instance import ClientInstance
from rocketpy.client.states import StateSubject
from rocketpy.errors import BrokerError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.message import MessageQueue
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.client.opened import opened

MINE, OTHERS = MessageQueue(TOPIC, "broker-a", 0), MessageQueue(TOPIC, "broker-a", 1)


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


async def test_a_broker_that_has_just_come_back_is_not_asked_who_the_members_are(
    two_brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows those that are back already, and no other: they would take the queues of the rest."""
    back, other = two_brokers.brokers
    back.other_members, other.other_members = ["first"], ["first", "second"]
    async with opened(two_brokers.address) as instance:
        requests = await requests_of(instance)
        settling = {back.address}
        monkeypatch.setattr(instance.reconnects, "is_settling", lambda address: address in settling)
        for _ in range(5):
            assert await requests.member_ids(TOPIC) == ["first", "second"]
        settling.add(other.address)
        assert await requests.member_ids(TOPIC) is None


async def test_locks_are_taken_and_given_back(cluster: FakeCluster, instance: ClientInstance) -> None:
    requests = await requests_of(instance)
    address = await requests.master_address(MINE)
    assert address == cluster.broker.address
    cluster.broker.locks[OTHERS] = "another client"
    assert await requests.lock(address, [MINE, OTHERS]) == {MINE}
    assert cluster.broker.locks == {MINE: instance.client_id, OTHERS: "another client"}
    assert await requests.connect(address) is instance.remoting.connection(address)
    await requests.unlock(address, [MINE, OTHERS])
    assert cluster.broker.locks == {OTHERS: "another client"}


async def test_a_master_that_does_not_lock_is_an_error_and_a_state(
    cluster: FakeCluster, instance: ClientInstance, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    requests = await requests_of(instance)
    address = await requests.master_address(MINE)
    for code, ask in ((RequestCode.LOCK_BATCH_MQ, requests.lock), (RequestCode.UNLOCK_BATCH_MQ, requests.unlock)):
        cluster.broker.refuse(code, ResponseCode.SYSTEM_ERROR)
        with pytest.raises(BrokerError):
            await ask(address, [MINE])
        (trouble,) = instance.states.troubles
        assert (trouble.subject, trouble.name) == (StateSubject.LOCKS, f"g at {address}")
    cluster.broker.behave()
    await requests.lock(address, [MINE])
    assert instance.states.troubles == []
    assert "releasing the locks of group g without an answer: CODE: 1" in caplog.text
