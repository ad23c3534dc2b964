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
from tests.broker.acl.declared import declared
from tests.broker.test_app import client_of, running, settings_at
from tests.patience import PATIENCE_SECONDS
from tests.test_compatibility_page import rows

WITHOUT_A_ROW = {54}
"""GET_BROKER_CLUSTER_ACL_CONFIG is not in RocketMQ 4.9.8: the row of code 52 names it."""


@pytest.fixture
def settings(tmp_path: Path) -> BrokerSettings:
    return settings_at(tmp_path / "store")


def test_the_registered_codes_are_those_that_the_table_of_codes_calls_served() -> None:
    assert set(declared()) - WITHOUT_A_ROW == {row.code for row in rows("Broker").values() if row.is_served}


async def test_every_registered_code_is_answered_by_its_processor(settings: BrokerSettings) -> None:
    """Without fields and body: with a refusal, not with the failure of a handler."""
    async with running(settings) as at, open_remoting_client() as client:
        for code in declared():
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
