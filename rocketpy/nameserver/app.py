"""Composition root of a nameserver: tables, processor, housekeeping and server, nested by dependency.

``python -m rocketpy.nameserver`` runs it, and so does a broker with an embedded nameserver. There is no global state: a
process may run several on different ports.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import trio

from rocketpy.nameserver.config import NamesrvConfig, NamesrvConfiguration
from rocketpy.nameserver.kv_config import KVConfigManager, KVLimits
from rocketpy.nameserver.logs import apply_log_level
from rocketpy.nameserver.processor import DefaultRequestProcessor
from rocketpy.nameserver.routes.broker_table import BrokerLimits
from rocketpy.nameserver.routes.guard import RouteGuard
from rocketpy.nameserver.routes.housekeeping import BrokerHousekeepingService
from rocketpy.nameserver.routes.route_info import RouteInfoManager, RouteLimits
from rocketpy.nameserver.routes.topic_table import TopicLimits
from rocketpy.remoting.config import NettyServerConfig, TlsServerConfig
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.limits.allow_list import networks
from rocketpy.remoting.limits.connection_budget import ConnectionBudget
from rocketpy.remoting.limits.descriptors import allowed_connections
from rocketpy.remoting.network import Network, SocketNetwork
from rocketpy.remoting.server import RemotingServer
from rocketpy.remoting.tls.contexts import ServerTls
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk

_log = logging.getLogger("rocketpy.nameserver")


async def run_nameserver(
    config: NamesrvConfig,
    server_config: NettyServerConfig,
    *,
    host: str | None,
    disk: Disk,
    run_blocking: RunBlocking = trio.to_thread.run_sync,
    tls: TlsServerConfig | None = None,
    unknown: Mapping[str, str] | None = None,
    network: Network | None = None,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; reports the listening port once it accepts connections.

    :param host: the address to listen on, None for every address.
    :param unknown: unused keys of the configuration file, kept so that they survive when it is rewritten.
    :param network: where it listens; without it, TCP sockets.

    Raises :class:`~rocketpy.errors.StartError` if the port is taken or the KV file is malformed, and
    :class:`~rocketpy.errors.SettingsError` if a file named by ``tls`` is wrong. Without ``tls`` the mode is permissive.
    """
    server_tls = ServerTls(tls or TlsServerConfig(), report=lambda text: _log.info("%s", text))
    kv_config = _loaded_kv_config(config, disk, run_blocking)
    route_info: RouteInfoManager[Connection] = RouteInfoManager(route_limits(config))
    configuration = NamesrvConfiguration(
        namesrv=config,
        server=server_config,
        unknown=unknown or {},
        disk=disk,
        run_blocking=run_blocking,
        log_level_changed=apply_log_level,
    )
    dispatcher = _dispatcher(config, route_info, kv_config, configuration)
    housekeeping = BrokerHousekeepingService(route_info=route_info, current_time=trio.current_time)
    network = network or SocketNetwork()
    server = RemotingServer(
        listeners=await network.listen(host, server_config.listen_port, server_config.server_socket_backlog),
        dispatcher=dispatcher,
        config=server_config,
        on_close=housekeeping.connection_closed,
        tls=server_tls,
        budget=_connection_budget(server_config),
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(housekeeping.run)
        await nursery.start(server_tls.run)
        await nursery.start(server.run)
        task_status.started(server.port)


def route_limits(config: NamesrvConfig) -> RouteLimits:
    """Return the bounds of the route tables from the settings."""
    return RouteLimits(
        brokers=BrokerLimits(
            brokers_max=config.brokers_max, brokers_per_connection_max=config.brokers_per_connection_max
        ),
        topics=TopicLimits(
            topics_max=config.topics_max,
            topics_per_broker_max=config.topics_per_broker_max,
            routes_max=config.routes_max,
        ),
    )


def kv_limits(config: NamesrvConfig) -> KVLimits:
    """Return the bounds of the KV configuration from the settings."""
    return KVLimits(entries_max=config.kv_config_entries_max, bytes_max=config.kv_config_bytes_max)


def _loaded_kv_config(config: NamesrvConfig, disk: Disk, run_blocking: RunBlocking) -> KVConfigManager:
    kv_config = KVConfigManager(
        path=config.kv_config_file, disk=disk, run_blocking=run_blocking, limits=kv_limits(config)
    )
    kv_config.load()
    return kv_config


def _dispatcher(
    config: NamesrvConfig,
    route_info: RouteInfoManager[Connection],
    kv_config: KVConfigManager,
    configuration: NamesrvConfiguration,
) -> Dispatcher:
    """Return the dispatcher of every request; only peers of the allow list change routes, if there is one."""
    processor = DefaultRequestProcessor(
        route_info=route_info, kv_config=kv_config, configuration=configuration, current_time=trio.current_time
    )
    allowed = networks(config.route_change_allow_list)
    dispatcher = Dispatcher(unsupported_log=_log_unsupported, authorize=RouteGuard(allowed) if allowed else None)
    processor.register_with(dispatcher)
    return dispatcher


def _connection_budget(config: NettyServerConfig) -> ConnectionBudget:
    """Return the bounds of the connections of all listeners together."""
    return ConnectionBudget(
        allowed_connections(config.connections_max, needed_by_files=0), config.connections_per_address_max
    )


def _log_unsupported(code: int) -> None:
    _log.warning("request code %d is not supported", code)
