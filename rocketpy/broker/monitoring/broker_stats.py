"""Daily message totals, derived from the store's totals at the last two midnights.

All totals start at 0 when the broker starts. Compatibility: ``BrokerStats`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Callable

from rocketpy.store.results import StoreStatistics


class BrokerStats:
    """Totals at midnight; :meth:`record` is called at the start of each day."""

    def __init__(self, *, statistics: Callable[[], StoreStatistics]) -> None:
        self._statistics = statistics
        self._put = (0, 0)  # totals at the start of yesterday and of today
        self._get = (0, 0)

    def record(self) -> tuple[int, int]:
        """Start a new day; return the messages put and got on the day that ends."""
        now = self._statistics()
        self._put = self._put[1], now.put_count
        self._get = self._get[1], now.get_message_count
        return self._put[1] - self._put[0], self._get[1] - self._get[0]

    def runtime_info(self) -> dict[str, str]:
        """Return the rows of GET_BROKER_RUNTIME_INFO."""
        now = self._statistics()
        return {
            "msgPutTotalYesterdayMorning": str(self._put[0]),
            "msgPutTotalTodayMorning": str(self._put[1]),
            "msgPutTotalTodayNow": str(now.put_count),
            "msgGetTotalYesterdayMorning": str(self._get[0]),
            "msgGetTotalTodayMorning": str(self._get[1]),
            "msgGetTotalTodayNow": str(now.get_message_count),
        }
