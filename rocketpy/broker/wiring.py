"""The parts of one broker, put together: tables, services, processors, servers. What runs them is :mod:`.app`.

Nothing here decides anything; whoever adds a service or a processor adds it here, with its collaborators.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from typing import Protocol

import trio

from rocketpy.broker.acl.fast_path_guards import HotGuards
from rocketpy.broker.acl.file_watch import AclFileWatchService
from rocketpy.broker.admin.feature import AdminFeature
from rocketpy.broker.clients.feature import ClientsFeature
from rocketpy.broker.context import BrokerContext
from rocketpy.broker.delay.feature import DelayFeature
from rocketpy.broker.hooks import BrokerHooks
from rocketpy.broker.live_settings import LiveSettings
from rocketpy.broker.logs import LEVEL_KEYS, apply_log_levels
from rocketpy.broker.metadata.persistence import TablePersistService
from rocketpy.broker.metadata.registration import RegistrationService
from rocketpy.broker.monitoring.feature import MonitoringFeature
from rocketpy.broker.pull.feature import PullFeature
from rocketpy.broker.pull.long_polling import PullRequestHoldService
from rocketpy.broker.query.processor import QueryMessageProcessor
from rocketpy.broker.send.feature import LIVE_KEYS, SendFeature
from rocketpy.broker.transaction.feature import TransactionFeature
from rocketpy.containment import Contained
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.hot_headers import decode_hot_send
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.config import NettyServerConfig
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.connection_budget import ConnectionBudget
from rocketpy.remoting.descriptors import allowed_connections, descriptor_limit
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.server import RemotingServer
from rocketpy.remoting.tls import ServerTls
from rocketpy.settings import setting_rows
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.disk.descriptor_budget import descriptor_budget

LIVE_STORE_KEYS = [row.key for row in setting_rows(MessageStoreConfig) if row.live]

_log = logging.getLogger("rocketpy.broker")


class Service(Protocol):
    """A loop of the broker: runs until it is cancelled; a failure ends the broker."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Report started when the rest of the broker may rely on it."""
        ...


class Wiring:
    """The services and processors of one broker, put together; what runs them is above."""

    def __init__(
        self,
        context: BrokerContext,
        *,
        server_config: NettyServerConfig,
        live_settings: LiveSettings,
        client: RemotingClient,
        hold_service: PullRequestHoldService,
        stop: trio.Event,
        tls: ServerTls,
        hooks: BrokerHooks,
    ) -> None:
        self.live_settings = live_settings
        self.hold_service = hold_service
        self.persistence = _persistence(context)
        self.registration = _registration(context, client)
        self.clients = ClientsFeature(context, current_time=trio.current_time)
        self.delay = DelayFeature(context, serve_woken=hold_service.serve_woken)
        message_put = self.delay.message_put
        self.transaction = TransactionFeature(context, message_put=message_put)
        self.send = SendFeature(context, message_put=message_put, hooks=hooks)
        self.pull = PullFeature(
            context, message_put=message_put, hold_service=hold_service, hooks=self.send.consume_hooks
        )
        self.monitoring = MonitoringFeature(context)
        self.admin = AdminFeature(
            context,
            live_settings=live_settings,
            figures=(
                self.monitoring.broker_stats.runtime_info,
                self.monitoring.lateness.runtime_info,
                self.delay.schedule.runtime_info,
                self.pull.lag.runtime_info,
                context.tables.subscription_watch.runtime_info,
            ),
            register_all=self.registration.register_all,
        )
        self._context = context
        self._server_config = server_config
        self._stop = stop
        self._tls = tls
        self.services = self._all_services()
        """What runs beside the servers, in the order in which it is started."""
        self._subscribe_to_settings()

    @property
    def address(self) -> str:
        """The address that the nameservers are told."""
        return self._context.broker_addr

    def servers(self, listeners: Sequence[socket.socket]) -> list[RemotingServer]:
        """Return a server for the main port, and one for the VIP port when there is one."""
        dispatcher = self.dispatcher()
        dispatchers = [dispatcher, dispatcher.without([RequestCode.PULL_MESSAGE])]
        budget = self._connection_budget()
        return [
            RemotingServer(
                listeners=[listener],
                dispatcher=each,
                config=self._server_config,
                on_close=self.connection_closed,
                tls=self._tls,
                budget=budget,
            )
            for listener, each in zip(listeners, dispatchers, strict=False)
        ]

    async def wait_answered(self) -> None:
        """Wait until the flush has come that the replies of accepted messages wait for."""
        store = self._context.store
        store.end_burst()
        if store.sync_flush:
            flushed = trio.Event()
            store.wait_durable(store.wrote_offset, lambda _: flushed.set())
            await flushed.wait()

    async def finish(self) -> None:
        """Note where the tables and the delivery of delayed messages stand; nothing runs any more."""
        await self.delay.schedule.finish()
        await self.persistence.persist_all()

    def connection_closed(self, connection: Connection) -> None:
        """Forget a connection that has ended, and mark its groups as changed; each table by itself, contained."""
        forgetting = [self.hold_service.drop_connection]
        if self._context.tables.accounts is not None:
            forgetting.append(self._context.tables.accounts.connection_closed)
        if not self._stop.is_set():  # at the end every connection closes, and there is nobody left to notify
            forgetting.append(self.clients.housekeeping.connection_closed)
        for forget in forgetting:
            with Contained(_log, "the end of the connection to %s", connection.peer):
                forget(connection)

    def dispatcher(self) -> Dispatcher:
        """Return who serves every request of the main port."""
        accounts = self._context.tables.accounts
        guards = None if accounts is None else HotGuards(accounts)
        dispatcher = Dispatcher(
            unsupported_log=_log_unsupported,
            authorize=None if accounts is None else accounts.authorize,
            fast_guards=None if guards is None else guards.by_code(),
            end_burst=self.send.end_burst,
            after_replies=self.hold_service.serve_woken,
        )
        self.transaction.register(dispatcher)
        self.send.register(dispatcher, decode=decode_hot_send if guards is None else guards.decode_send)
        self.pull.register(dispatcher)
        self.clients.register(dispatcher)
        self.admin.register(dispatcher)
        QueryMessageProcessor(
            store=self._context.store, default_query_max_num=self._context.store_config.default_query_max_num
        ).register(dispatcher)
        return dispatcher

    # ---- private --------------------------------------------------------------------------------------------------

    def _connection_budget(self) -> ConnectionBudget:
        """One budget for all ports, within what the store's files leave of the descriptors."""
        config = self._server_config
        files = descriptor_budget(self._context.store_config, descriptor_limit())
        return ConnectionBudget(
            allowed_connections(config.connections_max, needed_by_files=files.total), config.connections_per_address_max
        )

    def _all_services(self) -> Sequence[Service]:
        accounts = self._context.tables.accounts
        return (
            self.hold_service,
            self.clients.housekeeping,
            self.clients.notifications,
            self.persistence,
            *self.monitoring.services,
            self._tls,
            *(() if accounts is None else (AclFileWatchService(manager=accounts),)),
            self.transaction.check_service,
            *self.send.services,
            *self.pull.services,
            *self.delay.services,
        )

    def _subscribe_to_settings(self) -> None:
        """Have everybody told who keeps what it made of a setting."""
        on_change, context = self.live_settings.on_change, self._context
        on_change(LIVE_KEYS, self.send.settings_changed)
        on_change(LIVE_STORE_KEYS, context.store.settings_changed)
        on_change(["autoCreateTopicEnable"], context.tables.topics.settings_changed)
        on_change(LEVEL_KEYS, lambda: apply_log_levels(context.config))


def _persistence(context: BrokerContext) -> TablePersistService:
    config, tables = context.config, context.tables
    # A group goes on behind a message that it has sent back: power that fails must not take the copy and leave the
    # offset.
    tables.offsets.stored.before_write = context.store.flush
    return TablePersistService(
        at_once=[tables.topics.stored, tables.groups.stored, tables.filters.stored],
        periodic=[tables.offsets.stored],
        period_seconds=lambda: config.flush_consumer_offset_interval / 1000,
    )


def _registration(context: BrokerContext, client: RemotingClient) -> RegistrationService:
    return RegistrationService(
        config=context.config,
        namesrv_addresses=context.config.namesrv_addresses,
        broker_addr=context.broker_addr,
        ha_server_addr=context.ha_server_addr,
        topic_config_manager=context.tables.topics,
        client=client,
    )


def _log_unsupported(code: int) -> None:
    _log.warning("request code %d is not supported", code)
