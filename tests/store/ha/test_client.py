"""A slave that follows: what it reports and when, what it stores, and how it goes on after each failure."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import attrs
import pytest
import trio
import trio.testing

from rocketpy.errors import DiskFullError
from rocketpy.store.ha.client import FIRST_RETRY_SECONDS, RETRY_SECONDS, DivergedError, HAClient, HAState
from rocketpy.store.ha.connection import HATimes
from rocketpy.store.ha.protocol import ReportReader, encode_frame_header
from rocketpy.store.ha.verified_stream import VerifiedPiece
from rocketpy.testing.sim.stream import SimStream
from tests.store.ha.records import FILE, a_log
from tests.store.ha.slave_peer import stream_pair


@attrs.define
class Log:
    """The slave's log in memory; ``free`` bytes fit."""

    content: bytes = b""
    base: int = 0
    is_empty: bool = True
    file_size: int = FILE
    free: int = 1 << 20

    @property
    def end_offset(self) -> int:
        return self.base + len(self.content)

    def append(self, piece: VerifiedPiece) -> None:
        if len(piece.data) > self.free:
            raise DiskFullError(path="commitlog/0", wanted_bytes=len(piece.data), free_bytes=self.free)
        if self.is_empty:
            self.base, self.is_empty = piece.offset, False
        assert piece.offset == self.end_offset
        self.content += piece.data
        self.free -= len(piece.data)


@attrs.define
class World:
    """A slave and the connections that its master sees."""

    nursery: trio.Nursery
    log: Log = attrs.Factory(Log)
    address: str | None = "10.0.0.1:10912"
    moved: trio.Event = attrs.Factory(trio.Event)
    refusal: Exception | None = None
    different: Exception | None = None
    moves_to: str | None = None
    """The address of the master from the next comparison on."""
    times: HATimes = attrs.Factory(HATimes)
    accepted: list[SimStream] = attrs.Factory(list)
    client: HAClient = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.client = HAClient(
            log=self.log,
            address=lambda: self.address,
            connect=self.connect,
            compare=self.compare,
            settings=lambda: self.times,
            randomness=random.Random(1),
            address_changed=lambda: self.moved.wait(),
        )

    async def connect(self, address: str) -> SimStream:
        await trio.lowlevel.checkpoint()
        if self.refusal is not None:
            raise self.refusal
        ours, theirs = stream_pair()[::-1]
        self.accepted.append(ours)
        return theirs

    async def compare(self, address: str) -> None:
        await trio.lowlevel.checkpoint()
        if self.moves_to is not None:
            self.address, self.moves_to = self.moves_to, None
        if self.different is not None:
            raise self.different

    async def start(self) -> None:
        await self.nursery.start(self.client.run)
        await trio.testing.wait_all_tasks_blocked()

    async def send(self, offset: int, data: bytes) -> None:
        await self.accepted[-1].send_all(encode_frame_header(offset, len(data)) + data)
        await trio.testing.wait_all_tasks_blocked()

    @property
    def state(self) -> HAState:
        return self.client.statistics().state

    @property
    def alarm(self) -> str:
        return self.client.statistics().alarm


@pytest.fixture
def world(nursery: trio.Nursery) -> World:
    return World(nursery)


async def received(stream: SimStream, count: int) -> list[int]:
    """Return the next reports."""
    reader, found = ReportReader(), []
    while len(found) < count:
        data = bytes(await stream.receive_some(8 * (count - len(found))))
        assert data, "the slave has closed the connection"
        found += reader.receive(data)
    return found


async def test_it_reports_at_once_and_after_whole_records(world: World, autojump_clock: trio.testing.MockClock) -> None:
    log = a_log(3)
    await world.start()
    master = world.accepted[0]
    assert await received(master, 1) == [0]
    assert trio.current_time() < 1, "RocketMQ's slave waits five seconds"
    await world.send(0, log[:-5])
    (partial,) = await received(master, 1)
    assert 0 < partial == world.log.end_offset < len(log) - 5, "an incomplete record is not acknowledged"
    assert world.state is HAState.FOLLOWING
    await world.send(len(log) - 5, log[-5:])
    assert await received(master, 1) == [len(log)]
    assert world.log.content == log
    assert world.client.statistics().record_count == 3


@pytest.mark.parametrize("taken", [0, 3, 7])
async def test_a_report_that_is_not_sent_at_once_is_sent_whole(
    taken: int, world: World, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_nowait = SimStream.send_nowait
    monkeypatch.setattr(SimStream, "send_nowait", lambda stream, data: send_nowait(stream, data[:taken]))
    log = a_log(3)
    await world.start()
    master = world.accepted[0]
    assert await received(master, 1) == [0]
    ends = [len(a_log(count)) for count in (1, 2, 3)]
    for begin, end in pairwise([0, *ends]):
        await world.send(begin, log[begin:end])
    assert await received(master, 3) == ends
    assert trio.current_time() == 0, "no timer was waited for"


async def test_it_shows_that_it_lives_while_no_record_is_complete(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    log = a_log(1)
    await world.start()
    master = world.accepted[0]
    times = []
    async with trio.open_nursery() as nursery:

        async def send_slowly() -> None:
            for position in range(12):
                await master.send_all((encode_frame_header(position, 1)) + log[position : position + 1])
                await trio.sleep(1)

        nursery.start_soon(send_slowly)
        for _ in range(3):
            assert await received(master, 1) == [0]
            times.append(trio.current_time())
    assert times == pytest.approx([0, 5, 10], abs=0.01)


async def test_it_goes_on_where_its_log_ends(world: World, autojump_clock: trio.testing.MockClock) -> None:
    log = a_log(4)
    world.log.content, world.log.is_empty = a_log(2), False
    await world.start()
    assert await received(world.accepted[0], 1) == [len(a_log(2))]
    await world.send(len(a_log(2)), log[len(a_log(2)) :])
    assert world.log.content == log


async def test_an_empty_log_begins_with_the_masters_last_file(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    log = a_log(12)
    assert len(log) > FILE
    await world.start()
    await world.send(FILE, log[FILE : 2 * FILE])
    assert (world.log.base, world.log.content) == (FILE, log[FILE : 2 * FILE])


async def test_heartbeats_repeat_the_last_report(world: World, autojump_clock: trio.testing.MockClock) -> None:
    world.times = HATimes(heartbeat_s=5.0, housekeeping_s=20.0)
    await world.start()
    master = world.accepted[0]
    assert await received(master, 3) == [0, 0, 0]
    assert trio.current_time() == pytest.approx(10, abs=0.1)


async def test_silence_begins_with_what_came_last(
    world: World, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    world.times = HATimes(heartbeat_s=1e6, housekeeping_s=20.0)
    await world.start()
    for _ in range(4):
        await world.send(0, b"")
        await trio.sleep(19)
    assert (len(world.accepted), caplog.text) == (1, "")
    while len(world.accepted) == 1:
        await trio.sleep(0.1)
    assert 77 <= trio.current_time() <= 77 + RETRY_SECONDS + 1
    assert "expected a frame or a heartbeat within 20 s, found silence" in caplog.text


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda log: encode_frame_header(5, 0), "expected the beginning of a file", id="offset"),
        pytest.param(lambda log: encode_frame_header(0, 10) + bytes(10), "expected the magic number", id="zeros"),
        pytest.param(
            lambda log: encode_frame_header(0, len(log)) + log[:-99] + b"?" + log[-98:],
            "expected body CRC",
            id="checksum",
        ),
        pytest.param(lambda log: b"\x7f" * 64, "replication frame: expected a size", id="garbage"),
    ],
)
async def test_what_is_wrong_is_neither_stored_nor_acknowledged_and_tried_again(
    change: Callable[[bytes], bytes],
    expected: str,
    world: World,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = a_log(2)
    await world.start()
    for attempt in range(3):
        master = world.accepted[-1]
        assert await received(master, 1) == [0]
        await master.send_all(change(log))
        assert bytes(await master.receive_some()) == b"", "closed"
        while len(world.accepted) == attempt + 1:
            await trio.sleep(1)
    assert world.log.content == b""
    assert expected in world.alarm or world.state is HAState.CONNECTING
    assert expected in caplog.text
    assert await received(world.accepted[-1], 1) == [0]
    await world.send(0, log)
    assert world.log.content == log
    assert (world.state, world.alarm) == (HAState.FOLLOWING, "")


async def test_a_full_disk_is_not_acknowledged_and_passes(world: World, autojump_clock: trio.testing.MockClock) -> None:
    log = a_log(2)
    world.log.free = 10
    await world.start()
    assert await received(world.accepted[0], 1) == [0]
    await world.send(0, log)
    assert bytes(await world.accepted[0].receive_some()) == b""
    await trio.sleep(RETRY_SECONDS)
    world.log.free = 1 << 20
    await world.send(0, log)
    assert world.log.content == log
    assert world.alarm == ""


async def test_it_comes_back_at_once_after_replicating_and_ever_later_while_it_fails(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    pauses_s: list[float] = []

    async def lose(content: bytes = b"") -> None:
        """Send records, or none, end the connection, and measure the time until the next one."""
        master, count = world.accepted[-1], len(world.accepted)
        assert await received(master, 1) == [world.log.end_offset]
        if content:
            await world.send(world.log.end_offset, content)
        began = trio.current_time()
        await master.aclose()
        while len(world.accepted) == count:
            await trio.sleep(0.005)
        pauses_s.append(trio.current_time() - began)

    await world.start()
    for _ in range(7):
        await lose()
    assert all(later > earlier for earlier, later in pairwise(pauses_s[:5])), pauses_s
    assert min(pauses_s[5:]) >= RETRY_SECONDS / 2, pauses_s
    assert max(pauses_s) <= RETRY_SECONDS + 0.01
    await lose(a_log(1))
    assert pauses_s[-1] <= FIRST_RETRY_SECONDS + 0.01


async def test_a_log_that_differs_stops_it_with_an_alarm(
    world: World, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    world.different = DivergedError("our log and the master's part at 4711")
    await world.start()
    assert (world.state, world.alarm) == (HAState.STOPPED, "our log and the master's part at 4711")
    await trio.sleep(60)
    assert world.accepted == [], "nothing was requested"
    assert caplog.text.count("part at 4711") == 1
    world.different = None  # the operator has cut the log
    await trio.sleep(RETRY_SECONDS)
    assert len(world.accepted) == 1


async def test_it_waits_for_an_address_and_for_a_master_that_listens(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    world.address = None
    await world.start()
    assert world.state is HAState.NO_ADDRESS
    world.address, world.refusal = "10.0.0.2:10912", ConnectionRefusedError("connection refused")
    await trio.sleep(RETRY_SECONDS * 2)
    assert world.alarm == "connection refused"
    world.refusal = None
    await trio.sleep(RETRY_SECONDS)
    assert world.client.statistics().master_address == "10.0.0.2:10912"
    assert await received(world.accepted[0], 1) == [0]


async def test_waiting_for_an_address_is_no_failure_to_connect(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    """The first attempts at a master that is found late come as soon after each other as at one that was known."""
    world.address, world.refusal = None, ConnectionRefusedError("connection refused")
    await world.start()
    await trio.sleep(60)
    world.address = "10.0.0.1:10912"
    moved, world.moved = world.moved, trio.Event()
    moved.set()
    await trio.testing.wait_all_tasks_blocked()
    assert world.alarm == "connection refused"
    world.refusal = None
    await trio.sleep(FIRST_RETRY_SECONDS)
    assert len(world.accepted) == 1


async def test_another_address_ends_the_pause(world: World, autojump_clock: trio.testing.MockClock) -> None:
    """A master that comes back on another port is followed as soon as the nameservers name it."""
    world.address, world.refusal = None, ConnectionRefusedError("connection refused")
    await world.start()
    for address in ("10.0.0.1:10912", None, "10.0.0.2:10912"):
        world.address = address
        moved, world.moved = world.moved, trio.Event()
        moved.set()
        await trio.testing.wait_all_tasks_blocked()
        assert world.client.statistics().master_address == (address or "10.0.0.1:10912")
    assert trio.current_time() == 0


async def test_an_address_that_counts_no_longer_is_not_followed(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    """What listens there by now may be the former master, back as a slave, for as long as the connection lives."""
    world.moves_to = "10.0.0.2:10912"
    await world.start()
    former, master = world.accepted
    assert await former.receive_some() == b""
    assert await received(master, 1) == [0]
    assert (world.client.statistics().connect_count, world.client.statistics().master_address) == (1, "10.0.0.2:10912")
