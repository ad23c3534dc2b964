"""The parts of one broker, put together: tables, services, processors, servers. What runs them is :mod:`.app`.

Nothing here decides anything; whoever adds a service or a processor adds it here, with its collaborators.
"""

from __future__ import annotations

import logging
import os.path
import socket
from collections.abc import Sequence
from random import Random
from typing import Protocol

import attrs
import trio

from rocketpy.broker.acl.access_control import load_accounts
from rocketpy.broker.acl.hot_guards import HotGuards
from rocketpy.broker.acl.plain_permission import PlainPermissionManager
from rocketpy.broker.consumer_filter import ConsumerFilterManager
from rocketpy.broker.consumer_manager import ConsumerManager
from rocketpy.broker.consumer_offset import ConsumerOffsetManager
from rocketpy.broker.delay_levels import DelayLevels
from rocketpy.broker.delay_offset import DelayOffsetManager
from rocketpy.broker.hooks import BrokerHooks
from rocketpy.broker.live_settings import LiveSettings
from rocketpy.broker.logs import LEVEL_KEYS, apply_log_levels
from rocketpy.broker.message_put import MessagePut
from rocketpy.broker.processors.admin_acl import AdminAclProcessor
from rocketpy.broker.processors.admin_broker import AdminBrokerProcessor
from rocketpy.broker.processors.admin_client import AdminClientProcessor
from rocketpy.broker.processors.admin_config import AdminConfigProcessor
from rocketpy.broker.processors.admin_delay import AdminDelayProcessor
from rocketpy.broker.processors.admin_group import AdminGroupProcessor
from rocketpy.broker.processors.admin_group_offset import AdminGroupOffsetProcessor
from rocketpy.broker.processors.admin_offset import AdminOffsetProcessor
from rocketpy.broker.processors.admin_queue import AdminQueueProcessor
from rocketpy.broker.processors.admin_stats import AdminStatsProcessor
from rocketpy.broker.processors.admin_store import AdminStoreProcessor
from rocketpy.broker.processors.admin_topic import AdminTopicProcessor
from rocketpy.broker.processors.client_manage import ClientManageProcessor
from rocketpy.broker.processors.consume_stats import ConsumeStatsProcessor
from rocketpy.broker.processors.consumer_manage import ConsumerManageProcessor
from rocketpy.broker.processors.lock import LockProcessor
from rocketpy.broker.processors.query import QueryMessageProcessor
from rocketpy.broker.producer_manager import ProducerManager
from rocketpy.broker.pull_side import PullSide
from rocketpy.broker.rebalance_lock import RebalanceLockManager
from rocketpy.broker.send_side import LIVE_KEYS, SendSide
from rocketpy.broker.services.acl_file_watch import AclFileWatchService
from rocketpy.broker.services.broker_stats import BrokerStatsService
from rocketpy.broker.services.client_housekeeping import ClientHousekeepingService
from rocketpy.broker.services.lateness import LatenessService
from rocketpy.broker.services.pull_request_hold import PullRequestHoldService
from rocketpy.broker.services.registration import RegistrationService
from rocketpy.broker.services.schedule_message import ScheduleMessageService
from rocketpy.broker.services.table_persist import TablePersistService
from rocketpy.broker.services.water_mark import WaterMarkService
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.broker.stats.broker_stats import BrokerStats
from rocketpy.broker.stats.broker_stats_manager import BrokerStatsManager
from rocketpy.broker.subscription_group import SubscriptionGroupManager
from rocketpy.broker.subscription_watch import SubscriptionWatch
from rocketpy.broker.topic_config import TopicConfigManager
from rocketpy.broker.transaction_parts import TransactionParts
from rocketpy.clock import Clock
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.hot_headers import DecodeSend, decode_hot_send
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.server import RemotingServer
from rocketpy.remoting.tls import ServerTls
from rocketpy.runner import RunBlocking
from rocketpy.settings import setting_rows
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.store.disk import Disk
from rocketpy.store.message_store import MessageStore

LIVE_STORE_KEYS = [row.key for row in setting_rows(MessageStoreConfig) if row.live]

_log = logging.getLogger("rocketpy.broker")


class Service(Protocol):
    """A loop of the broker: runs until it is cancelled; a failure ends the broker."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Report started when the rest of the broker may rely on it."""
        ...


@attrs.frozen(kw_only=True)
class Tables:
    """The tables with files, and those without."""

    topics: TopicConfigManager
    groups: SubscriptionGroupManager
    offsets: ConsumerOffsetManager
    consumers: ConsumerManager
    filters: ConsumerFilterManager
    subscription_watch: SubscriptionWatch
    producers: ProducerManager
    locks: RebalanceLockManager
    stats: BrokerStatsManager
    accounts: PlainPermissionManager | None  # None without access control
    levels: DelayLevels
    delay_offsets: DelayOffsetManager

    @classmethod
    def load(cls, settings: BrokerSettings, *, disk: Disk, clock: Clock, run_blocking: RunBlocking) -> Tables:
        """Read the files; StartError names one that makes no sense."""
        directory = os.path.join(settings.store.root, "config")
        filters = ConsumerFilterManager(
            config=settings.broker,
            path=os.path.join(directory, "consumerFilter.json"),
            disk=disk,
            run_blocking=run_blocking,
            clock=clock,
        )
        subscription_watch = SubscriptionWatch()
        tables = cls(
            topics=TopicConfigManager(
                config=settings.broker,
                path=os.path.join(directory, "topics.json"),
                disk=disk,
                run_blocking=run_blocking,
                clock=clock,
                enable_lmq=settings.store.enable_lmq,
            ),
            groups=SubscriptionGroupManager(
                config=settings.broker,
                path=os.path.join(directory, "subscriptionGroup.json"),
                disk=disk,
                run_blocking=run_blocking,
                clock=clock,
                enable_lmq=settings.store.enable_lmq,
            ),
            offsets=ConsumerOffsetManager(
                path=os.path.join(directory, "consumerOffset.json"),
                disk=disk,
                run_blocking=run_blocking,
                enable_lmq=settings.store.enable_lmq,
            ),
            consumers=ConsumerManager(
                current_time=trio.current_time,
                consumer_filter_manager=filters,
                subscription_watch=subscription_watch,
            ),
            filters=filters,
            subscription_watch=subscription_watch,
            producers=ProducerManager(current_time=trio.current_time),
            locks=RebalanceLockManager(config=settings.broker, current_time=trio.current_time),
            stats=BrokerStatsManager(
                cluster_name=settings.broker.broker_cluster_name,
                clock=clock,
                enable_detail_stat=settings.broker.enable_detail_stat,
                disk_fall_recorded=settings.store.disk_fall_recorded,
                enable_lmq=settings.store.enable_lmq,
            ),
            accounts=load_accounts(
                settings.broker, settings.config_path, disk=disk, run_blocking=run_blocking, clock=clock
            ),
            levels=DelayLevels.parse(settings.store.message_delay_level),
            delay_offsets=DelayOffsetManager(
                path=os.path.join(directory, "delayOffset.json"), disk=disk, run_blocking=run_blocking
            ),
        )
        tables.topics.load()
        tables.topics.settings_changed()
        tables.offsets.load()
        tables.filters.load()
        tables.delay_offsets.load()
        tables.groups.load()
        return tables


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
        self.housekeeping = ClientHousekeepingService(
            config=config,
            consumer_manager=tables.consumers,
            producer_manager=tables.producers,
            rebalance_lock_manager=tables.locks,
            consumer_filter_manager=tables.filters,
        )
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
            topics=tables.topics,
            groups=tables.groups,
            producers=tables.producers,
            stats=tables.stats,
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
            topics=tables.topics,
            groups=tables.groups,
            consumers=tables.consumers,
            filters=tables.filters,
            offsets=tables.offsets,
            stats=tables.stats,
            hooks=self.send_side.consume_hooks,
            store_host=store_host,
            clock=clock,
        )
        live_settings.on_change(LIVE_KEYS, self.send_side.settings_changed)
        live_settings.on_change(LIVE_STORE_KEYS, store.settings_changed)
        live_settings.on_change(["autoCreateTopicEnable"], tables.topics.settings_changed)
        self.broker_stats = BrokerStats(statistics=store.statistics)
        live_settings.on_change(LEVEL_KEYS, lambda: apply_log_levels(config))
        self.services: tuple[Service, ...] = (
            hold_service,
            self.housekeeping,
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
            self.housekeeping.connection_closed(connection)

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
        self._register_message_processors(dispatcher, decode_hot_send if guards is None else guards.decode_send)
        self._register_other_processors(dispatcher)
        return dispatcher

    # ---- private --------------------------------------------------------------------------------------------------

    async def _permission_changed(self) -> None:
        self._tables.topics.next_version()
        await self.registration.register_all()

    def _register_message_processors(self, dispatcher: Dispatcher, decode: DecodeSend) -> None:
        settings, store = self._settings, self._store
        self.send_side.register(dispatcher, decode=decode)
        self.pull_side.register(dispatcher)
        QueryMessageProcessor(store=store, default_query_max_num=settings.store.default_query_max_num).register(
            dispatcher
        )

    def _register_other_processors(self, dispatcher: Dispatcher) -> None:
        settings, tables, store = self._settings, self._tables, self._store
        ClientManageProcessor(
            config=settings.broker,
            topic_config_manager=tables.topics,
            subscription_group_manager=tables.groups,
            consumer_manager=tables.consumers,
            producer_manager=tables.producers,
            current_time=trio.current_time,
        ).register(dispatcher)
        ConsumerManageProcessor(
            consumer_manager=tables.consumers, consumer_offset_manager=tables.offsets, store=store
        ).register(dispatcher)
        LockProcessor(rebalance_lock_manager=tables.locks).register(dispatcher)
        AdminAclProcessor(manager=tables.accounts, config=settings.broker, broker_addr=self.address).register(
            dispatcher
        )
        AdminTopicProcessor(
            config=settings.broker,
            topic_config_manager=tables.topics,
            consumer_manager=tables.consumers,
            consumer_offset_manager=tables.offsets,
            store=store,
            stats=tables.stats,
            register_topics=self.registration.register_all,
        ).register(dispatcher)
        AdminOffsetProcessor(consumer_offset_manager=tables.offsets, store=store).register(dispatcher)
        self._register_statistics(dispatcher)
        AdminGroupProcessor(
            subscription_group_manager=tables.groups,
            consumer_manager=tables.consumers,
            producer_manager=tables.producers,
            consumer_offset_manager=tables.offsets,
            config=settings.broker,
            stats=tables.stats,
            clock=self._clock,
        ).register(dispatcher)
        AdminConfigProcessor(
            config=settings.broker, live_settings=self.live_settings, permission_changed=self._permission_changed
        ).register(dispatcher)
        AdminStoreProcessor(store=store, topic_config_manager=tables.topics).register(dispatcher)
        AdminDelayProcessor(delay_offset_manager=tables.delay_offsets).register(dispatcher)
        AdminGroupOffsetProcessor(
            topic_config_manager=tables.topics,
            consumer_manager=tables.consumers,
            consumer_offset_manager=tables.offsets,
            store=store,
        ).register(dispatcher)
        AdminClientProcessor(
            config=settings.broker,
            topic_config_manager=tables.topics,
            consumer_manager=tables.consumers,
            consumer_offset_manager=tables.offsets,
            store=store,
        ).register(dispatcher)
        AdminQueueProcessor(
            consumer_manager=tables.consumers,
            store=store,
            filter_of=tables.filters.filter_of,
        ).register(dispatcher)

    def _register_statistics(self, dispatcher: Dispatcher) -> None:
        settings, tables, store = self._settings, self._tables, self._store
        AdminBrokerProcessor(
            config=settings.broker,
            store=store,
            figures=(
                self.broker_stats.runtime_info,
                self.lateness.runtime_info,
                self.schedule.runtime_info,
                self.pull_side.lag.runtime_info,
                tables.subscription_watch.runtime_info,
            ),
        ).register(dispatcher)
        AdminStatsProcessor(stats=tables.stats).register(dispatcher)
        ConsumeStatsProcessor(
            config=settings.broker,
            broker_addr=self.address,
            topic_config_manager=tables.topics,
            subscription_group_manager=tables.groups,
            consumer_manager=tables.consumers,
            consumer_offset_manager=tables.offsets,
            stats=tables.stats,
            store=store,
            clock=self._clock,
        ).register(dispatcher)


def _log_unsupported(code: int) -> None:
    _log.warning("request code %d is not supported", code)
