"""VIEW_BROKER_STATS_DATA: one counter of the statistics over the last minute, hour and day.

An unknown name gets the same refusal as a key under which nothing was counted.

Compatibility: ``AdminBrokerProcessor.ViewBrokerStatsData`` (4.9.8).
"""

from __future__ import annotations

from rocketpy.broker.acl.needs import STRICT_ADMIN
from rocketpy.broker.monitoring.broker_stats_manager import BrokerStatsManager
from rocketpy.broker.monitoring.stats_item import StatsItem, StatsWindow
from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.stats import BrokerStatsData, BrokerStatsItem
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.admin import ViewBrokerStatsDataRequestHeader
from rocketpy.protocol.headers.codec import read_header
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher

SHOWN_MAX = 1000
"""Characters of a name that a remark repeats: a response must fit into a frame."""


class AdminStatsProcessor:
    """Serves VIEW_BROKER_STATS_DATA. One per broker."""

    def __init__(self, *, stats: BrokerStatsManager) -> None:
        self._stats = stats

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the request code."""
        dispatcher.register(RequestCode.VIEW_BROKER_STATS_DATA, self.process_view_broker_stats_data, needs=STRICT_ADMIN)

    def process_view_broker_stats_data(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return a counter's sum, rate and average over each window."""
        header = read_header(request, ViewBrokerStatsDataRequestHeader)
        item = self._stats.get_stats_item(header.stats_name, header.stats_key)
        if item is None:
            name, key = header.stats_name[:SHOWN_MAX], header.stats_key[:SHOWN_MAX]
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
        body = BrokerStatsData(
            stats_minute=_figures(item, StatsWindow.MINUTE),
            stats_hour=_figures(item, StatsWindow.HOUR),
            stats_day=_figures(item, StatsWindow.DAY),
        )
        return make_response(request, body=encode_body(body))


def _figures(item: StatsItem, window: StatsWindow) -> BrokerStatsItem:
    found = item.snapshot(window)
    return BrokerStatsItem(sum=found.sum, tps=found.tps, avgpt=found.avgpt)
