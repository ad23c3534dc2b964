"""Expiry of silent brokers, and the end of their connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from rocketpy.nameserver.routes.housekeeping import BrokerHousekeepingService, HousekeepingStatistics
from rocketpy.nameserver.routes.route_info import RouteInfoManager
from tests.nameserver.routes.brokers import registration

if TYPE_CHECKING:
    from conftest import NameserverOnBytes

    from rocketpy.remoting.connection import Connection


def register(route_info: RouteInfoManager[Connection], connection: Connection, addr: str, now: float) -> None:
    route_info.register_broker(registration(addr=addr, name=addr), connection=connection, now=now)


async def test_the_first_scan_is_after_5_seconds_and_then_every_10(
    autojump_clock: trio.testing.MockClock, nameserver: NameserverOnBytes
) -> None:
    service = BrokerHousekeepingService(route_info=nameserver.route_info, current_time=trio.current_time)
    seen = []
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        for seconds in (4.9, 0.2, 9.8, 0.2, 10.0):
            await trio.sleep(seconds)
            seen.append(service.statistics().scans)
        nursery.cancel_scope.cancel()
    assert seen == [0, 1, 1, 2, 3]


async def test_a_silent_broker_is_removed_and_its_connection_closed(nameserver: NameserverOnBytes) -> None:
    silent, lively = nameserver.connect(), nameserver.connect()
    register(nameserver.route_info, silent, "10.0.0.1:1", now=0.0)
    register(nameserver.route_info, lively, "10.0.0.2:1", now=1.0)
    nameserver.now = 120.5
    nameserver.housekeeping.scan_not_active_brokers()
    assert (silent.is_closed, lively.is_closed) == (True, False)
    assert list(nameserver.route_info.cluster_info().broker_addr_table) == ["10.0.0.2:1"]
    assert nameserver.housekeeping.statistics() == HousekeepingStatistics(1, 1, 0)


async def test_two_silent_addresses_on_one_connection_close_it_once(nameserver: NameserverOnBytes) -> None:
    shared = nameserver.connect()
    register(nameserver.route_info, shared, "10.0.0.1:1", now=0.0)
    register(nameserver.route_info, shared, "10.0.0.2:1", now=0.0)
    nameserver.now = 121.0
    nameserver.housekeeping.scan_not_active_brokers()
    assert shared.is_closed
    assert nameserver.route_info.statistics().live_addresses == 0


async def test_a_broker_goes_with_its_connection(nameserver: NameserverOnBytes) -> None:
    broker, client = nameserver.connect(), nameserver.connect()
    register(nameserver.route_info, broker, "10.0.0.1:1", now=0.0)
    client.close()
    assert nameserver.route_info.statistics().live_addresses == 1
    broker.close()
    assert nameserver.route_info.statistics().live_addresses == 0
    assert nameserver.housekeeping.statistics() == HousekeepingStatistics(0, 0, 1)


async def test_a_scan_that_fails_unexpectedly_ends_alone(
    autojump_clock: trio.testing.MockClock,
    nameserver: NameserverOnBytes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(now: float) -> list[tuple[str, Connection]]:
        raise ZeroDivisionError

    monkeypatch.setattr(nameserver.route_info, "remove_expired_brokers", fail)
    service = BrokerHousekeepingService(route_info=nameserver.route_info, current_time=trio.current_time)
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    assert service.statistics().scans == 3
    assert "a scan for brokers that have expired" in caplog.text
