"""The simulated network: a stream like any other without faults, and with each fault what its model says."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
import trio
import trio.lowlevel
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.testing.sim_network import BUFFER_SIZE, Link, SimNetwork, SimStream

A, B, PORT = "a", "b", "b:1"


async def a_pair(network: SimNetwork, nursery: trio.Nursery, port: str = PORT) -> tuple[SimStream, SimStream]:
    """Return both ends of a connection from A to B."""
    accepted: list[SimStream] = []

    async def serve(stream: SimStream, peer: str) -> None:
        accepted.append(stream)
        await trio.sleep_forever()

    network.listen(port, serve, nursery)
    ours = await network.connect(A, port)
    await trio.testing.wait_all_tasks_blocked()
    return ours, accepted[0]


@pytest.fixture
def network() -> SimNetwork:
    return SimNetwork(randomness=Random(1))


async def test_without_faults_it_is_a_stream_as_trio_defines_one(
    network: SimNetwork, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    count = 0

    async def make() -> tuple[SimStream, SimStream]:
        nonlocal count
        count += 1
        return await a_pair(network, nursery, f"b:{count}")

    async def make_clogged() -> tuple[SimStream, SimStream]:
        ours, theirs = await make()
        for stream in (ours, theirs):
            await stream.send_all(bytes(BUFFER_SIZE))
        return ours, theirs

    await trio.testing.check_half_closeable_stream(make, make_clogged)


@given(chunks=st.lists(st.binary(max_size=300_000 // 100), max_size=20), seed=st.integers(0, 1000))
def test_bytes_arrive_in_order_whatever_the_jitter(chunks: list[bytes], seed: int) -> None:
    received = b""

    async def main() -> None:
        nonlocal received
        network = SimNetwork(randomness=Random(seed))
        network.set_link(A, B, Link(delay_s=0.01, jitter_s=0.5, bytes_per_s=1e5))
        async with trio.open_nursery() as nursery:
            ours, theirs = await a_pair(network, nursery)
            for chunk in chunks:
                await ours.send_all(chunk)
            await ours.send_eof()
            while data := await theirs.receive_some(Random(seed).randrange(1, 5000)):
                received += data
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert received == b"".join(chunks)


async def test_delay_and_bandwidth_take_their_time(
    network: SimNetwork, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    ours, theirs = await a_pair(network, nursery)
    network.set_link(A, B, Link(delay_s=0.2, bytes_per_s=1000))
    began = trio.current_time()
    await ours.send_all(bytes(500))
    await ours.send_all(bytes(500))
    times = []
    for _ in range(2):
        assert len(await theirs.receive_some()) == 500
        times.append(trio.current_time() - began)
    assert times == pytest.approx([0.7, 1.2])


async def test_jitter_does_not_add_up(
    network: SimNetwork, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    ours, theirs = await a_pair(network, nursery)
    network.set_link(A, B, Link(delay_s=0.1, jitter_s=0.1))
    began = trio.current_time()
    for _ in range(1000):
        await ours.send_all(b"x")
    received = 0
    while received < 1000:
        received += len(await theirs.receive_some())
    assert trio.current_time() - began <= 0.21


async def test_jitter_lets_a_later_connection_overtake_an_earlier_one(autojump_clock: trio.testing.MockClock) -> None:
    orders = set()
    async with trio.open_nursery() as nursery:
        for seed in range(10):
            network = SimNetwork(randomness=Random(seed))
            pairs = [await a_pair(network, nursery, f"b:{number}") for number in range(2)]
            network.set_link(A, B, Link(jitter_s=1.0))
            order: list[int] = []

            async def note(number: int, stream: SimStream, order: list[int] = order) -> None:
                await stream.receive_some()
                order.append(number)

            async with trio.open_nursery() as readers:
                for number, (ours, theirs) in enumerate(pairs):
                    await ours.send_all(b"x")
                    readers.start_soon(note, number, theirs)
            orders.add(tuple(order))
        nursery.cancel_scope.cancel()
    assert orders == {(0, 1), (1, 0)}


async def test_a_slow_reader_slows_its_sender_down(
    network: SimNetwork, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    ours, theirs = await a_pair(network, nursery)
    with trio.move_on_after(10) as scope:
        await ours.send_all(bytes(BUFFER_SIZE + (128 << 10)))
    assert scope.cancelled_caught
    assert len(await theirs.receive_some(10)) == 10


@pytest.mark.parametrize("one_way", [False, True])
async def test_a_cut_holds_bytes_back_and_healing_delivers_them(
    one_way: bool, network: SimNetwork, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    ours, theirs = await a_pair(network, nursery)
    network.cut(A, B, one_way=one_way)
    await ours.send_all(b"there")
    await theirs.send_all(b"back")
    with trio.move_on_after(60) as scope:
        await theirs.receive_some()
    assert scope.cancelled_caught
    with trio.move_on_after(60) as back:
        assert await ours.receive_some() == b"back"
    assert back.cancelled_caught is not one_way

    async def heal() -> None:
        await trio.sleep(5)
        network.heal(A, B)

    nursery.start_soon(heal)
    assert await theirs.receive_some() == b"there"


async def test_attempts_to_connect_wait_for_a_cut_and_are_refused_without_a_listener(
    network: SimNetwork, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    with pytest.raises(ConnectionRefusedError, match="nothing listens on b:9"):
        await network.connect(A, "b:9")
    network.cut(A, B)
    with trio.move_on_after(60) as scope:
        await network.connect(A, "b:9")
    assert scope.cancelled_caught
    with pytest.raises(OSError, match="in use"):
        for _ in range(2):
            network.listen(PORT, never, nursery)


async def never(stream: SimStream, peer: str) -> None:
    await trio.sleep_forever()


async def broken_at(call: Callable[[], object]) -> float:
    """Return when a call of a stream finds it broken."""
    with pytest.raises(trio.BrokenResourceError):
        while True:
            await call()  # type: ignore[misc]
            await trio.sleep(0.001)
    return trio.current_time()


async def test_a_reset_breaks_both_sides(
    network: SimNetwork, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    ours, theirs = await a_pair(network, nursery)
    await ours.send_all(b"lost")
    network.reset(A, B)
    for stream in (ours, theirs):
        await broken_at(stream.receive_some)
        await broken_at(lambda stream=stream: stream.send_all(b"x"))  # type: ignore[misc]


async def test_the_end_of_a_process_reaches_its_peers_over_the_link(
    network: SimNetwork, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    ours, _ = await a_pair(network, nursery)
    network.set_link(B, A, Link(delay_s=2.0))
    began = trio.current_time()
    network.end_process(B)
    await ours.send_all(b"not known yet")
    assert await broken_at(ours.receive_some) == pytest.approx(began + 2, abs=0.01)
    await broken_at(lambda: ours.send_all(b"x"))
    with pytest.raises(ConnectionRefusedError):
        await network.connect(A, PORT)


async def test_a_lost_machine_leaves_its_peers_half_open_until_it_returns(
    network: SimNetwork, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    ours, theirs = await a_pair(network, nursery)
    network.lose_host(B)
    theirs.close()
    await ours.send_all(b"into the void")
    with trio.move_on_after(600) as scope:
        await ours.receive_some()
    assert scope.cancelled_caught
    with trio.move_on_after(60) as attempt:
        await network.connect(A, PORT)
    assert attempt.cancelled_caught
    network.return_host(B)
    await broken_at(ours.receive_some)
    with pytest.raises(ConnectionRefusedError):
        await network.connect(A, PORT)
    again, _ = await a_pair(network, nursery)
    await again.send_all(b"x")
