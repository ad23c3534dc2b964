"""A whole nameserver without sockets: frames in, frames out, through the real dispatcher and connections."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest

from rocketpy.nameserver.app import kv_limits, route_limits
from rocketpy.nameserver.config import NamesrvConfig, NamesrvConfiguration, default_server_config
from rocketpy.nameserver.kv_config import KVConfigManager
from rocketpy.nameserver.processor import DefaultRequestProcessor
from rocketpy.nameserver.routes.housekeeping import BrokerHousekeepingService
from rocketpy.nameserver.routes.route_info import RouteInfoManager
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import FrameReader, decode_command, encode_frame
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.runner import RunBlocking, run_inline
from rocketpy.store.disk.os_disk import OsDisk
from tests.broker.broker_on_bytes import Transport


class NameserverOnBytes:
    """One nameserver over a directory; ``now`` is its clock."""

    def __init__(
        self,
        directory: Path,
        config: NamesrvConfig | None = None,
        run_blocking: RunBlocking = run_inline,
        **settings: object,
    ) -> None:
        self.config = config or NamesrvConfig(
            kv_config_path=str(directory / "kvConfig.json"),
            config_store_path=str(directory / "namesrv.properties"),
            **settings,  # type: ignore[arg-type]
        )
        self.now = 0.0
        self.route_info: RouteInfoManager[Connection] = RouteInfoManager(route_limits(self.config))
        self.kv_config = KVConfigManager(
            path=self.config.kv_config_file, disk=OsDisk(), run_blocking=run_blocking, limits=kv_limits(self.config)
        )
        self.configuration = NamesrvConfiguration(
            namesrv=self.config,
            server=default_server_config(),
            unknown={"foreignKey": "1"},
            disk=OsDisk(),
            run_blocking=run_blocking,
            log_level_changed=lambda config: None,
        )
        self.unsupported: list[int] = []
        self.dispatcher = Dispatcher(unsupported_log=self.unsupported.append)
        processor = DefaultRequestProcessor(
            route_info=self.route_info,
            kv_config=self.kv_config,
            configuration=self.configuration,
            current_time=lambda: self.now,
        )
        processor.register_with(self.dispatcher)
        self.housekeeping = BrokerHousekeepingService(route_info=self.route_info, current_time=lambda: self.now)
        self.transport = Transport(self.housekeeping.connection_closed)
        self._connections = 0

    def connect(self, host: str = "127.0.0.1") -> Connection:
        self._connections += 1
        server_config = default_server_config()
        return Connection(
            address=(host, 50_000 + self._connections),
            dispatcher=self.dispatcher,
            transport=self.transport,
            limits=server_config.limits(),
            now=self.now,
        )

    async def ask(self, request: RemotingCommand, connection: Connection | None = None) -> RemotingCommand:
        """Send a request as bytes and return its answer, which came back as bytes."""
        answer = await self.ask_frame(encode_frame(request), connection)
        assert answer is not None
        return answer

    async def ask_frame(self, frame: bytes, connection: Connection | None = None) -> RemotingCommand | None:
        """Send bytes and return what came back; None if nothing did."""
        connection = connection or self.connect()
        connection.receive(frame)
        connection.serve(10)
        tasks, self.transport.tasks = self.transport.tasks, []
        for function, arguments in tasks:
            await function(*arguments)
        reader = FrameReader()
        reader.receive(connection.take_outgoing())
        reply = reader.next_frame()
        assert reader.next_frame() is None
        return None if reply is None else decode_command(*reply)

    def everything(self) -> object:
        """Return what the tables hold, to compare before and after."""
        topics = list(chain(*self.route_info.all_topics()))
        return (
            [self.route_info.pick_up_topic_route_data(topic) for topic in topics],
            self.route_info.cluster_info(),
            self.route_info.statistics(),
            {name: self.kv_config.namespace(name) for name in ("ns", "ORDER_TOPIC_CONFIG", "")},
            self.kv_config.statistics(),
            self.configuration.values(),
        )


@pytest.fixture
def make_nameserver(tmp_path: Path) -> Callable[..., NameserverOnBytes]:
    def make(**settings: object) -> NameserverOnBytes:
        return NameserverOnBytes(tmp_path, **settings)

    return make


@pytest.fixture
def nameserver(tmp_path: Path) -> NameserverOnBytes:
    return NameserverOnBytes(tmp_path)
