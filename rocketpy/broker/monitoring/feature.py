"""The monitoring feature: lag of the event loop, statistics over time, periodic log lines.

Composition only; no logic.
"""

from __future__ import annotations

from rocketpy.broker.context import BrokerContext
from rocketpy.broker.feature import Feature
from rocketpy.broker.monitoring.broker_stats import BrokerStats
from rocketpy.broker.monitoring.lateness import LatenessService
from rocketpy.broker.monitoring.stats_service import BrokerStatsService
from rocketpy.broker.monitoring.water_mark import WaterMarkService


class MonitoringFeature(Feature):
    """The services that measure, and their figures."""

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

    def figures(self) -> dict[str, str]:
        """Return the message counts of today and yesterday, and the lag of the event loop."""
        return self.broker_stats.runtime_info() | self.lateness.runtime_info()
