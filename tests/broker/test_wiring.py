"""The wiring of a whole broker: every code has its processor, on the right port; every feature is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from rocketpy.broker.clients.housekeeping import ClientHousekeepingService
from rocketpy.broker.pull.feature import PullFeature
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.remoting.client import open_remoting_client
from rocketpy.remoting.connection import Connection
from tests.broker.test_app import client_of, running, settings_at
from tests.patience import PATIENCE_SECONDS

SERVED = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
    RequestCode.END_TRANSACTION,
    RequestCode.PULL_MESSAGE,
    RequestCode.QUERY_MESSAGE,
    RequestCode.VIEW_MESSAGE_BY_ID,
    RequestCode.HEART_BEAT,
    RequestCode.UNREGISTER_CLIENT,
    RequestCode.CHECK_CLIENT_CONFIG,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.LOCK_BATCH_MQ,
    RequestCode.UNLOCK_BATCH_MQ,
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.GET_ALL_TOPIC_CONFIG,
    RequestCode.GET_TOPIC_STATS_INFO,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
    RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.GET_MAX_OFFSET,
    RequestCode.GET_MIN_OFFSET,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
    RequestCode.GET_EARLIEST_MSG_STORETIME,
    RequestCode.GET_BROKER_RUNTIME_INFO,
    RequestCode.GET_BROKER_CONFIG,
    RequestCode.GET_CONSUMER_CONNECTION_LIST,
    RequestCode.GET_PRODUCER_CONNECTION_LIST,
    RequestCode.GET_CONSUME_STATS,
    RequestCode.GET_BROKER_CONSUME_STATS,
    RequestCode.QUERY_CONSUME_TIME_SPAN,
    RequestCode.VIEW_BROKER_STATS_DATA,
    RequestCode.GET_ALL_PRODUCER_INFO,
)


@pytest.fixture
def settings(tmp_path: Path) -> BrokerSettings:
    return settings_at(tmp_path / "store")


async def test_every_code_has_a_processor(settings: BrokerSettings) -> None:
    async with running(settings) as at, open_remoting_client() as client:
        for code in SERVED:
            answer = await client.request(at.address, RemotingCommand(code))
            assert answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED, code
            assert not (answer.remark or "").startswith(("TypeError", "AttributeError", "KeyError")), answer
        answer = await client.request(at.address, RemotingCommand(RequestCode.QUERY_BROKER_OFFSET))
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


async def test_the_end_does_not_wait_for_clients_that_stay(settings: BrokerSettings) -> None:
    async with open_remoting_client() as client:
        with trio.fail_after(PATIENCE_SECONDS):
            async with running(settings) as at:
                await client.request(at.address, RemotingCommand(RequestCode.GET_BROKER_CONFIG))


async def test_the_runtime_info_has_the_figures_of_every_feature(settings: BrokerSettings) -> None:
    """Each row is of one feature: message counts, lag of the loop, delays, lag of consumers, subscriptions."""
    async with client_of(settings) as (client, at):
        answer = await client.request(at.address, RemotingCommand(RequestCode.GET_BROKER_RUNTIME_INFO))
        table = decode_body(answer.body, KVTable).table
        expected = ["msgPutTotalTodayNow", "consumerLagTotal", "inconsistentSubscriptionGroups"]
        assert [key for key in table if key in expected] == expected


async def test_a_closed_connection_is_forgotten_by_every_feature(
    settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure of one of them does not keep it from the others."""
    forgotten: list[str] = []

    def fails(self: PullFeature, connection: Connection) -> None:
        forgotten.append("pull")
        raise ValueError("not foreseen")

    monkeypatch.setattr(PullFeature, "connection_closed", fails)
    monkeypatch.setattr(
        ClientHousekeepingService, "connection_closed", lambda self, connection: forgotten.append("clients")
    )
    async with running(settings) as at:
        async with open_remoting_client() as client:
            await client.request(at.address, RemotingCommand(RequestCode.GET_BROKER_CONFIG))
        with trio.fail_after(PATIENCE_SECONDS):
            while len(forgotten) < 2:
                await trio.sleep(0.01)
    assert forgotten == ["pull", "clients"]
