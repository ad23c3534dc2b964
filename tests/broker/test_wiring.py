"""What is put together: every code that issue and clients need has its processor, on the right port."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.remoting.client import open_remoting_client
from tests.broker.test_app import running, settings_at
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


async def test_every_code_is_answered_by_somebody(settings: BrokerSettings) -> None:
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
