"""Rates over three windows."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

from rocketpy.broker.services.store_rates import StoreRatesService
from rocketpy.store.results import StoreStatistics
from tests.broker.tables_of_a_broker import Time

NOTHING = StoreStatistics(*([0] * len(attrs.fields(StoreStatistics))))


class Counters:
    def __init__(self) -> None:
        self.now = NOTHING

    def __call__(self) -> StoreStatistics:
        return self.now


def test_without_samples_nothing_has_happened() -> None:
    service = StoreRatesService(statistics=Counters(), current_time=Time())
    assert service.rates().put == (0.0, 0.0, 0.0)
    service.sample()
    assert service.rates().get == (0.0, 0.0, 0.0)


def test_each_window_looks_back_its_own_length() -> None:
    counters, time = Counters(), Time()
    service = StoreRatesService(statistics=counters, current_time=time)
    for second in range(1000):
        # 100 messages in the last 5 seconds, 10 a minute before, 1000 long ago
        put = 1000 + (10 if second >= 950 else 0) + (100 if second >= 995 else 0)
        counters.now = attrs.evolve(NOTHING, put_count=put, get_count=2 * put, get_message_count=3 * put)
        time.now += 1
        service.sample()
    rates = service.rates()
    assert rates.put == pytest.approx((10.0, 110 / 60, 110 / 600))
    assert rates.get == pytest.approx((20.0, 220 / 60, 220 / 600))
    assert rates.get_messages == pytest.approx((30.0, 330 / 60, 330 / 600))


async def test_it_samples_every_second(nursery: trio.Nursery, autojump_clock: trio.testing.MockClock) -> None:
    counters = Counters()
    service = StoreRatesService(statistics=counters, current_time=trio.current_time)
    await nursery.start(service.run)
    counters.now = attrs.evolve(NOTHING, put_count=30)
    await trio.sleep(3.5)
    assert service.rates().put == pytest.approx((10.0, 10.0, 10.0))
