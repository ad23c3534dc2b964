"""The wiring of a whole broker: every code has its processor, on the right port; every feature is asked."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import trio

from rocketpy.broker import app
from rocketpy.broker.clients.housekeeping import ClientHousekeepingService
from rocketpy.broker.context import BrokerContext
from rocketpy.broker.pull.feature import PullFeature
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.broker.wiring import Wiring
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.connection import Connection
from rocketpy.store.config import BrokerRole, FlushDiskType
from tests.broker.test_app import client_of, running, send, settings_at
from tests.patience import PATIENCE_SECONDS
from tests.remoting.patient_client import open_patient_client
from tests.store.ha.slave_peer import SlavePeer
from tests.store.ha.sync_master import slave_of


@pytest.fixture
def settings(tmp_path: Path) -> BrokerSettings:
    return settings_at(tmp_path / "store")


async def test_the_end_does_not_wait_for_clients_that_stay(settings: BrokerSettings) -> None:
    async with open_patient_client() as client:
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
        async with open_patient_client() as client:
            await client.request(at.address, RemotingCommand(RequestCode.GET_BROKER_CONFIG))
        with trio.fail_after(PATIENCE_SECONDS):
            while len(forgotten) < 2:
                await trio.sleep(0.01)
    assert forgotten == ["pull", "clients"]


# ---- the end of a SYNC_MASTER ---------------------------------------------------------------------------------------


class CaughtWiring(Wiring):
    """Keeps the last broker's context, and notes when its end begins."""

    context: BrokerContext
    ends: trio.Event

    def __init__(self, context: BrokerContext, **given: object) -> None:
        super().__init__(context, **given)  # type: ignore[arg-type]
        CaughtWiring.context = context
        CaughtWiring.ends = trio.Event()

    async def wait_answered(self, timeout_s: float) -> None:
        CaughtWiring.ends.set()
        await super().wait_answered(timeout_s)


@pytest.mark.parametrize("acknowledges", [False, True])
@pytest.mark.parametrize("flush_disk_type", FlushDiskType)
async def test_at_the_end_a_send_that_waits_for_a_slave_is_answered_with_what_is_known(
    settings: BrokerSettings,
    flush_disk_type: FlushDiskType,
    acknowledges: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """FLUSH_SLAVE_TIMEOUT, however long a slave may take; PUT_OK if its report comes while the broker waits for it."""
    monkeypatch.setattr(app, "Wiring", CaughtWiring)
    monkeypatch.setattr(app, "DRAIN_SECONDS", PATIENCE_SECONDS if acknowledges else 0.05)
    role = {"broker_role": BrokerRole.SYNC_MASTER, "slave_timeout": 3_600_000, "flush_disk_type": flush_disk_type}
    store_config = attrs.evolve(settings.store, **role)  # type: ignore[arg-type]
    codes: list[int] = []

    async def ask(client: RemotingClient, address: str) -> None:
        codes.append((await client.request(address, send(), PATIENCE_SECONDS)).code)

    with trio.fail_after(2 * PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery, open_patient_client() as client:
            async with running(attrs.evolve(settings, store=store_config)) as at:
                store = CaughtWiring.context.store
                slave = await slave_of(store, nursery)
                nursery.start_soon(ask, client, at.address)
                end = len(await slave.receive(1))
                while store.flush_wait().waiting_count:  # what waits for the disk when the time is over has no answer
                    await trio.sleep(0.001)
                nursery.start_soon(_report_at_the_end, slave, end if acknowledges else 0)
            while not codes:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert codes == [ResponseCode.SUCCESS if acknowledges else ResponseCode.FLUSH_SLAVE_TIMEOUT]


async def _report_at_the_end(slave: SlavePeer, offset: int) -> None:
    await CaughtWiring.ends.wait()
    await slave.report(offset)
