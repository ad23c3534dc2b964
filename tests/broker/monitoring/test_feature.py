"""The watching side as a whole: its services go together, and their figures are of this broker's store and tables."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from rocketpy.broker.monitoring.feature import MonitoringFeature
from rocketpy.broker.monitoring.water_mark import BEGIN_SECONDS
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.services.group_commit import FlushWait
from tests.broker.message_broker import MessageBroker, open_message_broker, send
from tests.broker.tables_of_a_broker import context_of


@asynccontextmanager
async def watched() -> AsyncIterator[tuple[MessageBroker, MonitoringFeature]]:
    async with open_message_broker() as broker:
        feature = MonitoringFeature(context_of(broker.tables, broker.store, MessageStoreConfig()))
        async with trio.open_nursery() as nursery:
            for service in feature.services:
                await nursery.start(service.run)
            yield broker, feature
            nursery.cancel_scope.cancel()


async def test_counts_are_of_this_store(autojump_clock: trio.testing.MockClock) -> None:
    async with watched() as (broker, feature):
        await broker.ask(send())
        assert feature.broker_stats.runtime_info()["msgPutTotalTodayNow"] == "1"


async def test_water_marks_say_how_many_sends_wait_for_the_disk_of_this_store(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines and the figures of the broker are of one LatenessService: the one that runs."""
    caplog.set_level(logging.INFO, logger="rocketpy.broker.watermark")
    async with watched() as (broker, feature):
        assert feature.lateness in feature.services
        monkeypatch.setattr(broker.store, "flush_wait", lambda: FlushWait(waiting_count=3))
        monkeypatch.setattr(feature.lateness, "late_ms", lambda: 7.0)
        await trio.sleep(BEGIN_SECONDS + 0.5)
    assert "[WATERMARK] Send Queue Size: 3 SlowTimeMills: 7" in [each.getMessage() for each in caplog.records]
