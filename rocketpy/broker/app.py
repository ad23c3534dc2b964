"""Runs a whole broker: scopes nested by their dependencies, and a shutdown in reverse order.

::

    listeners                         bound first, so that a port in use leaves nothing on disk; not served yet
      tables                          topics, groups, offsets: read from their files
        open_broker_store()           recovery, abort file, the store's own services
          client to the nameservers
            services                  those of all features, replication with its port among them
              servers                 the main port, and the VIP port, which refuses pulls
                registration          last, when everything it announces works

A service that fails takes the broker down: its exception ends every scope, the store leaves its abort file, and the
process ends with a status that is not 0.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from random import Random

import attrs
import trio

from rocketpy.broker.context import BrokerContext
from rocketpy.broker.hooks import NO_HOOKS, BrokerHooks
from rocketpy.broker.pull.long_polling import PullRequestHoldService
from rocketpy.broker.start_settings import HA_PORT_STEP, VIP_PORT_STEP, BrokerSettings, resolved_host
from rocketpy.broker.store_opening import open_broker_store
from rocketpy.broker.tables import Tables
from rocketpy.broker.wiring import Wiring
from rocketpy.clock import Clock
from rocketpy.errors import StartError
from rocketpy.protocol.host import pack_host
from rocketpy.remoting.client import open_remoting_client
from rocketpy.remoting.limits.descriptors import descriptor_limit
from rocketpy.remoting.network import Listener, Network, PortInUseError, SocketNetwork
from rocketpy.remoting.server import RemotingServer
from rocketpy.remoting.tls.contexts import ServerTls
from rocketpy.runner import RunBlocking
from rocketpy.store.config import BrokerRole
from rocketpy.store.disk.interface import Disk
from rocketpy.store.opening import OpenRunner
from rocketpy.store.plug_in import StoreFactory, load_factories

DRAIN_SECONDS = 5.0
"""Time that a shutdown waits for the flush of deferred replies."""

_log = logging.getLogger("rocketpy.broker")


@attrs.frozen
class BrokerAddress:
    """The addresses of a running broker."""

    address: str  # as registered: brokerIP1 and port
    port: int
    vip_port: int | None
    ha_port: int  # for slaves


@attrs.frozen
class _Listeners:
    """What a broker listens on."""

    clients: Sequence[Listener]  # the main port, then the VIP port
    slaves: Sequence[Listener]


@attrs.frozen(kw_only=True)
class _Surroundings:
    """What every run of one broker shares."""

    settings: BrokerSettings
    disk: Disk
    clock: Clock
    run_blocking: RunBlocking
    randomness: Random
    stop: trio.Event
    open_runner: OpenRunner | None
    plug_ins: Sequence[StoreFactory]
    hooks: BrokerHooks
    network: Network
    peer_time: Callable[[], float]
    tls: ServerTls


async def run_broker(
    settings: BrokerSettings,
    *,
    disk: Disk,
    clock: Clock,
    run_blocking: RunBlocking,
    randomness: Random,
    stop: trio.Event,
    open_runner: OpenRunner | None = None,
    hooks: BrokerHooks = NO_HOOKS,
    network: Network | None = None,
    peer_time: Callable[[], float] = trio.current_time,
    task_status: trio.TaskStatus[BrokerAddress] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run until ``stop`` is set, then shut down in order; reports started when clients may connect.

    Without ``network`` it listens and connects through TCP sockets. ``peer_time`` is seconds that never step, by which
    clients and their locks expire: another clock than Trio's where that one runs ahead of the clients'. A slave that
    must cut its log shuts down in order and begins again, because only the opening of a store cuts.

    Raises StartError or SettingsError before anything is written; later, the exception that ended a service.
    """
    surroundings = _Surroundings(
        settings=settings,
        disk=disk,
        clock=clock,
        run_blocking=run_blocking,
        randomness=randomness,
        stop=stop,
        open_runner=open_runner,
        plug_ins=load_factories(settings.broker.message_store_plug_in),
        hooks=hooks.with_configured(settings.broker.send_message_hooks, settings.broker.consume_message_hooks),
        network=network or SocketNetwork(),
        peer_time=peer_time,
        tls=ServerTls(settings.tls_server, report=lambda text: _log.info("%s", text)),
    )
    while await _run_once(surroundings, task_status):
        _log.warning("the store is opened again, to cut the log where it parts from the master's")
        task_status = trio.TASK_STATUS_IGNORED


async def _run_once(given: _Surroundings, task_status: trio.TaskStatus[BrokerAddress]) -> bool:
    """Run until ``stop`` is set or a cut of the log was ordered; return whether to begin again."""
    settings, disk, clock, run_blocking = given.settings, given.disk, given.clock, given.run_blocking
    servers: list[RemotingServer] = []
    async with _open_all_listeners(settings, given.network) as listeners:
        tables = Tables.load(settings, disk=disk, clock=clock, run_blocking=run_blocking, peer_time=given.peer_time)
        hold_service = PullRequestHoldService(serves_itself=settings.store.broker_role is BrokerRole.SLAVE)
        port = listeners.clients[0].port
        store_host = pack_host(resolved_host(settings.broker.broker_ip1), port)
        async with (
            open_broker_store(
                settings,
                tables,
                hold_service,
                disk=disk,
                clock=clock,
                run_blocking=run_blocking,
                store_host=store_host,
                plug_ins=given.plug_ins,
                flush_replies=partial(_flush_replies, servers),
                open_runner=given.open_runner,
                process_descriptors_max=descriptor_limit(),
            ) as store,
            open_remoting_client(config=settings.client, tls=settings.tls_client, network=given.network) as client,
        ):
            context = BrokerContext.of(
                settings,
                tables,
                store,
                port=port,
                ha_port=listeners.slaves[0].port,
                store_host=store_host,
                clock=clock,
                randomness=given.randomness,
            )
            broker = Wiring(
                context,
                server_config=settings.server,
                live_settings=settings.live(disk=disk, run_blocking=run_blocking, clock=clock),
                client=client,
                network=given.network,
                peer_time=given.peer_time,
                ha_listeners=listeners.slaves,
                hold_service=hold_service,
                stop=given.stop,
                tls=given.tls,
                hooks=given.hooks,
                run_blocking=run_blocking,
            )
            servers.extend(broker.servers(listeners.clients))
            await _serve(broker, servers, (given.stop, store.cut_ordered), task_status)
    return store.cut_ordered.is_set() and not given.stop.is_set()


async def _serve(
    broker: Wiring,
    servers: Sequence[RemotingServer],
    ends: Sequence[trio.Event],
    task_status: trio.TaskStatus[BrokerAddress],
) -> None:
    """Run services and servers inside the open store until one of the events.

    The store itself cares for flush, checkpoint and abort file.
    """
    async with trio.open_nursery() as services:
        for service in broker.services:
            await services.start(service.run)
        await broker.before_serving()
        async with trio.open_nursery() as connections:
            for server in servers:
                await connections.start(server.run)
            async with trio.open_nursery() as registering:
                await registering.start(broker.registration.run)
                task_status.started(_address_of(broker, servers))
                await _wait_any(ends)
                registering.cancel_scope.cancel()
            await _drain(broker, servers)
            connections.cancel_scope.cancel()
        services.cancel_scope.cancel()
    await broker.finish()
    _log.info("connections closed, tables written, closing the store")


async def _drain(broker: Wiring, servers: Sequence[RemotingServer]) -> None:
    """Accept no connection, leave the routes, and send the outstanding replies within DRAIN_SECONDS."""
    _log.info("shutting down: leaving the nameservers, answering what was accepted")
    for server in servers:
        server.stop_accepting()
    await broker.registration.unregister_all()
    await broker.wait_answered(DRAIN_SECONDS)
    _flush_replies(servers)


async def _wait_any(events: Sequence[trio.Event]) -> None:
    async with trio.open_nursery() as nursery:

        async def wait(event: trio.Event) -> None:
            await event.wait()
            nursery.cancel_scope.cancel()

        for event in events:
            nursery.start_soon(wait, event)


def _flush_replies(servers: Sequence[RemotingServer]) -> None:
    for server in servers:
        server.flush_replies()


@asynccontextmanager
async def _open_all_listeners(settings: BrokerSettings, network: Network) -> AsyncIterator[_Listeners]:
    """Bind the main port, two below it the VIP port, and one above it the port for slaves.

    For a port that the system chooses there is no VIP port, and the system chooses the one for slaves, too.
    """
    port = settings.server.listen_port
    with ExitStack() as bound:

        async def listen(port: int) -> Sequence[Listener]:
            opened = await network.listen(settings.host, port, settings.server.server_socket_backlog)
            for listener in opened:
                bound.callback(listener.close)
            return opened

        clients = [*await listen(port)]
        if port > VIP_PORT_STEP:
            clients += await listen(port - VIP_PORT_STEP)
        try:
            slaves = await listen(port + HA_PORT_STEP if port else 0)
        except StartError as failure:
            sentence = f"{failure} (the port for slaves, one above listenPort)"
            if isinstance(failure, PortInUseError):
                raise PortInUseError(sentence, failure.port) from failure
            raise StartError(sentence) from failure
        yield _Listeners(clients, slaves)


def _address_of(broker: Wiring, servers: Sequence[RemotingServer]) -> BrokerAddress:
    vip_port = servers[1].port if len(servers) > 1 else None
    return BrokerAddress(broker.address, servers[0].port, vip_port, broker.ha_port)
