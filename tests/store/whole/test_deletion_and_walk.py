"""A deletion of queues and then a kill: recovery must not take them for lost, and walk the whole log to make them."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rocketpy.store.message_store import MessageStore
from rocketpy.store.recovery.recovery import RecoveryReport
from rocketpy.testing.sim.disk import SimDisk
from tests.store.opened_store import killed, opened, send
from tests.store.parts import Place

LONG_S = 120.0
"""After this everything is durable, and the checkpoint says so."""


@pytest.fixture
def place() -> Place:
    return Place(SimDisk(), "/store")


async def report_of(place: Place) -> RecoveryReport:
    reports: list[RecoveryReport] = []
    async with opened(place, reports=reports):
        pass
    (report,) = reports
    return report


def send_some(store: MessageStore, *topics: str, count: int = 20) -> None:
    for topic in topics:
        for number in range(count):
            send(store, b"%d" % number, topic)
    store.end_burst()


async def test_a_deleted_topic(place: Place, autojump_clock: trio.testing.MockClock) -> None:
    async with killed(place) as store:
        send_some(store, "Kept", "Gone")
        await trio.sleep(LONG_S)
        end = store.max_physical_offset
        store.delete_topic_queues("Gone")
        send_some(store, "Kept", count=1)
    report = await report_of(place)
    assert (report.scanned_from, report.record_count) == (end, 1)
    assert place.disk.list_directory(f"{place.consume_queue}/Gone/0") == []


async def test_queues_that_have_expired(place: Place, autojump_clock: trio.testing.MockClock) -> None:
    async with opened(place) as store:
        send_some(store, "Gone")
        while store.max_physical_offset < 1 << 16:
            send(store, bytes(4000), "Kept")
            store.end_burst()
    place.disk.unlink(place.log_file())  # as if it had expired
    async with killed(place) as store:
        await trio.sleep(LONG_S)
        end = store.max_physical_offset
        assert await store.clean_expired_consumer_queue() == 1
        send_some(store, "Kept", count=1)
    report = await report_of(place)
    assert (report.scanned_from, report.record_count) == (end, 1)
