"""A whole broker: its scopes, nested as they depend on each other, and a shutdown that reads in order.

::

    listeners                         bound first, so that a port in use leaves nothing behind; not served yet
      tables                          topics, groups, offsets: read from their files
        open_message_store()          recovery, abort file, the store's own services
          client to the nameservers
            services                  hold, housekeeping, persistence
              servers                 the main port, and the VIP port, which refuses pulls
                registration          last, when everything behind it works

A service that fails takes the broker down: its exception ends every scope, the store leaves its abort file, and the
process ends with a status that is not 0.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from random import Random

import attrs
import trio

from rocketpy.broker.ground import Ground
from rocketpy.broker.hooks import NO_HOOKS, BrokerHooks
from rocketpy.broker.parts import BrokerParts
from rocketpy.broker.services.pull_request_hold import PullRequestHoldService
from rocketpy.broker.start_settings import VIP_PORT_STEP, BrokerSettings, resolved_host
from rocketpy.broker.tables import Tables
from rocketpy.clock import Clock
from rocketpy.remoting.client import open_remoting_client
from rocketpy.remoting.connection import pack_host
from rocketpy.remoting.server import RemotingServer, open_listeners
from rocketpy.remoting.tls import ServerTls
from rocketpy.runner import RunBlocking
from rocketpy.store.disk import Disk
from rocketpy.store.message_store import MessageStore
from rocketpy.store.opening import OpenRunner, open_message_store
from rocketpy.store.plug_in import load_factories, wrapped_store
from rocketpy.store.recovery import RecoveryReport

DRAIN_SECONDS = 5.0
"""How long a shutdown waits for the flush that deferred replies wait for."""

_log = logging.getLogger("rocketpy.broker")
_store_log = logging.getLogger("rocketpy.store")
_store_error_log = logging.getLogger("rocketpy.store.error")


@attrs.frozen
class BrokerAddress:
    """Where a running broker is found."""

    address: str  # as registered: brokerIP1 and port
    port: int
    vip_port: int | None


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
    task_status: trio.TaskStatus[BrokerAddress] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run until ``stop`` is set, then shut down in order; reports started when clients may come.

    Raises StartError or SettingsError before anything was written, whatever ends a service later.
    """
    plug_ins = load_factories(settings.broker.message_store_plug_in)
    hooks = hooks.with_configured(settings.broker.send_message_hooks, settings.broker.consume_message_hooks)
    tls = ServerTls(settings.tls_server, report=lambda text: _log.info("%s", text))
    listeners = await _open_all_listeners(settings)
    try:
        tables = Tables.load(settings, disk=disk, clock=clock, run_blocking=run_blocking)
        hold_service = PullRequestHoldService()
        servers: list[RemotingServer] = []

        def flush_replies() -> None:
            for server in servers:
                server.flush_replies()

        port = _port_of(listeners[0])
        store_host = pack_host(resolved_host(settings.broker.broker_ip1), port)
        async with (
            open_message_store(
                settings.store,
                disk=disk,
                clock=clock,
                run_blocking=run_blocking,
                store_host=store_host,
                tags_code=tables.levels.tags_code,
                bit_map_of=tables.filters.bit_map_of if settings.broker.enable_calc_filter_bit_map else None,
                message_arriving=hold_service.message_arriving,
                flush_replies=flush_replies,
                report=_log_recovery,
                report_progress=_log_recovery_progress,
                report_full=_log_full,
                open_runner=open_runner,
            ) as plain_store,
            open_remoting_client(config=settings.client, tls=settings.tls_client) as client,
        ):
            store = wrapped_store(plain_store, plug_ins)
            _restore_topics(tables, store)
            broker = BrokerParts(
                Ground(
                    config=settings.broker,
                    store_config=settings.store,
                    tables=tables,
                    store=store,
                    port=port,
                    store_host=store_host,
                    clock=clock,
                    randomness=randomness,
                ),
                server_config=settings.server,
                live_settings=settings.live(disk=disk, run_blocking=run_blocking, clock=clock),
                client=client,
                hold_service=hold_service,
                stop=stop,
                tls=tls,
                hooks=hooks,
            )
            servers.extend(broker.servers(listeners))
            await _serve(broker, servers, stop, task_status)
    finally:
        for each in listeners:
            each.close()


async def _serve(
    broker: BrokerParts,
    servers: Sequence[RemotingServer],
    stop: trio.Event,
    task_status: trio.TaskStatus[BrokerAddress],
) -> None:
    """Everything between an open store and a store that may close: flush, checkpoint and abort file are its own."""
    async with trio.open_nursery() as services:
        for service in broker.services:
            await services.start(service.run)
        async with trio.open_nursery() as connections:
            for server in servers:
                await connections.start(server.run)
            async with trio.open_nursery() as registering:
                await registering.start(broker.registration.run)
                task_status.started(_address_of(broker, servers))
                await stop.wait()
                registering.cancel_scope.cancel()
            await _drain(broker, servers)
            connections.cancel_scope.cancel()
        services.cancel_scope.cancel()
    await broker.finish()
    _log.info("connections closed, tables written, closing the store")


async def _drain(broker: BrokerParts, servers: Sequence[RemotingServer]) -> None:
    """Take no one new, leave the routes, and give the replies that are owed, within DRAIN_SECONDS."""
    _log.info("shutting down: leaving the nameservers, answering what was accepted")
    for server in servers:
        server.stop_accepting()
    await broker.registration.unregister_all()
    with trio.move_on_after(DRAIN_SECONDS):
        await broker.wait_answered()
    for server in servers:
        server.flush_replies()


async def _open_all_listeners(settings: BrokerSettings) -> list[socket.socket]:
    """Bind the main port and, two below it, the VIP port; none for a port that the system chooses."""
    server = settings.server
    listeners = await open_listeners(settings.host, server.listen_port, server.server_socket_backlog)
    if server.listen_port > VIP_PORT_STEP:
        try:
            vip_port = server.listen_port - VIP_PORT_STEP
            listeners += await open_listeners(settings.host, vip_port, server.server_socket_backlog)
        except BaseException:
            listeners[0].close()
            raise
    return listeners


def _restore_topics(tables: Tables, store: MessageStore) -> None:
    """Have a topic for every queue that the store has; say so, and what of the log is still to be indexed."""
    if store.index_behind:
        _log.info("%d bytes of the log are not indexed yet: the index is built while the broker serves, see "
                  "indexBehind in its runtime info", store.index_behind)  # fmt: skip
    restored = tables.topics.restore_from_queues(store.queues())
    if restored:
        _log.warning("topics with messages that topics.json did not have: %s", ", ".join(restored))


def _log_recovery(report: RecoveryReport) -> None:
    """Say what was found; what looks like a damaged record at the end of the log is cut off, and said louder."""
    _store_log.info(
        "recovered: log end %d, %d records read from %d on, %d queue entries written",
        report.end_offset,
        report.record_count,
        report.scanned_from,
        report.unit_count,
    )
    if report.why:
        _store_error_log.warning("the log was cut at %d: %s", report.end_offset, report.why)


def _log_recovery_progress(reached_offset: int, end_offset: int) -> None:
    _store_log.info("being recovered: at %d of the log, whose last file ends at %d", reached_offset, end_offset)


def _log_full(why: str | None) -> None:
    """Say that no message is taken any more, and that messages are taken again."""
    if why is not None:
        _store_error_log.error("no message is taken: %s", why)
    else:
        _store_error_log.warning("messages are taken again, the disk has room")


def _port_of(listener: socket.socket) -> int:
    port = listener.getsockname()[1]
    assert isinstance(port, int)
    return port


def _address_of(broker: BrokerParts, servers: Sequence[RemotingServer]) -> BrokerAddress:
    vip_port = servers[1].port if len(servers) > 1 else None
    return BrokerAddress(broker.address, servers[0].port, vip_port)
