"""Groups that lag too far lose the right to consume, where that is configured."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from rocketpy.broker.monitoring.slow_consumer import PERIOD_SECONDS, SlowConsumerService
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from tests.broker.tables_of_a_broker import Tables, make_tables

THRESHOLD = 1000


class Watched:
    """The service over tables, with a group that lags some bytes."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.service = SlowConsumerService(
            config=tables.config, stats=tables.stats, subscription_group_manager=tables.groups
        )
        tables.groups.find_subscription_group_config("G")

    def lag(self, size_bytes: int, queue_id: int = 0, group: str = "G") -> None:
        self.tables.stats.record_fall(group, "T", queue_id, size_bytes, 0)

    @property
    def may_consume(self) -> bool:
        return self.tables.groups.subscription_group_table["G"].consume_enable


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(
        make_tables(tmp_path, disable_consume_if_consumer_read_slowly=True, consumer_fallbehind_threshold=THRESHOLD)
    )


def test_a_group_that_lags_too_far_is_disabled(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    watched.lag(THRESHOLD)
    watched.service.protect()
    assert watched.may_consume
    changes = watched.tables.groups.stored.change_count
    watched.lag(THRESHOLD + 1, queue_id=1)
    watched.service.protect()
    assert not watched.may_consume
    assert watched.tables.groups.stored.change_count == changes + 1
    assert "[PROTECT_BROKER] the consumer[G] consume slowly, 1001 bytes, disable it (1@T@G)" in caplog.messages


def test_not_unless_it_is_wanted(tmp_path: Path) -> None:
    watched = Watched(make_tables(tmp_path, consumer_fallbehind_threshold=THRESHOLD))
    watched.lag(THRESHOLD + 1)
    watched.service.protect()
    assert watched.may_consume


def test_one_pull_counts_once(watched: Watched) -> None:
    """An operator who switches a group on again is not overruled because of what it read before."""
    watched.lag(THRESHOLD + 1)
    watched.service.protect()
    watched.tables.groups.update_subscription_group_config(SubscriptionGroupConfig("G"))
    watched.service.protect()
    assert watched.may_consume
    watched.lag(THRESHOLD + 2)
    watched.service.protect()
    assert not watched.may_consume


def test_a_group_with_the_separator_in_its_name_or_none_at_all(watched: Watched) -> None:
    watched.tables.groups.find_subscription_group_config("a@b")
    watched.lag(THRESHOLD + 1, group="a@b")
    watched.lag(THRESHOLD + 1, group="unknown")
    watched.service.protect()
    assert not watched.tables.groups.subscription_group_table["a@b"].consume_enable
    assert "unknown" not in watched.tables.groups.subscription_group_table


async def test_it_looks_every_three_minutes(
    watched: Watched, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    watched.lag(THRESHOLD + 1)
    await nursery.start(watched.service.run)
    await trio.sleep(PERIOD_SECONDS - 1)
    assert watched.may_consume
    await trio.sleep(2)
    assert not watched.may_consume
