"""States of a client: each change is one line and one event, whatever fails how often."""

from __future__ import annotations

import logging

import pytest
import trio

from rocketpy.client import Client, ClientConfig, StateChange, StateSubject, open_client
from rocketpy.client import states as module
from rocketpy.client.states import ClientStates, Trouble
from rocketpy.errors import RemotingConnectError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from tests.client.conftest import FIRST, TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.patience import PATIENCE_SECONDS, until

BROKER, ROUTE = StateSubject.BROKER, StateSubject.ROUTE


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(each.levelno, each.getMessage()) for each in caplog.records]


def test_a_trouble_is_logged_when_it_begins_and_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    trouble = Trouble("pulling T")
    noted = [trouble.end(), trouble.begin("one"), trouble.begin("two"), trouble.end(), trouble.end()]
    assert noted == [False, True, False, True, False]
    assert lines(caplog) == [(logging.WARNING, "pulling T: one; trying again"), (logging.INFO, "pulling T works again")]


async def test_troubles_have_the_last_reason_and_changes_begin_with_them() -> None:
    states = ClientStates()
    states.works(BROKER, "a:1")
    assert states.troubles == []
    states.fails(BROKER, "a:1", "gone")
    states.fails(ROUTE, "T", "unknown")
    states.works(ROUTE, "T")
    states.fails(BROKER, "a:1", "still gone")
    assert states.troubles == [StateChange(BROKER, "a:1", is_well=False, reason="still gone")]
    assert (states.reason(BROKER, "a:1"), states.reason(ROUTE, "T")) == ("still gone", None)
    changes = states.changes()
    assert str(await anext(changes)) == "reaching broker a:1: still gone"
    states.works(BROKER, "a:1")
    assert str(await anext(changes)) == "reaching broker a:1: works again"
    states.fails(ROUTE, "T", "unknown")
    states.forget(ROUTE, "T")
    states.close()
    assert [each async for each in changes] == []


def test_what_is_raised_is_logged_when_the_background_meets_it_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    states = ClientStates()
    for _ in range(2):
        states.fails(BROKER, "a:1", "gone", is_raised=True)
        assert len(states.troubles) == 1
        states.works(BROKER, "a:1")
    assert lines(caplog) == []
    states.fails(BROKER, "a:1", "gone", is_raised=True)
    states.log(ROUTE)
    assert lines(caplog) == []
    states.log(BROKER)
    states.log(BROKER)
    states.works(BROKER, "a:1")
    assert [level for level, _ in lines(caplog)] == [logging.WARNING, logging.INFO]


async def test_states_are_bounded_and_what_is_well_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STATES_MAX", 3)
    states = ClientStates()
    for name in "abc":
        states.fails(BROKER, name, "gone")
    states.works(BROKER, "b")
    states.fails(BROKER, "d", "gone")
    states.fails(BROKER, "e", "gone")
    assert [each.name for each in states.troubles] == ["c", "d", "e"]


async def test_a_silent_start_says_once_what_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    """A nameserver that is not there: no queue is ever assigned, and the log says why."""
    async with open_client("127.0.0.1:1") as client, client.consumer("g", "T") as consumer:
        await consumer.wait_assigned()
        for _ in range(3):
            with pytest.raises(RemotingConnectError):
                await client.admin().topics.names()
    assert [text.partition(": ")[0] for _, text in lines(caplog)] == [
        "asking nameserver 127.0.0.1:1",
        "looking for the queues of topic T",
    ]


async def test_a_topic_without_a_route_is_a_state_until_it_has_one(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with open_client(cluster.address) as client, client.consumer("g", "Late") as consumer:
        await consumer.wait_assigned()
        assert client.troubles == [StateChange(ROUTE, "Late", is_well=False, reason="no nameserver has a route")]
        cluster.add_topic("Late", 1)
        with trio.fail_after(PATIENCE_SECONDS):
            await consumer.wait_ready(PATIENCE_SECONDS)
        assert client.troubles == []
    assert lines(caplog)[-1] == (logging.INFO, "looking for the queues of topic Late works again")


async def test_a_refused_heartbeat_and_what_comes_of_it_are_states(cluster: FakeCluster) -> None:
    cluster.broker.refuse(RequestCode.HEART_BEAT, ResponseCode.NO_PERMISSION, "no account")
    cluster.broker.refuse(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.SYSTEM_ERROR)
    cluster.broker.refuse(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ResponseCode.SYSTEM_ERROR)
    config = ClientConfig(heartbeat_broker_interval=50)
    async with (
        open_client(cluster.address, config=config) as client,
        client.consumer("g", TOPIC, config=FIRST) as consumer,
    ):
        await consumer.wait_assigned()
        found = {each.subject: each for each in client.troubles}
        assert found.keys() == {StateSubject.HEARTBEAT, StateSubject.MEMBERS}
        assert "no account" in found[StateSubject.HEARTBEAT].reason
        assert found[StateSubject.MEMBERS].name == f"g at {TOPIC}"
        cluster.broker.behave()
        cluster.broker.refuse(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.SYSTEM_ERROR)
        await until(lambda: len(client.troubles) == 4)
        assert {each.subject for each in client.troubles} == {StateSubject.START_OFFSET}
        cluster.broker.behave()
        await until(lambda: client.troubles == [])
        assert len(consumer.assigned) == 4


async def test_a_lost_connection_of_a_broker_is_an_event_and_so_is_the_next_answer(cluster: FakeCluster) -> None:
    async with open_client(cluster.address) as client, client.consumer("g", TOPIC) as consumer:
        await consumer.wait_ready(PATIENCE_SECONDS)
        changes = client.state_changes()
        server = cluster.broker.server
        assert server is not None
        for connection in server.connections:
            connection.close()
        with trio.fail_after(PATIENCE_SECONDS):
            assert [await anext(changes), await anext(changes)] == [
                StateChange(BROKER, cluster.broker.address, is_well=False, reason="the connection has ended"),
                StateChange(BROKER, cluster.broker.address, is_well=True),
            ]


async def test_the_end_of_a_client_is_no_trouble(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with open_client(cluster.address) as client:
        await _use(client)
        async with client.pull_consumer("g", TOPIC) as consumer:
            await consumer.wait_ready(PATIENCE_SECONDS, TOPIC)
    assert lines(caplog) == []


async def _use(client: Client) -> None:
    async with client.producer("p") as producer:
        await producer.wait_ready(PATIENCE_SECONDS, TOPIC)


async def test_what_is_consumed_no_longer_has_no_state(cluster: FakeCluster) -> None:
    cluster.broker.refuse(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ResponseCode.SYSTEM_ERROR)
    async with open_client(cluster.address) as client:
        async with client.consumer("g", "Typo", TOPIC, "Other typo") as consumer:
            await consumer.wait_assigned()
            assert sorted(each.name for each in client.troubles) == ["Other typo", "Typo", f"g at {TOPIC}"]
            consumer.unsubscribe("Typo")
            consumer.unsubscribe(TOPIC)
            assert [each.name for each in client.troubles] == ["Other typo"]
        assert client.troubles == []
        async with client.lite_pull_consumer("g", "Typo") as polling:
            await polling.wait_assigned()
            await polling.unsubscribe("Typo")
            assert client.troubles == []
