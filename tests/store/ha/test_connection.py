"""One connection of a slave: which bytes it gets and when, and when it ends by itself."""

from __future__ import annotations

from itertools import pairwise

import attrs
import pytest
import trio
import trio.testing

from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.ha.connection import HATimes
from rocketpy.store.ha.protocol import FRAME_HEADER_SIZE, FrameReader
from rocketpy.testing.sim.stream import BUFFER_SIZE
from tests.store.ha.master import Master, a_master
from tests.store.ha.slave_peer import SlavePeer, stream_pair


async def caught_up(master: Master) -> SlavePeer:
    """Return a slave that has the whole log, and whose connection waits for more."""
    slave = master.connect(2500)
    await slave.report(2500)
    await slave.heartbeat()
    await trio.testing.wait_all_tasks_blocked()
    return slave


async def test_a_slave_gets_the_log_from_its_end_on_and_then_what_is_appended(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with a_master() as master:
        slave = master.connect(1200)
        await slave.report(1200)
        assert await slave.receive(1300) == master.log.content[1200:]
        master.append(700)
        began = trio.current_time()
        assert await slave.receive(2000) == master.log.content[1200:]
        assert trio.current_time() == began, "it is sent at once, not at the next look"


async def test_what_is_appended_is_on_its_way_when_the_burst_has_ended(autojump_clock: trio.testing.MockClock) -> None:
    """Without a step of any task in between: SYNC_MASTER waits for the way there and back."""
    async with a_master() as master:
        slave = await caught_up(master)
        before = slave.stream.incoming.size
        master.append(200)
        assert slave.stream.incoming.size == before + FRAME_HEADER_SIZE + 200
        assert await slave.receive(200) == master.log.content[2500:]


async def test_the_end_of_a_burst_sends_a_few_frames_and_a_task_the_rest(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with a_master(batch_size=10) as master:
        slave = await caught_up(master)
        before = slave.stream.incoming.size
        master.append(100)
        assert slave.stream.incoming.size == before + 4 * (FRAME_HEADER_SIZE + 10)
        master.append(100)
        assert slave.stream.incoming.size == before + 4 * (FRAME_HEADER_SIZE + 10), "the task has begun"
        assert await slave.receive(200) == master.log.content[2500:]
        assert slave.sizes == [10] * 20


async def test_a_slave_that_catches_up_gets_many_frames_in_one_turn_of_the_event_loop(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with a_master(batch_size=10) as master:
        slave = await caught_up(master)
        before = slave.stream.incoming.size
        master.append(1000)
        frame_counts = [(slave.stream.incoming.size - before) // (FRAME_HEADER_SIZE + 10)]
        while frame_counts[-1] < 100:
            await trio.lowlevel.checkpoint()
            frame_counts.append((slave.stream.incoming.size - before) // (FRAME_HEADER_SIZE + 10))
        # Between two steps of this task the other one has two at most: their order is random.
        assert 16 <= max(later - earlier for earlier, later in pairwise(frame_counts)) <= 32
        assert await slave.receive(1000) == master.log.content[2500:]
        assert slave.sizes == [10] * 100


@pytest.mark.parametrize("count", [1, 3])
async def test_a_slow_slave_gets_everything_once_and_in_order(
    count: int, autojump_clock: trio.testing.MockClock
) -> None:
    """The stream takes a part of a frame; a task sends the rest before anything that is appended meanwhile."""
    async with a_master(batch_size=100_000) as master:
        master.log.file_size = 1 << 20
        slave = master.connect(2500)
        slave.frames = FrameReader(2500, file_size=1 << 20)
        await slave.report(2500)
        await slave.heartbeat()
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(count):
            for _ in range(4):
                master.append(99_000)
            assert slave.stream.incoming.size == BUFFER_SIZE, "full"
            assert await slave.receive(len(master.log.content) - 2500) == master.log.content[2500:]
            await trio.testing.wait_all_tasks_blocked()


async def test_a_shortage_of_descriptors_does_not_end_a_burst(autojump_clock: trio.testing.MockClock) -> None:
    async with a_master() as master:
        slave = await caught_up(master)
        master.log.shortages = 1
        master.append(200)
        assert await slave.receive(200) == master.log.content[2500:]


@pytest.mark.parametrize("batch_size", [1, 12, 32_768])
async def test_frames_have_the_size_of_the_setting_and_never_cross_a_file(
    batch_size: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with a_master(batch_size=batch_size) as master:
        slave = master.connect(900)
        await slave.report(900)
        assert await slave.receive(1600) == master.log.content[900:]
        assert max(slave.sizes) <= batch_size
        assert batch_size < 1000 or slave.sizes == [100, 1000, 500]


async def test_cold_bytes_are_read_by_a_worker(autojump_clock: trio.testing.MockClock) -> None:
    async with a_master() as master:
        master.log.is_cold = True
        slave = master.connect(1)
        await slave.report(1)
        assert await slave.receive(2499) == master.log.content[1:]
        assert master.log.cold_reads == 3


async def test_reports_acknowledge_what_was_sent(autojump_clock: trio.testing.MockClock) -> None:
    async with a_master() as master:
        slave = master.connect(2000)
        await slave.report(2000)
        await slave.receive(500)
        await slave.report(2300)
        await slave.report(2500)
        await trio.testing.wait_all_tasks_blocked()
        assert master.acknowledged == [-1, 2300, 2500]
        await slave.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert master.service.slaves() == [], "an acknowledgement counts while its connection lives"


async def test_a_slave_may_acknowledge_before_the_call_that_sends_returns(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes are with the slave while the task that sent them waits for its turn."""
    async with a_master() as master:
        ours, theirs = stream_pair()
        send_all, may_return = theirs.send_all, trio.Event()

        async def send_and_return_late(data: bytes) -> None:
            await send_all(data)
            if len(data) > FRAME_HEADER_SIZE:  # no heartbeat
                await may_return.wait()

        monkeypatch.setattr(theirs, "send_all", send_and_return_late)
        master.nursery.start_soon(master.service.serve, theirs, "10.0.0.1:1")
        slave = SlavePeer(ours, FrameReader(2000, file_size=master.log.file_size))
        await slave.report(2000)
        assert await slave.receive(500) == master.log.content[2000:]
        await slave.report(2500)
        await trio.testing.wait_all_tasks_blocked()
        assert [each.acknowledged_offset for each in master.service.slaves()] == [2500]


async def test_an_idle_slave_gets_heartbeats(autojump_clock: trio.testing.MockClock) -> None:
    async with a_master(heartbeat_s=5.0) as master:
        slave = master.connect(2500)
        await slave.report(2500)
        for beat in (0, 5.0, 10.0):
            assert await slave.heartbeat() == 2500
            assert trio.current_time() == pytest.approx(beat, abs=0.1)
            await slave.report(2500)
        master.append(1)
        assert len(await slave.receive(1)) == 1


async def test_a_heartbeat_comes_when_nothing_was_sent_for_its_interval(autojump_clock: trio.testing.MockClock) -> None:
    async with a_master(heartbeat_s=5.0) as master:
        slave = master.connect(2500)
        await slave.report(2500)
        await slave.heartbeat()
        await trio.sleep(3)
        master.append(1)
        assert await slave.heartbeat() == 2501
        assert trio.current_time() == pytest.approx(8, abs=0.1)
        assert len(slave.received) == 1


async def test_a_request_is_answered_at_once_also_without_news(autojump_clock: trio.testing.MockClock) -> None:
    """RocketMQ's master does the same, because its slave reports 5 s after it has connected. An empty slave, too."""
    async with a_master() as master:
        for request, offset in ((2500, 2500), (700, 700), (0, 2000)):
            slave = master.connect(request or None)
            await slave.report(request)
            assert await slave.heartbeat() == offset
            assert trio.current_time() == 0
            await slave.receive(2500 - offset)


async def test_the_times_are_settings(autojump_clock: trio.testing.MockClock) -> None:
    config = MessageStoreConfig(ha_send_heartbeat_interval=1500, ha_housekeeping_interval=2000)
    async with a_master(**attrs.asdict(HATimes.of(config))) as master:
        slave = master.connect(2500)
        await slave.report(2500)
        for beat in (0, 1.5):
            assert await slave.heartbeat() == 2500
            assert trio.current_time() == pytest.approx(beat, abs=0.01)
        assert await slave.is_closed()
        assert trio.current_time() == pytest.approx(2, abs=0.01)


async def test_the_size_of_frames_is_a_setting(autojump_clock: trio.testing.MockClock) -> None:
    config = MessageStoreConfig(ha_transfer_batch_size=300)
    async with a_master(**attrs.asdict(HATimes.of(config))) as master:
        slave = master.connect(1000)
        await slave.report(1000)
        await slave.receive(1500)
        assert slave.sizes == [300, 300, 300, 100, 300, 200]


async def test_silence_begins_with_the_last_report(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_master(housekeeping_s=20.0, heartbeat_s=1e6) as master:
        slave = master.connect(2500)
        for _ in range(3):
            await slave.report(2500)
            await trio.sleep(19)
        assert caplog.text == ""
        assert await slave.is_closed()
        assert trio.current_time() == pytest.approx(58, abs=0.1)
    assert "expected a report within 20 s, found silence" in caplog.text


async def test_a_slave_whose_next_files_are_deleted_is_told_by_the_end_of_its_connection(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_master(size=100) as master:
        slave = master.connect(50)
        await slave.report(50)
        await slave.receive(50)
        master.log.append(2000)
        master.log.delete_before(1000)
        master.service.wake()
        assert await slave.is_closed()
    assert "expected the log from 100 on" in caplog.text
