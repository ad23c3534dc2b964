"""The persistent and in-memory tables of one broker."""

from __future__ import annotations

import os.path
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.broker.acl.feature import load_accounts
from rocketpy.broker.clients.consumers import ConsumerManager
from rocketpy.broker.clients.producers import ProducerManager
from rocketpy.broker.clients.queue_locks import RebalanceLockManager
from rocketpy.broker.clients.subscription_consistency import SubscriptionWatch
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.delay.levels import DelayLevels
from rocketpy.broker.delay.offsets import DelayOffsetManager
from rocketpy.broker.metadata.ages import Ages
from rocketpy.broker.metadata.deleted_topics import DeletedTopics
from rocketpy.broker.metadata.groups import SubscriptionGroupManager
from rocketpy.broker.metadata.offset_resets import OffsetResets
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager
from rocketpy.broker.metadata.table_marks import TableMarks
from rocketpy.broker.metadata.topics import TopicConfigManager
from rocketpy.broker.monitoring.broker_stats_manager import BrokerStatsManager
from rocketpy.broker.pull.filters import ConsumerFilterManager
from rocketpy.broker.replication.offset_differences import OffsetDifferences
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.clock import Clock
from rocketpy.runner import RunBlocking
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.disk.interface import Disk

if TYPE_CHECKING:  # a broker without access control does not load it
    from rocketpy.broker.acl.plain_permission import PlainPermissionManager


@attrs.frozen(kw_only=True)
class Tables:
    """Every table of one broker; the features share them."""

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
    offset_resets: OffsetResets  # noted by a master
    offset_differences: OffsetDifferences  # noted by a slave
    deleted_topics: DeletedTopics
    marks: TableMarks  # of those that stand for places in the log

    @classmethod
    def load(
        cls,
        settings: BrokerSettings,
        *,
        disk: Disk,
        clock: Clock,
        run_blocking: RunBlocking,
        peer_time: Callable[[], float] = trio.current_time,
    ) -> Tables:
        """Read the files; StartError names one that is invalid. Clients and locks expire by ``peer_time``."""
        tables = make_tables(
            settings.broker,
            settings.store,
            directory=os.path.join(settings.store.root, "config"),
            accounts=load_accounts(
                settings.broker,
                settings.config_path,
                disk=disk,
                run_blocking=run_blocking,
                clock=clock,
                multi_dispatch=settings.store.enable_multi_dispatch,
            ),
            disk=disk,
            clock=clock,
            current_time=peer_time,
            run_blocking=run_blocking,
        )
        tables.topics.load()
        tables.topics.settings_changed()
        tables.offsets.load()
        tables.filters.load()
        tables.delay_offsets.load()
        tables.groups.load()
        tables.offset_resets.load()
        tables.offset_differences.load()
        tables.deleted_topics.load()
        tables.marks.load()
        return tables


def make_tables(
    config: BrokerConfig,
    store_config: MessageStoreConfig,
    *,
    directory: str,
    accounts: PlainPermissionManager | None,
    disk: Disk,
    clock: Clock,
    current_time: Callable[[], float],
    run_blocking: RunBlocking,
) -> Tables:
    """Return empty tables, whose files are in ``directory``."""
    path = partial(os.path.join, directory)
    enable_lmq = store_config.enable_lmq
    ages = Ages(clock, current_time)
    filters = ConsumerFilterManager(
        config=config, path=path("consumerFilter.json"), disk=disk, run_blocking=run_blocking, clock=clock
    )
    subscription_watch = SubscriptionWatch()
    return Tables(
        topics=TopicConfigManager(
            config=config,
            path=path("topics.json"),
            disk=disk,
            run_blocking=run_blocking,
            clock=clock,
            enable_lmq=enable_lmq,
        ),
        groups=SubscriptionGroupManager(
            config=config,
            path=path("subscriptionGroup.json"),
            disk=disk,
            run_blocking=run_blocking,
            clock=clock,
            enable_lmq=enable_lmq,
        ),
        offsets=ConsumerOffsetManager(
            config=config, path=path("consumerOffset.json"), disk=disk, run_blocking=run_blocking, enable_lmq=enable_lmq
        ),
        consumers=ConsumerManager(
            current_time=current_time, consumer_filter_manager=filters, subscription_watch=subscription_watch
        ),
        filters=filters,
        subscription_watch=subscription_watch,
        producers=ProducerManager(current_time=current_time),
        locks=RebalanceLockManager(config=config, current_time=current_time),
        stats=_stats(config, store_config, clock),
        accounts=accounts,
        levels=DelayLevels.parse(store_config.message_delay_level),
        delay_offsets=DelayOffsetManager(path=path("delayOffset.json"), disk=disk, run_blocking=run_blocking),
        offset_resets=OffsetResets(path=path("offsetResets.json"), disk=disk, run_blocking=run_blocking, ages=ages),
        offset_differences=OffsetDifferences(
            path=path("slaveOffsets.json"), disk=disk, run_blocking=run_blocking, ages=ages
        ),
        deleted_topics=DeletedTopics(path=path("deletedTopics.json"), disk=disk, run_blocking=run_blocking),
        marks=TableMarks(path=path("tableMarks.json"), disk=disk, run_blocking=run_blocking),
    )


def _stats(config: BrokerConfig, store_config: MessageStoreConfig, clock: Clock) -> BrokerStatsManager:
    return BrokerStatsManager(
        cluster_name=config.broker_cluster_name,
        clock=clock,
        enable_detail_stat=config.enable_detail_stat,
        disk_fall_recorded=store_config.disk_fall_recorded,
        enable_lmq=store_config.enable_lmq,
    )
