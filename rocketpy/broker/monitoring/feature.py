"""What watches a broker, put together: how late its loop is, what it counts over time, the lines of every minute.

Composition only: nothing here decides anything.
"""

from __future__ import annotations

from rocketpy.broker.context import Ground
from rocketpy.broker.monitoring.broker_stats import BrokerStats
from rocketpy.broker.monitoring.lateness import LatenessService
from rocketpy.broker.monitoring.stats_service import BrokerStatsService
from rocketpy.broker.monitoring.water_mark import WaterMarkService


class WatchSide:
    """The services that watch, and the figures that they have."""

    def __init__(self, ground: Ground) -> None:
        store = ground.store
        self.lateness = LatenessService()
        self.broker_stats = BrokerStats(statistics=store.statistics)
        self.services = (
            self.lateness,
            BrokerStatsService(stats=ground.tables.stats, broker_stats=self.broker_stats, clock=ground.clock),
            WaterMarkService(
                store=store, lateness=self.lateness, waiting_sends=lambda: store.flush_wait().waiting_count
            ),
        )
        """What has to run for as long as the broker does."""
