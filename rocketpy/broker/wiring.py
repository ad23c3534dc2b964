"""Composition root of a broker: makes its features and connects them to services, servers and settings. No logic.

:mod:`.app` runs what is built here. A new request code, service, figure or live setting belongs into the feature that
has it; a new feature is one line here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

import trio

from rocketpy.broker.acl.feature import AclFeature
from rocketpy.broker.clients.feature import ClientsFeature
from rocketpy.broker.context import BrokerContext
from rocketpy.broker.delay.feature import DelayFeature
from rocketpy.broker.feature import Feature, Service
from rocketpy.broker.hooks import BrokerHooks
from rocketpy.broker.live_settings import LiveSettings
from rocketpy.broker.metadata.feature import MetadataFeature
from rocketpy.broker.metadata.registration import MasterSearch, RegistrationService
from rocketpy.broker.monitoring.feature import MonitoringFeature
from rocketpy.broker.process_feature import ProcessFeature
from rocketpy.broker.pull.feature import PullFeature
from rocketpy.broker.pull.long_polling import PullRequestHoldService
from rocketpy.broker.query.feature import QueryFeature
from rocketpy.broker.replication.feature import ReplicationFeature
from rocketpy.broker.replication.tables_feature import ReplicatedTablesFeature
from rocketpy.broker.send.feature import SendFeature
from rocketpy.broker.start_settings import VIP_PORT_STEP
from rocketpy.broker.transaction.feature import TransactionFeature
from rocketpy.containment import Contained
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.host import decode_host, host_of, plain_host
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.config import NettyServerConfig
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.limits.connection_budget import ConnectionBudget
from rocketpy.remoting.limits.descriptors import allowed_connections, descriptor_limit
from rocketpy.remoting.limits.held_bytes import program_bytes
from rocketpy.remoting.limits.targets import acl_targets
from rocketpy.remoting.lull import LULL_SECONDS
from rocketpy.remoting.network import Listener, Network
from rocketpy.remoting.server import RemotingServer
from rocketpy.remoting.tls.contexts import ServerTls
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.descriptor_budget import descriptor_budget

_log = logging.getLogger("rocketpy.broker")


class Wiring:
    """The features of one broker, connected to each other; :mod:`.app` runs them."""

    def __init__(
        self,
        context: BrokerContext,
        *,
        server_config: NettyServerConfig,
        live_settings: LiveSettings,
        client: RemotingClient,
        network: Network,
        ha_listeners: Sequence[Listener],
        hold_service: PullRequestHoldService,
        stop: trio.Event,
        tls: ServerTls,
        hooks: BrokerHooks,
        run_blocking: RunBlocking,
        peer_time: Callable[[], float] = trio.current_time,
    ) -> None:
        self.live_settings = live_settings
        self.hold_service = hold_service
        self.replication = ReplicationFeature(
            context, client=client, network=network, listeners=ha_listeners, run_blocking=run_blocking
        )
        self.registration = _registration(context, self.replication.master_search, client, run_blocking)
        self.acl = AclFeature(context.tables.accounts, addresses=_addresses(context))
        self.metadata = MetadataFeature(context)
        self.clients = ClientsFeature(context, current_time=peer_time, is_stopping=stop.is_set)
        # Deliveries happen outside of bursts of requests.
        self.delay = DelayFeature(context, serve_woken=partial(hold_service.serve_woken, flushes=True))
        message_put = self.delay.message_put
        self.transaction = TransactionFeature(context, message_put=message_put)
        self.send = SendFeature(
            context,
            message_put=message_put,
            hooks=hooks,
            may_prepare=self.transaction.service.has_room,
            decode=self.acl.decode_send,
            decode_batch=self.acl.decode_batch,
        )
        self.pull = PullFeature(
            context, message_put=message_put, hold_service=hold_service, hooks=self.send.consume_hooks
        )
        self.monitoring = MonitoringFeature(context)
        self.replicated_tables = ReplicatedTablesFeature(
            context,
            client=client,
            master=self.replication.master_addresses,
            is_following=self.replication.is_following,
            run_blocking=run_blocking,
        )
        features: tuple[Feature, ...] = (
            ProcessFeature(context, tls=tls),
            self.monitoring,
            self.metadata,
            self.acl,
            self.transaction,
            self.delay,
            self.pull,
            self.send,
            self.clients,
            QueryFeature(context),
            self.replication,
            self.replicated_tables,
        )
        admin = _admin(context, live_settings, features, self.registration, run_blocking)
        self.features = (*features, admin)
        """In the order in which services are started and figures are shown."""
        self._context = context
        self._server_config = server_config
        self._tls = tls
        _subscribe(live_settings, self.features)

    @property
    def services(self) -> Sequence[Service]:
        """Services that run beside the servers, in the order in which they are started."""
        return [each for feature in self.features for each in feature.services]

    @property
    def address(self) -> str:
        """The address that the broker registers at the nameservers."""
        return self._context.broker_addr

    @property
    def ha_port(self) -> int:
        """The port for slaves."""
        return self._context.ha_port

    def servers(self, listeners: Sequence[Listener]) -> list[RemotingServer]:
        """Return a server for the main port, and one for the VIP port when there is one."""
        dispatcher = self.dispatcher()
        dispatchers = [dispatcher, dispatcher.without([RequestCode.PULL_MESSAGE])]
        budget, held = self._connection_budget(), program_bytes(self._server_config)
        return [
            RemotingServer(
                listeners=[listener],
                dispatcher=each,
                config=self._server_config,
                on_close=self.connection_closed,
                tls=self._tls,
                budget=budget,
                held=held,
                lull_seconds=0.0 if self._context.store.waits_for_storing else LULL_SECONDS,
            )
            for listener, each in zip(listeners, dispatchers, strict=False)
        ]

    def dispatcher(self) -> Dispatcher:
        """Return a dispatcher with every request code of the main port."""
        dispatcher = Dispatcher(
            unsupported_log=_log_unsupported,
            authorize=self.acl.authorize,
            fast_guards=self.acl.fast_guards,
            end_burst=self.send.end_burst,
            after_replies=self.hold_service.serve_woken,
        )
        for feature in self.features:
            feature.register(dispatcher)
        self.acl.declare(dispatcher.needs)
        return dispatcher

    def connection_closed(self, connection: Connection) -> None:
        """Drop a connection that has ended from each feature; a failure of one does not stop the others."""
        for feature in self.features:
            with Contained(_log, "the end of the connection to %s", connection.peer):
                feature.connection_closed(connection)

    async def wait_answered(self, timeout_s: float) -> None:
        """Return when the replies of accepted messages are queued, or after a time.

        What waits for a slave then is answered FLUSH_SLAVE_TIMEOUT, what waits for the disk not at all: whether it is
        stored as promised is not known.
        """
        store = self._context.store
        store.end_burst()
        # Without a message that waits, the end of the log need not be anywhere: a slave may have been sent nothing yet.
        if store.waiting_for_storing_count:
            with trio.move_on_after(timeout_s):
                answered = trio.Event()
                store.wait_stored(store.wrote_offset, lambda _: answered.set())
                store.end_burst()
                await answered.wait()
            store.give_up_waits()

    async def before_serving(self) -> None:
        """Complete the tables. Called when the services run, and before a request is served."""
        await self.replicated_tables.before_serving()

    async def finish(self) -> None:
        """Persist the progress of delayed messages, then the tables. Called when no service runs any more."""
        await self.delay.schedule.finish()
        await self.metadata.persistence.persist_all()

    # ---- private --------------------------------------------------------------------------------------------------

    def _connection_budget(self) -> ConnectionBudget:
        """Return one budget for all ports: the descriptors that the store's files leave."""
        config = self._server_config
        files = descriptor_budget(self._context.store_config, descriptor_limit())
        return ConnectionBudget(
            allowed_connections(config.connections_max, needed_by_files=files.total), config.connections_per_address_max
        )


def _addresses(context: BrokerContext) -> list[str]:
    """Return where clients reach the broker by its settings: its ports, and what ``aclTargets`` names."""
    numeric = plain_host(host_of(decode_host(context.store_host)).strip("[]"))
    hosts = dict.fromkeys((context.config.broker_ip1, numeric))  # brokers are asked by what a nameserver has of them
    ports = (context.port, context.port - VIP_PORT_STEP)
    return [*(f"{host}:{port}" for host in hosts for port in ports), *acl_targets(context.config.acl_targets)]


def _registration(
    context: BrokerContext, master_search: MasterSearch, client: RemotingClient, run_blocking: RunBlocking
) -> RegistrationService:
    return RegistrationService(
        config=context.config,
        namesrv_addresses=context.config.namesrv_addresses,
        broker_addr=context.broker_addr,
        ha_server_addr=context.ha_server_addr,
        topic_config_manager=context.tables.topics,
        master_search=master_search,
        client=client,
        run_blocking=run_blocking,
    )


def _admin(
    context: BrokerContext,
    live_settings: LiveSettings,
    features: Sequence[Feature],
    registration: RegistrationService,
    run_blocking: RunBlocking,
) -> Feature:
    # Loaded here: a tenth of the modules serves administration alone. A start that is refused before (settings, a port
    # in use, a store in use or damaged) and a program that only reads settings do not wait for them.
    from rocketpy.broker.admin.feature import AdminFeature

    return AdminFeature(
        context,
        live_settings=live_settings,
        figures_of_all=[feature.figures for feature in features],
        register_all=registration.register_all,
        run_blocking=run_blocking,
    )


def _subscribe(live_settings: LiveSettings, features: Sequence[Feature]) -> None:
    """Register the listeners that cache values derived from live settings."""
    for feature in features:
        for keys, listener in feature.settings.items():
            live_settings.on_change(keys, listener)


def _log_unsupported(code: int) -> None:
    _log.warning("request code %d is not supported", code)
