"""A stream of the simulated network without faults: like any other, and in the time that its link takes."""

from __future__ import annotations

from random import Random

import pytest
import trio
import trio.lowlevel
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.testing.sim.network import Link, SimNetwork
from rocketpy.testing.sim.stream import BUFFER_SIZE, SimStream
from tests.testing.sim.stream_pair import A, B, a_pair


@pytest.fixture
def network() -> SimNetwork:
    return SimNetwork(randomness=Random(1))


async def test_without_faults_it_is_a_stream_as_trio_defines_one(
    network: SimNetwork, autojump_clock: trio.testing.MockClock
) -> None:
    count = 0

    async def make() -> tuple[SimStream, SimStream]:
        nonlocal count
        count += 1
        return await a_pair(network, count)

    async def make_clogged() -> tuple[SimStream, SimStream]:
        ours, theirs = await make()
        for stream in (ours, theirs):
            await stream.send_all(bytes(BUFFER_SIZE))
        return ours, theirs

    await trio.testing.check_half_closeable_stream(make, make_clogged)


async def test_without_waiting_it_sends_what_there_is_room_for(
    network: SimNetwork, autojump_clock: trio.testing.MockClock
) -> None:
    ours, theirs = await a_pair(network)
    content = bytes(range(256)) * (BUFFER_SIZE // 256 + 1)
    assert ours.send_nowait(content) == BUFFER_SIZE
    assert ours.send_nowait(b"more") == 0
    received = b""
    while len(received) < BUFFER_SIZE:
        received += await theirs.receive_some()
    assert received == content[:BUFFER_SIZE]
    assert ours.send_nowait(b"more") == 4


async def test_without_waiting_nothing_is_sent_on_a_connection_that_has_ended(
    network: SimNetwork, autojump_clock: trio.testing.MockClock
) -> None:
    ours, theirs = await a_pair(network)
    network.reset(A, B)
    assert ours.send_nowait(b"lost") == 0
    await theirs.aclose()
    assert theirs.send_nowait(b"closed") == 0


@given(chunks=st.lists(st.binary(max_size=300_000 // 100), max_size=20), seed=st.integers(0, 1000))
def test_bytes_arrive_in_order_whatever_the_jitter(chunks: list[bytes], seed: int) -> None:
    received = b""

    async def main() -> None:
        nonlocal received
        network = SimNetwork(randomness=Random(seed))
        network.set_link(A, B, Link(delay_s=0.01, jitter_s=0.5, bytes_per_s=1e5))
        async with trio.open_nursery() as nursery:
            ours, theirs = await a_pair(network)
            for chunk in chunks:
                await ours.send_all(chunk)
            await ours.send_eof()
            while data := await theirs.receive_some(Random(seed).randrange(1, 5000)):
                received += data
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert received == b"".join(chunks)


async def test_delay_and_bandwidth_take_their_time(network: SimNetwork, autojump_clock: trio.testing.MockClock) -> None:
    ours, theirs = await a_pair(network)
    network.set_link(A, B, Link(delay_s=0.2, bytes_per_s=1000))
    began = trio.current_time()
    await ours.send_all(bytes(500))
    await ours.send_all(bytes(500))
    times = []
    for _ in range(2):
        assert len(await theirs.receive_some()) == 500
        times.append(trio.current_time() - began)
    assert times == pytest.approx([0.7, 1.2])


async def test_what_is_under_way_goes_on_at_the_pace_of_a_link_that_is_faster_now(
    network: SimNetwork, autojump_clock: trio.testing.MockClock
) -> None:
    ours, theirs = await a_pair(network)
    network.set_link(A, B, Link(delay_s=0.2, bytes_per_s=10))
    began = trio.current_time()
    await ours.send_all(bytes(500))
    await ours.send_all(b"end")
    await ours.send_eof()
    network.set_link(A, B, Link(delay_s=0.1, bytes_per_s=5))  # slower: what is under way is not held up
    with trio.move_on_after(1) as scope:
        await theirs.receive_some()
    assert scope.cancelled_caught
    network.set_link(A, B, Link(delay_s=0.1, bytes_per_s=1000))
    received = b""
    while data := await theirs.receive_some():
        received += data
    assert received == bytes(500) + b"end"
    assert trio.current_time() - began == pytest.approx(1 + 0.503 + 0.1)


async def test_jitter_does_not_add_up(network: SimNetwork, autojump_clock: trio.testing.MockClock) -> None:
    ours, theirs = await a_pair(network)
    network.set_link(A, B, Link(delay_s=0.1, jitter_s=0.1))
    began = trio.current_time()
    for _ in range(1000):
        await ours.send_all(b"x")
    received = 0
    while received < 1000:
        received += len(await theirs.receive_some())
    assert trio.current_time() - began <= 0.21


async def test_a_slow_reader_slows_its_sender_down(network: SimNetwork, autojump_clock: trio.testing.MockClock) -> None:
    ours, theirs = await a_pair(network)
    with trio.move_on_after(10) as scope:
        await ours.send_all(bytes(BUFFER_SIZE + (128 << 10)))
    assert scope.cancelled_caught
    assert len(await theirs.receive_some(10)) == 10


async def test_a_sender_may_find_out_late_that_its_bytes_were_taken(
    network: SimNetwork, autojump_clock: trio.testing.MockClock
) -> None:
    ours, theirs = await a_pair(network)
    network.set_link(A, B, Link(returns_after_s=2.0))
    began, answered_at, returned_at = trio.current_time(), 0.0, 0.0

    async def ask() -> None:
        nonlocal returned_at
        await ours.send_all(b"question")
        returned_at = trio.current_time() - began

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        assert await theirs.receive_some() == b"question"
        await theirs.send_all(b"answer")
        assert await ours.receive_some() == b"answer"
        answered_at = trio.current_time() - began
    assert answered_at < 0.1
    assert 2.0 <= returned_at < 2.1
