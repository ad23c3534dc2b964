"""A broker's tables over a directory, with clocks that stand still."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import attrs

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.consumer_filter import ConsumerFilterManager
from rocketpy.broker.consumer_manager import ConsumerManager
from rocketpy.broker.consumer_offset import ConsumerOffsetManager
from rocketpy.broker.producer_manager import ProducerManager
from rocketpy.broker.rebalance_lock import RebalanceLockManager
from rocketpy.broker.stats.broker_stats_manager import BrokerStatsManager
from rocketpy.broker.subscription_group import SubscriptionGroupManager
from rocketpy.broker.subscription_watch import SubscriptionWatch
from rocketpy.broker.topic_config import TopicConfigManager
from rocketpy.clock import ManualClock
from rocketpy.store.disk import OsDisk

T = TypeVar("T")
GOLDEN_CONFIG = Path(__file__).parents[1] / "golden" / "config"


async def run_inline(function: Callable[..., T], /, *arguments: object) -> T:
    return function(*arguments)


class Time:
    """Seconds that never step back, and go on only when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@attrs.define
class Tables:
    """Every table of one broker."""

    config: BrokerConfig
    clock: ManualClock
    time: Time
    topics: TopicConfigManager
    groups: SubscriptionGroupManager
    offsets: ConsumerOffsetManager
    consumers: ConsumerManager
    filters: ConsumerFilterManager
    subscription_watch: SubscriptionWatch
    producers: ProducerManager
    locks: RebalanceLockManager
    stats: BrokerStatsManager


def make_tables(directory: Path, *, enable_lmq: bool = False, **settings: object) -> Tables:
    names = {"broker_name": "broker-a", "broker_ip1": "127.0.0.1", "broker_ip2": "127.0.0.1"}
    config = BrokerConfig(**{**names, **settings})  # type: ignore[arg-type]
    clock, time, disk = ManualClock(), Time(), OsDisk()
    filters = ConsumerFilterManager(
        config=config,
        path=str(directory / "consumerFilter.json"),
        disk=disk,
        run_blocking=run_inline,
        clock=clock,
    )
    subscription_watch = SubscriptionWatch()
    return Tables(
        config=config,
        clock=clock,
        time=time,
        topics=TopicConfigManager(
            config=config,
            path=str(directory / "topics.json"),
            disk=disk,
            run_blocking=run_inline,
            clock=clock,
            enable_lmq=enable_lmq,
        ),
        groups=SubscriptionGroupManager(
            config=config,
            path=str(directory / "subscriptionGroup.json"),
            disk=disk,
            run_blocking=run_inline,
            clock=clock,
            enable_lmq=enable_lmq,
        ),
        offsets=ConsumerOffsetManager(
            path=str(directory / "consumerOffset.json"), disk=disk, run_blocking=run_inline, enable_lmq=enable_lmq
        ),
        consumers=ConsumerManager(
            current_time=time, consumer_filter_manager=filters, subscription_watch=subscription_watch
        ),
        filters=filters,
        subscription_watch=subscription_watch,
        producers=ProducerManager(current_time=time),
        locks=RebalanceLockManager(config=config, current_time=time),
        stats=BrokerStatsManager(cluster_name=config.broker_cluster_name, clock=clock),
    )
