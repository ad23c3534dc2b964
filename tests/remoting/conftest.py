"""What the remoting tests share: a program of three codes, and both drivers under the same tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest
import trio

from rocketpy.errors import RequestError, StoreError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.remoting.config import NettyServerConfig
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.deferred import DEFERRED, Deferred
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.network import SocketNetwork
from rocketpy.remoting.server import RemotingServer
from rocketpy.remoting.tls.contexts import ServerTls

ECHO, REFUSE, BUG, DEFER, SLOW, STORE_FAILURE = 1001, 1002, 1003, 1004, 1005, 1006


class Program:
    """Processors with one behaviour each, and a record of what happened."""

    def __init__(self) -> None:
        self.deferred: list[tuple[Connection, RemotingCommand]] = []
        self.ended_bursts = 0
        self.unsupported: list[int] = []
        self.closed: list[str] = []
        self.slow_may_end = trio.Event()
        self.dispatcher = Dispatcher(unsupported_log=self.unsupported.append, end_burst=self._end_burst)
        self.dispatcher.register(ECHO, lambda c, r: make_response(r, remark=r.remark, body=r.body))
        self.dispatcher.register(REFUSE, self._refuse)
        self.dispatcher.register(BUG, self._bug)
        self.dispatcher.register(DEFER, self._defer)
        self.dispatcher.register_task(SLOW, self._slow)
        self.dispatcher.register(STORE_FAILURE, self._store_failure)

    def _end_burst(self) -> None:
        self.ended_bursts += 1

    def on_close(self, connection: Connection) -> None:
        self.closed.append(connection.peer)

    def _refuse(self, connection: Connection, request: RemotingCommand) -> None:
        raise RequestError(ResponseCode.NO_PERMISSION, "the broker is shy")

    def _bug(self, connection: Connection, request: RemotingCommand) -> None:
        raise ZeroDivisionError("a bug")

    def _store_failure(self, connection: Connection, request: RemotingCommand) -> None:
        raise StoreError("the disk is gone", path="commitlog/0")

    def _defer(self, connection: Connection, request: RemotingCommand) -> Deferred:
        self.deferred.append((connection, request))
        return DEFERRED

    async def _slow(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        await self.slow_may_end.wait()
        return make_response(request, body=b"slow")


@attrs.frozen
class Running:
    """A server that serves."""

    program: Program
    server: RemotingServer
    address: str


@pytest.fixture(params=["hub", "stream"])
def use_hub(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "hub")


@pytest.fixture
def server_config() -> NettyServerConfig:
    return NettyServerConfig()


@pytest.fixture
def server_tls() -> ServerTls | None:
    """None: a server that knows no TLS."""
    return None


@pytest.fixture
async def running(
    use_hub: bool, server_config: NettyServerConfig, server_tls: ServerTls | None
) -> AsyncIterator[Running]:
    program = Program()
    server = await bound_server(
        program.dispatcher, config=server_config, on_close=program.on_close, tls=server_tls, use_hub=use_hub
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield Running(program, server, f"127.0.0.1:{server.port}")
        nursery.cancel_scope.cancel()


async def bound_server(
    dispatcher: Dispatcher, *, use_hub: bool, config: NettyServerConfig | None = None, **options: Any
) -> RemotingServer:
    """Return a server that listens on a port of its own, and does not run yet."""
    return RemotingServer(
        listeners=await SocketNetwork().listen("127.0.0.1", 0),
        dispatcher=dispatcher,
        config=config or NettyServerConfig(),
        use_hub=use_hub,
        **options,
    )
