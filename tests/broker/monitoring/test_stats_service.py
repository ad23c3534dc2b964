"""Sampling and log lines, by a mock clock: over minutes, hours, days and the end of summer time."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import attrs
import pytest
import trio
import trio.testing

from rocketpy.broker.monitoring import stats_service as broker_stats
from rocketpy.broker.monitoring.broker_stats import BrokerStats
from rocketpy.broker.monitoring.broker_stats_manager import BrokerStatsManager
from rocketpy.broker.monitoring.stats_item import StatsWindow
from rocketpy.broker.monitoring.stats_service import BrokerStatsService, next_midnight_ms
from tests.broker.monitoring.test_broker_stats import Totals
from tests.turns import counted_turns

DAY_SECONDS = 86_400
BERLIN = ZoneInfo("Europe/Berlin")


class WallClock:
    """A wall clock that goes with Trio's from a moment on, and can be set."""

    def __init__(self, moment: datetime) -> None:
        self._offset_ms = int(moment.timestamp() * 1000)

    def timestamp_ms(self) -> int:
        return self._offset_ms + int(trio.current_time() * 1000)

    def set_by_ms(self, milliseconds: int) -> None:
        self._offset_ms += milliseconds


@attrs.define
class Running:
    stats: BrokerStatsManager
    totals: Totals
    clock: WallClock
    lines: Callable[[str], list[str]]


Run = Callable[[datetime], AbstractAsyncContextManager[Running]]


@pytest.fixture
def running(caplog: pytest.LogCaptureFixture) -> Run:
    caplog.set_level(logging.INFO, logger="rocketpy.broker")

    def lines(text: str) -> list[str]:
        return [record.getMessage() for record in caplog.records if text in record.getMessage()]

    @asynccontextmanager
    async def run(moment: datetime) -> AsyncIterator[Running]:
        clock, totals = WallClock(moment), Totals()
        stats = BrokerStatsManager(cluster_name="C", clock=clock)
        service = BrokerStatsService(
            stats=stats, broker_stats=BrokerStats(statistics=totals), clock=clock, zone=moment.tzinfo
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(service.run)
            yield Running(stats, totals, clock, lines)
            nursery.cancel_scope.cancel()

    return run


NOON = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
LATE = datetime(2026, 3, 1, 21, 0, 30, tzinfo=UTC)
"""Three hours before the day ends: a day has 8,640 samples."""


async def test_a_figure_of_the_last_minute_is_there_after_ten_seconds(
    running: Run, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(NOON) as broker:
        await trio.sleep(1)
        broker.stats.inc_topic_put("T", 100, 1)
        await trio.sleep(9.1)
        item = broker.stats.get_stats_item("TOPIC_PUT_NUMS", "T")
        assert item is not None
        assert item.snapshot(StatsWindow.MINUTE).sum == 100
        assert item.snapshot(StatsWindow.MINUTE).tps == pytest.approx(10)
        assert item.snapshot(StatsWindow.HOUR).sum == 0
        await trio.sleep(600)
        assert item.snapshot(StatsWindow.MINUTE).sum == 0
        assert item.snapshot(StatsWindow.HOUR).sum == 100
        await trio.sleep(3600)
        assert item.snapshot(StatsWindow.HOUR).sum == 0
        assert item.snapshot(StatsWindow.DAY).sum == 100


async def test_lines_are_written_when_minutes_hours_and_days_end(
    running: Run, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(LATE) as broker:
        broker.stats.inc_topic_put("T", 100, 1)
        await trio.sleep(31)
        assert broker.lines("[TOPIC_PUT_NUMS] [T] Stats In One Minute, SUM: 100 TPS: ")
        await trio.sleep(60 * 60)
        assert len(broker.lines("[TOPIC_PUT_NUMS] [T] Stats In One Minute")) == 61
        assert len(broker.lines("[TOPIC_PUT_NUMS] [T] Stats In One Hour")) == 1
        broker.totals.put, broker.totals.got = 7, 8
        for _ in range(6):
            broker.stats.inc_topic_put("U", 5, 1)
            await trio.sleep(30 * 60)
        assert len(broker.lines("[TOPIC_PUT_NUMS] [U] Stats In One Day")) == 1
        assert not broker.lines("[TOPIC_PUT_NUMS] [T] Stats In One Day")  # forgotten: nothing counted it for an hour
        assert broker.lines("yesterday") == ["yesterday put message total: 7", "yesterday get message total: 8"]


async def test_lag_of_groups_is_written_every_five_minutes(
    running: Run, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(NOON) as broker:
        broker.stats.record_fall("G", "T", 0, 5, 6)
        await trio.sleep(11 * 60)
        assert len(broker.lines("[GROUP_GET_FALL_SIZE] [0@T@G] Stats Every 5 Minutes, Value: 5")) == 3


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
async def test_no_line_is_computed_for_a_disabled_log(
    running: Run,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    level: int,
) -> None:
    caplog.set_level(level, logger="rocketpy.broker.stats")
    caplog.set_level(level, logger="rocketpy.broker.commercial")
    caplog.handler.setLevel(logging.INFO)
    asked: set[str] = set()
    for name in ("lines", "moment_lines", "commercial_lines"):
        monkeypatch.setattr(BrokerStatsManager, name, noting(asked, name, getattr(BrokerStatsManager, name)))
    async with running(LATE) as broker:
        broker.stats.inc_topic_put("T", 100, 1)
        await trio.sleep(4 * 60 * 60)
        assert asked == ({"lines", "moment_lines", "commercial_lines"} if level == logging.INFO else set())
        assert bool(broker.lines("Stats")) == (level == logging.INFO)
        assert len(broker.lines("yesterday")) == 2


def noting(asked: set[str], name: str, method: Callable[..., Iterator[str]]) -> Callable[..., Iterator[str]]:
    def noted(*arguments: object) -> Iterator[str]:
        asked.add(name)
        return method(*arguments)

    return noted


async def test_a_wall_clock_that_is_set_back_begins_the_day_again(
    running: Run, autojump_clock: trio.testing.MockClock
) -> None:
    """The day that was left begins a second time, and after that days go on: none is waited for in vain."""
    async with running(datetime(2026, 3, 1, 23, 59, 30, tzinfo=UTC)) as broker:
        await trio.sleep(60)
        assert len(broker.lines("yesterday put")) == 1
        broker.clock.set_by_ms(-3 * 3_600_000)
        await trio.sleep(3 * 3600)
        assert len(broker.lines("yesterday put")) == 2
        await trio.sleep(DAY_SECONDS)
        assert len(broker.lines("yesterday put")) == 3


async def test_a_slightly_slow_wall_clock_ends_each_minute_once(
    running: Run, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(NOON) as broker:
        broker.stats.inc_topic_put("T", 1, 1)
        for _ in range(10):
            broker.clock.set_by_ms(-40)
            await trio.sleep(60)
        assert len(broker.lines("[TOPIC_PUT_NUMS] [T] Stats In One Minute")) == 10


async def test_others_run_between_slices_of_many_counters(
    running: Run, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_stats, "COUNTERS_PER_SLICE", 10)
    stats = BrokerStatsManager(cluster_name="C", clock=WallClock(NOON))
    for number in range(100):
        stats.inc_topic_put(f"T{number}", 1, 1)
    service = BrokerStatsService(
        stats=stats, broker_stats=BrokerStats(statistics=Totals()), clock=WallClock(NOON), zone=UTC
    )
    async with counted_turns() as turns:
        await service.sample(StatsWindow.MINUTE)
    assert turns.count >= 15


@pytest.mark.parametrize(
    ("moment", "hours"),
    [
        (datetime(2026, 3, 1, 0, 0, tzinfo=BERLIN), 24),
        (datetime(2026, 3, 29, 0, 0, tzinfo=BERLIN), 23),
        (datetime(2026, 10, 25, 0, 0, tzinfo=BERLIN), 25),
        (datetime(2026, 3, 1, 23, 0, tzinfo=UTC), 1),
    ],
)
def test_days_are_as_long_as_they_are(moment: datetime, hours: int) -> None:
    begin_ms = int(moment.timestamp() * 1000)
    assert next_midnight_ms(begin_ms, moment.tzinfo) == begin_ms + hours * 3_600_000


def test_without_a_zone_days_are_the_machines() -> None:
    now_ms = int(NOON.timestamp() * 1000)
    midnight_ms = next_midnight_ms(now_ms)
    local = datetime.fromtimestamp(midnight_ms / 1000)
    assert (local.hour, local.minute, local.second) == (0, 0, 0)
    assert 0 < midnight_ms - now_ms <= 25 * 3_600_000
