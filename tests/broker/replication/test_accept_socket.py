"""The port for slaves over a simulated network: who is served, how many, and what never ends it."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import attrs
import pytest
import trio
import trio.testing

from rocketpy.broker.replication.accept_socket import (
    CONNECTIONS_PER_ADDRESS_MAX,
    AcceptSocketService,
    AcceptStatistics,
)
from rocketpy.remoting.limits.allow_list import networks
from rocketpy.remoting.network import Address, Listener
from rocketpy.store.ha.service import CONNECTIONS_MAX
from rocketpy.testing.sim.network import SimNetwork

BROKER, PORT = "10.0.0.1", 10_912


@attrs.define
class Port:
    """A broker that serves its port; what it serves stays open until its peer closes it."""

    network: SimNetwork
    service: AcceptSocketService
    peers: list[str]

    @property
    def statistics(self) -> AcceptStatistics:
        return self.service.statistics()

    async def connect(self, host: str) -> trio.abc.Stream:
        stream = await self.network.host(host).connect(f"{BROKER}:{PORT}")
        await trio.testing.wait_all_tasks_blocked()
        return stream


class Failing:
    """A listener that fails before each of the first connections."""

    def __init__(self, listener: Listener, failures: int) -> None:
        self._listener = listener
        self._failures = failures
        self.sock = None
        self.port = listener.port
        self.close = listener.close

    async def accept(self) -> tuple[trio.abc.Stream, Address]:
        await trio.lowlevel.checkpoint()
        if self._failures:
            self._failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return await self._listener.accept()


@asynccontextmanager
async def a_port(*, allowed: str = "", failures: int = 0, bug: Exception | None = None) -> AsyncIterator[Port]:
    network = SimNetwork(randomness=Random(0))
    peers: list[str] = []

    async def serve(stream: trio.abc.Stream, peer: str) -> None:
        peers.append(peer)
        async with stream:
            if bug is not None:
                raise bug
            while await stream.receive_some(100):
                pass

    listeners = [Failing(each, failures) for each in await network.host(BROKER).listen(None, PORT)]
    service = AcceptSocketService(listeners=listeners, serve=serve, allowed=networks(allowed))
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        yield Port(network, service, peers)
        nursery.cancel_scope.cancel()


async def test_each_connection_is_served_with_the_address_of_its_peer(autojump_clock: trio.testing.MockClock) -> None:
    async with a_port() as port:
        first = await port.connect("10.0.0.2")
        await port.connect("10.0.0.3")
        assert [peer.rpartition(":")[0] for peer in port.peers] == ["10.0.0.2", "10.0.0.3"]
        assert port.statistics == AcceptStatistics(connections=2, accepted_count=2, refused_count=0)
        await first.aclose()
        await trio.sleep(1)
        assert port.statistics.connections == 1


async def test_only_allowed_addresses_are_served(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_port(allowed="10.0.0.2;192.168.0.0/16") as port:
        for host in ("10.0.0.2", "192.168.7.7"):
            await port.connect(host)
        refused = await port.connect("10.0.0.3")
        with pytest.raises(trio.BrokenResourceError):
            while await refused.receive_some(1):
                pass
            raise trio.BrokenResourceError("closed in order")
        assert len(port.peers) == 2
        assert port.statistics.refused_count == 1
    assert "refused 10.0.0.3 at the replication port: its address is not in haAllowList" in caplog.text


async def test_one_address_cannot_take_all_connections(autojump_clock: trio.testing.MockClock) -> None:
    async with a_port() as port:
        streams = [await port.connect("10.0.0.2") for _ in range(CONNECTIONS_PER_ADDRESS_MAX + 5)]
        assert port.statistics == AcceptStatistics(CONNECTIONS_PER_ADDRESS_MAX, CONNECTIONS_PER_ADDRESS_MAX, 5)
        await port.connect("10.0.0.3")
        assert port.statistics.refused_count == 5
        await streams[0].aclose()
        await trio.sleep(1)
        await port.connect("10.0.0.2")
        assert port.statistics.accepted_count == CONNECTIONS_PER_ADDRESS_MAX + 2


async def test_all_connections_are_bounded(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_port() as port:
        for number in range(CONNECTIONS_MAX + 10):
            await port.connect(f"10.0.1.{number}")
        assert port.statistics == AcceptStatistics(CONNECTIONS_MAX, CONNECTIONS_MAX, 10)
    assert len(caplog.records) == 4, "once, twice, four and eight times"


async def test_a_lack_of_descriptors_passes(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_port(failures=3) as port:
        await port.connect("10.0.0.2")
        await trio.sleep(1)
        assert port.statistics == AcceptStatistics(connections=1, accepted_count=1, refused_count=3)
    assert "cannot accept a connection: Too many open files" in caplog.text


async def test_a_bug_ends_one_connection_only(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_port(bug=ValueError("not foreseen")) as port:
        for _ in range(2):
            await port.connect("10.0.0.2")
        assert port.statistics == AcceptStatistics(connections=0, accepted_count=2, refused_count=0)
    assert "serving the connection of 10.0.0.2" in caplog.text


async def test_at_its_end_nothing_listens_any_more(autojump_clock: trio.testing.MockClock) -> None:
    async with a_port() as port:
        stream = await port.connect("10.0.0.2")
    with pytest.raises(Exception, match="refused"):
        await port.connect("10.0.0.2")
    assert await stream.receive_some(1) == b""
