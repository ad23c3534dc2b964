"""Totals at the last two midnights."""

from __future__ import annotations

import attrs

from rocketpy.broker.monitoring.broker_stats import BrokerStats
from rocketpy.store.results import StoreStatistics

NOTHING = StoreStatistics(*([0] * len(attrs.fields(StoreStatistics))))


class Totals:
    """A store's counters, as a test sets them."""

    def __init__(self) -> None:
        self.put = self.got = 0

    def __call__(self) -> StoreStatistics:
        return attrs.evolve(NOTHING, put_count=self.put, get_message_count=self.got)


def test_days_are_what_lies_between_midnights() -> None:
    totals = Totals()
    stats = BrokerStats(statistics=totals)
    totals.put, totals.got = 100, 50
    assert stats.record() == (100, 50)
    totals.put, totals.got = 130, 90
    assert stats.record() == (30, 40)
    totals.put, totals.got = 131, 92
    assert stats.runtime_info() == {
        "msgPutTotalYesterdayMorning": "100",
        "msgPutTotalTodayMorning": "130",
        "msgPutTotalTodayNow": "131",
        "msgGetTotalYesterdayMorning": "50",
        "msgGetTotalTodayMorning": "90",
        "msgGetTotalTodayNow": "92",
    }
