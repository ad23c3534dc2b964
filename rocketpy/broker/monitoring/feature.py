"""What watches a broker, put together: how late its loop is, what it counts over time, the lines of every minute.

Composition only: nothing here decides anything.
"""

from __future__ import annotations

from rocketpy.broker.context import BrokerContext
from rocketpy.broker.monitoring.broker_stats import BrokerStats
from rocketpy.broker.monitoring.lateness import LatenessService
from rocketpy.broker.monitoring.stats_service import BrokerStatsService
from rocketpy.broker.monitoring.water_mark import WaterMarkService


class MonitoringFeature:
    """The services that watch, and the figures that they have."""

    def __init__(self, context: BrokerContext) -> None:
        store = context.store
        self.lateness = LatenessService()
        self.broker_stats = BrokerStats(statistics=store.statistics)
        self.services = (
            self.lateness,
            BrokerStatsService(stats=context.tables.stats, broker_stats=self.broker_stats, clock=context.clock),
            WaterMarkService(
                store=store, lateness=self.lateness, waiting_sends=lambda: store.flush_wait().waiting_count
            ),
        )
        """What has to run for as long as the broker does."""
