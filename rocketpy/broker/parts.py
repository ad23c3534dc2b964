"""The parts of one broker, put together: tables, services, processors, servers. What runs them is :mod:`.app`.

Nothing here decides anything; whoever adds a service or a processor adds it here, with its collaborators.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from random import Random
from typing import Protocol

import trio

from rocketpy.broker.acl.hot_guards import HotGuards
from rocketpy.broker.admin_side import AdminSide
from rocketpy.broker.client_side import ClientSide
from rocketpy.broker.hooks import BrokerHooks
from rocketpy.broker.live_settings import LiveSettings
from rocketpy.broker.logs import LEVEL_KEYS, apply_log_levels
from rocketpy.broker.message_put import MessagePut
from rocketpy.broker.processors.query import QueryMessageProcessor
from rocketpy.broker.pull_side import PullSide
from rocketpy.broker.send_side import LIVE_KEYS, SendSide
from rocketpy.broker.services.acl_file_watch import AclFileWatchService
from rocketpy.broker.services.broker_stats import BrokerStatsService
from rocketpy.broker.services.lateness import LatenessService
from rocketpy.broker.services.pull_request_hold import PullRequestHoldService
from rocketpy.broker.services.registration import RegistrationService
from rocketpy.broker.services.schedule_message import ScheduleMessageService
from rocketpy.broker.services.table_persist import TablePersistService
from rocketpy.broker.services.water_mark import WaterMarkService
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.broker.stats.broker_stats import BrokerStats
from rocketpy.broker.tables import Tables
from rocketpy.broker.transaction_parts import TransactionParts
from rocketpy.clock import Clock
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.hot_headers import decode_hot_send
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.server import RemotingServer
from rocketpy.remoting.tls import ServerTls
from rocketpy.settings import setting_rows
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.store.message_store import MessageStore

LIVE_STORE_KEYS = [row.key for row in setting_rows(MessageStoreConfig) if row.live]

_log = logging.getLogger("rocketpy.broker")


class Service(Protocol):
    """A loop of the broker: runs until it is cancelled; a failure ends the broker."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Report started when the rest of the broker may rely on it."""
        ...


class BrokerParts:
    """The services and processors of one broker, put together; what runs them is above."""

    def __init__(
        self,
        *,
        settings: BrokerSettings,
        live_settings: LiveSettings,
        tables: Tables,
        store: MessageStore,
        client: RemotingClient,
        hold_service: PullRequestHoldService,
        clock: Clock,
        randomness: Random,
        store_host: bytes,
        port: int,
        stop: trio.Event,
        tls: ServerTls,
        hooks: BrokerHooks,
    ) -> None:
        config = settings.broker
        self.live_settings = live_settings
        self.hold_service = hold_service
        self.address = f"{config.broker_ip1}:{port}"
        self.client_side = ClientSide(config=config, tables=tables, store=store, current_time=trio.current_time)
        # A group goes on behind a message that it has sent back: power that fails must not take the copy and leave the
        # offset.
        tables.offsets.stored.before_write = store.flush
        self.persistence = TablePersistService(
            at_once=[tables.topics.stored, tables.groups.stored, tables.filters.stored],
            periodic=[tables.offsets.stored],
            period_seconds=lambda: config.flush_consumer_offset_interval / 1000,
        )
        self.registration = RegistrationService(
            config=config,
            namesrv_addresses=config.namesrv_addresses,
            broker_addr=self.address,
            ha_server_addr=f"{config.broker_ip2}:{port + 1}",
            topic_config_manager=tables.topics,
            client=client,
        )
        self.lateness = LatenessService()
        self.schedule = ScheduleMessageService(
            store=store,
            levels=tables.levels,
            offsets=tables.delay_offsets,
            clock=clock,
            flush_interval_ms=settings.store.flush_delay_offset_interval,
            serve_woken=hold_service.serve_woken,
            stats=tables.stats if settings.store.enable_schedule_message_stats else None,
        )
        self.message_put = MessagePut(store=store, levels=tables.levels, delivery=self.schedule)
        self.transactions = TransactionParts(
            config=config,
            store_config=settings.store,
            store=store,
            message_put=self.message_put,
            topic_config_manager=tables.topics,
            consumer_offset_manager=tables.offsets,
            producer_manager=tables.producers,
            clock=clock,
            store_host=store_host,
        )
        self.send_side = SendSide(
            config=config,
            store_config=settings.store,
            store=store,
            message_put=self.message_put,
            tables=tables,
            hooks=hooks,
            broker_addr=self.address,
            store_host=store_host,
            clock=clock,
            randomness=randomness,
        )
        self.pull_side = PullSide(
            config=config,
            store_config=settings.store,
            store=store,
            message_put=self.message_put,
            hold_service=hold_service,
            tables=tables,
            hooks=self.send_side.consume_hooks,
            store_host=store_host,
            clock=clock,
        )
        live_settings.on_change(LIVE_KEYS, self.send_side.settings_changed)
        live_settings.on_change(LIVE_STORE_KEYS, store.settings_changed)
        live_settings.on_change(["autoCreateTopicEnable"], tables.topics.settings_changed)
        self.broker_stats = BrokerStats(statistics=store.statistics)
        live_settings.on_change(LEVEL_KEYS, lambda: apply_log_levels(config))
        self.admin_side = AdminSide(
            config=config,
            tables=tables,
            store=store,
            live_settings=live_settings,
            figures=(
                self.broker_stats.runtime_info,
                self.lateness.runtime_info,
                self.schedule.runtime_info,
                self.pull_side.lag.runtime_info,
                tables.subscription_watch.runtime_info,
            ),
            broker_addr=self.address,
            register_all=self.registration.register_all,
            clock=clock,
        )
        self.services: tuple[Service, ...] = (
            hold_service,
            self.client_side.housekeeping,
            self.persistence,
            self.lateness,
            BrokerStatsService(stats=tables.stats, broker_stats=self.broker_stats, clock=clock),
            WaterMarkService(
                store=store, lateness=self.lateness, waiting_sends=lambda: store.flush_wait().waiting_count
            ),
            tls,
            *(() if tables.accounts is None else (AclFileWatchService(manager=tables.accounts),)),
            self.transactions.check_service,
            *self.send_side.services,
            self.pull_side.lag,
            self.pull_side.slow_consumers,
            *((self.schedule,) if settings.store.broker_role is not BrokerRole.SLAVE else ()),
        )
        """What runs beside the servers, in the order in which it is started."""
        self._settings = settings
        self._tables = tables
        self._store = store
        self._clock = clock
        self._randomness = randomness
        self._store_host = store_host
        self._stop = stop
        self._tls = tls

    def servers(self, listeners: Sequence[socket.socket]) -> list[RemotingServer]:
        """Return a server for the main port, and one for the VIP port when there is one."""
        dispatcher = self.dispatcher()
        dispatchers = [dispatcher, dispatcher.without([RequestCode.PULL_MESSAGE])]
        return [
            RemotingServer(
                listeners=[listener],
                dispatcher=each,
                config=self._settings.server,
                on_close=self.connection_closed,
                tls=self._tls,
            )
            for listener, each in zip(listeners, dispatchers, strict=False)
        ]

    async def wait_answered(self) -> None:
        """Wait until the flush has come that the replies of accepted messages wait for."""
        self._store.end_burst()
        if self._store.sync_flush:
            flushed = trio.Event()
            self._store.wait_durable(self._store.wrote_offset, lambda _: flushed.set())
            await flushed.wait()

    def connection_closed(self, connection: Connection) -> None:
        """Forget a connection that has ended, and tell whom it concerns."""
        self.hold_service.drop_connection(connection)
        if not self._stop.is_set():  # at the end every connection closes, and there is nobody left to tell
            self.client_side.housekeeping.connection_closed(connection)

    def dispatcher(self) -> Dispatcher:
        """Return who serves every request of the main port."""
        accounts = self._tables.accounts
        guards = None if accounts is None else HotGuards(accounts)
        dispatcher = Dispatcher(
            unsupported_log=_log_unsupported,
            authorize=None if accounts is None else accounts.authorize,
            fast_guards=None if guards is None else guards.by_code(),
            end_burst=self.send_side.end_burst,
            after_replies=self.hold_service.serve_woken,
        )
        self.transactions.register(dispatcher, after_replies=self.hold_service.serve_woken)
        self.send_side.register(dispatcher, decode=decode_hot_send if guards is None else guards.decode_send)
        self.pull_side.register(dispatcher)
        self.client_side.register(dispatcher)
        self.admin_side.register(dispatcher)
        QueryMessageProcessor(
            store=self._store, default_query_max_num=self._settings.store.default_query_max_num
        ).register(dispatcher)
        return dispatcher


def _log_unsupported(code: int) -> None:
    _log.warning("request code %d is not supported", code)
