"""Fast failure: only sends that waited for a slow write, or would wait for a stalled disk, are refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.hooks import NO_HOOKS
from rocketpy.broker.send.admission import SendGate
from rocketpy.broker.send.feature import SendFeature
from rocketpy.broker.send.overload import REOPEN_SECONDS, FastFailureService
from rocketpy.broker.send.put import MessagePut
from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.message_store import MessageStore
from rocketpy.store.services.group_commit import FlushWait
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.broker_on_bytes import Transport, connect_to
from tests.broker.tables_of_a_broker import context_of, make_tables
from tests.store.opened_store import opened, send
from tests.store.parts import Place


class SlowStore:
    """A fake store whose writes take a given time, on a clock of its own and on Trio's."""

    def __init__(self, clock: trio.testing.MockClock) -> None:
        self.clock = clock
        self.waits_for_storing = True
        self.waiting_for_slave_count = 0
        self.write_seconds = 0.0
        self.burst_count = 0
        self.wait = FlushWait()

    def watch_bursts(self, took_seconds: Callable[[float], None], monotonic: Callable[[], float]) -> None:
        self.took_seconds, self.monotonic = took_seconds, monotonic

    def end_burst(self) -> None:
        self.burst_count += 1
        if self.write_seconds:
            self.clock.jump(self.write_seconds)
        self.took_seconds(self.write_seconds)

    def flush_wait(self) -> FlushWait:
        return self.wait

    @property
    def waiting_for_storing_count(self) -> int:
        return self.wait.waiting_count + self.waiting_for_slave_count


@asynccontextmanager
async def service_over(
    store: SlowStore,
    config: BrokerConfig | None = None,
    busy_timeout_ms: int = 1000,
    sync_timeout_ms: int | None = 5000,
) -> AsyncIterator[tuple[FastFailureService, SendGate]]:
    gate = SendGate()
    service = FastFailureService(
        store=as_store(store),
        gate=gate,
        config=config or BrokerConfig(),
        busy_timeout_ms=busy_timeout_ms,
        sync_timeout_ms=sync_timeout_ms,
        monotonic=trio.current_time,
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        yield service, gate
        nursery.cancel_scope.cancel()


def as_store(store: object) -> MessageStore:
    return store  # type: ignore[return-value]


def connection(last_read: float) -> Connection:
    """A connection from which something was read at a time."""
    made = connect_to(Dispatcher(), Transport(lambda _: None))
    made.last_active = last_read
    return made


def remark_of(check: Callable[[Connection], None], peer: Connection) -> str:
    with pytest.raises(RequestError) as refusal:
        check(peer)
    assert refusal.value.response_code == ResponseCode.SYSTEM_BUSY
    return refusal.value.remark


async def test_a_write_in_time_changes_nothing(mock_clock: trio.testing.MockClock) -> None:
    store = SlowStore(mock_clock)
    async with service_over(store) as (service, gate):
        store.write_seconds = 0.199
        store.end_burst()
        assert gate.is_open
        assert store.burst_count == 1
        assert service.statistics().slow_write_count == 0


async def test_what_came_during_a_very_slow_write_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    store = SlowStore(autojump_clock)
    async with service_over(store) as (service, gate):
        store.write_seconds = 1.5
        store.end_burst()
        assert remark_of(gate.check, connection(trio.current_time())) == (
            "[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 1500ms, size of "
            "queue: 0. A write to the log took 1500 ms, osPageCacheBusyTimeOutMills is 1000"
        )
        await trio.sleep(REOPEN_SECONDS + 0.001)
        assert gate.is_open
        assert (service.statistics().slow_write_count, service.statistics().refused_count) == (1, 1)


async def test_what_waited_for_a_slow_write_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    """Only those read before: the wait in a socket buffer cannot be measured."""
    store = SlowStore(autojump_clock)
    async with service_over(store) as (_service, gate):
        before = connection(trio.current_time())
        store.write_seconds = 0.3
        store.end_burst()
        gate.check(connection(trio.current_time()))
        assert remark_of(gate.check, before) == (
            "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 300ms, size of "
            "queue: 0. It waited for a write to the log, waitTimeMillsInSendQueue is 200"
        )
        await trio.sleep(REOPEN_SECONDS + 0.001)
        assert gate.is_open


@pytest.mark.parametrize("who", ["a read", "a flush", "a request"])
async def test_a_slow_write_counts_however_the_burst_ended(who: str, autojump_clock: trio.testing.MockClock) -> None:
    disk = SimDisk()
    async with opened(Place(disk, "/store")) as store:
        gate = SendGate()
        service = FastFailureService(
            store=store,
            gate=gate,
            config=BrokerConfig(),
            busy_timeout_ms=1000,
            sync_timeout_ms=None,
            monotonic=trio.current_time,
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(service.run)
            send(store, b"one")
            disk.before_change = lambda method, path: autojump_clock.jump(1.5) if method == "write" else None
            if who == "a read":
                store.get_message_nowait("T", 0, 0, 32)
            elif who == "a flush":
                nursery.start_soon(store.flush)
                await trio.testing.wait_all_tasks_blocked()
            else:
                store.end_burst()
            disk.before_change = None
            assert service.statistics().slow_write_count == 1
            assert not gate.is_open
            nursery.cancel_scope.cancel()


async def test_another_slow_write_keeps_it_closed(autojump_clock: trio.testing.MockClock) -> None:
    store = SlowStore(autojump_clock)
    async with service_over(store) as (_service, gate):
        store.write_seconds = 2.0
        store.end_burst()
        await trio.sleep(REOPEN_SECONDS * 0.7)
        store.end_burst()
        await trio.sleep(REOPEN_SECONDS * 0.7)
        assert not gate.is_open
        await trio.sleep(REOPEN_SECONDS)
        assert gate.is_open


async def test_how_long_a_send_may_wait_is_a_setting(autojump_clock: trio.testing.MockClock) -> None:
    """Of those that came during a write of three seconds: 2.5 of them are too long for one, and not for the other."""
    for limit_ms, remark in ((200, "waitTimeMillsInSendQueue is 200"), (2_900, None)):
        store = SlowStore(autojump_clock)
        config = BrokerConfig(wait_time_mills_in_send_queue=limit_ms)
        async with service_over(store, config, busy_timeout_ms=60_000) as (_service, gate):
            came = trio.current_time()
            store.write_seconds = 2.5
            store.end_burst()
            if remark is None:
                gate.check(connection(came))
            else:
                assert remark in remark_of(gate.check, connection(came))


class BusyStore(SlowStore):
    """A fake store whose writes use the processor for a given time."""

    def end_burst(self) -> None:
        began = self.monotonic()
        while self.monotonic() < began + self.write_seconds:
            pass
        self.took_seconds(self.monotonic() - began)


async def test_how_long_a_write_may_take_is_a_setting(mock_clock: trio.testing.MockClock) -> None:
    """Settings of the store that the send feature passes to the service."""
    store = BusyStore(mock_clock)
    tables = make_tables(Path("/nowhere"), wait_time_mills_in_send_queue=3_600_000)
    context = context_of(tables, as_store(store), MessageStoreConfig(os_page_cache_busy_time_out_mills=50))
    feature = SendFeature(context, message_put=MessagePut(store=as_store(store), levels=tables.levels), hooks=NO_HOOKS)
    async with trio.open_nursery() as nursery:
        await nursery.start(feature.fast_failure.run)
        store.write_seconds = 0.06
        store.end_burst()
        assert "osPageCacheBusyTimeOutMills is 50" in remark_of(feature.gate.check, connection(trio.current_time()))
        nursery.cancel_scope.cancel()


async def test_a_limit_of_zero_does_not_refuse_everything(autojump_clock: trio.testing.MockClock) -> None:
    store = SlowStore(autojump_clock)
    async with service_over(store, BrokerConfig(wait_time_mills_in_send_queue=0)) as (_service, gate):
        store.end_burst()
        assert gate.is_open
        store.write_seconds = 0.002
        store.end_burst()
        assert not gate.is_open


async def test_while_the_disk_is_silent_sends_are_refused(autojump_clock: trio.testing.MockClock) -> None:
    store = SlowStore(autojump_clock)
    async with service_over(store) as (service, gate):
        store.wait = FlushWait(7, 4.9)
        await trio.sleep(0.15)
        assert gate.is_open
        store.wait = FlushWait(8, 5.2)
        await trio.sleep(0.1)
        assert remark_of(gate.check, connection(0.0)) == (
            "[REJECTREQUEST]system busy, start flow control for a while: the disk has not answered for 5200 ms, "
            "syncFlushTimeout is 5000"
        )
        store.write_seconds = 3.0
        store.end_burst()  # a slow write opens nothing that the disk keeps closed
        await trio.sleep(0.05)
        assert not gate.is_open
        store.wait = FlushWait()
        await trio.sleep(0.2)
        assert gate.is_open
        assert service.statistics().silent_disk_count == 1


@pytest.mark.parametrize("sync_timeout_ms", [5000, None], ids=["SYNC_FLUSH", "SYNC_MASTER"])
async def test_sends_that_wait_for_the_disk_are_bounded(
    autojump_clock: trio.testing.MockClock, sync_timeout_ms: int | None
) -> None:
    store = SlowStore(autojump_clock)
    config = BrokerConfig(sends_waiting_for_disk_max=10)
    async with service_over(store, config, sync_timeout_ms=sync_timeout_ms) as (_, gate):
        for count in (10, 11):
            assert gate.is_open
            if sync_timeout_ms is None:
                store.waiting_for_slave_count = count
            else:
                store.wait = FlushWait(count, 0.1)
            await trio.sleep(0.15)
        assert remark_of(gate.check, connection(0.0)) == (
            "[OVERLOAD]system busy, start flow control for a while: 11 sends wait for the disk or a slave, "
            "sendsWaitingForDiskMax is 10"
        )


async def test_without_sync_flush_the_disk_is_not_watched(autojump_clock: trio.testing.MockClock) -> None:
    store = SlowStore(autojump_clock)
    store.waits_for_storing = False
    store.wait = FlushWait(99, 99.0)
    async with service_over(store, sync_timeout_ms=None) as (_, gate):
        await trio.sleep(1)
        assert gate.is_open
