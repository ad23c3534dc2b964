"""The simulated network: its hosts and ports, and with each fault what its model says."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
import trio
import trio.lowlevel
import trio.testing

from rocketpy.errors import RemotingConnectError, StartError
from rocketpy.testing.sim.network import Link, SimNetwork
from rocketpy.testing.sim.stream import SimStream
from tests.testing.sim.stream_pair import PORT, A, B, a_pair


@pytest.fixture
def network() -> SimNetwork:
    return SimNetwork(randomness=Random(1))


async def test_jitter_lets_a_later_connection_overtake_an_earlier_one(autojump_clock: trio.testing.MockClock) -> None:
    orders = set()
    async with trio.open_nursery() as nursery:
        for seed in range(10):
            network = SimNetwork(randomness=Random(seed))
            pairs = [await a_pair(network, number + 1) for number in range(2)]
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


@pytest.mark.parametrize("one_way", [False, True])
async def test_a_cut_holds_bytes_back_and_healing_delivers_them(
    one_way: bool, network: SimNetwork, autojump_clock: trio.testing.MockClock
) -> None:
    ours, theirs = await a_pair(network)
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

    async with trio.open_nursery() as nursery:
        nursery.start_soon(heal)
        assert await theirs.receive_some() == b"there"


async def test_attempts_to_connect_wait_for_a_cut_and_are_refused_without_a_listener(
    network: SimNetwork, autojump_clock: trio.testing.MockClock
) -> None:
    host = network.host(A)
    with pytest.raises(RemotingConnectError, match=f"cannot connect to {B}:9: .*refused"):
        await host.connect(f"{B}:9")
    with pytest.raises(RemotingConnectError, match="expected HOST:PORT"):
        await host.connect(B)
    network.cut(A, B)
    with trio.move_on_after(60) as scope:
        await host.connect(f"{B}:9")
    assert scope.cancelled_caught


async def test_a_port_has_one_listener_and_may_be_used_again(
    network: SimNetwork, autojump_clock: trio.testing.MockClock
) -> None:
    host = network.host(B)
    (first,) = await host.listen(B, PORT)
    with pytest.raises(StartError, match=f"cannot listen on {B}, port {PORT}: another process uses it"):
        await network.host(B).listen("", PORT)
    (other,) = await host.listen(None, 0)
    assert other.port != PORT
    with pytest.raises(StartError, match=f"cannot listen on {A}, port 7"):
        await host.listen(A, 7)
    first.close()
    first.close()
    with pytest.raises(trio.ClosedResourceError):
        await first.accept()
    await host.listen(None, PORT)
    assert host.local_address() == B


async def test_closing_a_listener_wakes_its_task_and_resets_what_it_has_not_accepted(
    network: SimNetwork, autojump_clock: trio.testing.MockClock
) -> None:
    (idle,), (busy,) = await network.host(B).listen(None, PORT), await network.host(B).listen(None, PORT + 1)
    ours = await network.host(A).connect(f"{B}:{PORT + 1}")
    async with trio.open_nursery() as nursery:

        async def accept() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await idle.accept()

        nursery.start_soon(accept)
        await trio.testing.wait_all_tasks_blocked()
        idle.close()
        busy.close()
    await broken_at(ours.receive_some)


async def test_connections_beyond_the_backlog_wait_until_others_are_accepted(
    network: SimNetwork, autojump_clock: trio.testing.MockClock
) -> None:
    (listener,) = await network.host(B).listen(None, PORT, 2)
    side, connected = network.host(A), []

    async def connect() -> None:
        await side.connect(f"{B}:{PORT}")
        connected.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(connect)
        await trio.sleep(10)
        assert len(connected) == 2
        (_, first), (_, second) = await listener.accept(), await listener.accept()
        assert first[0] == second[0] == A
        assert first != second


async def test_a_process_that_has_ended_neither_connects_nor_listens(
    network: SimNetwork, autojump_clock: trio.testing.MockClock
) -> None:
    await network.host(A).listen(None, PORT)
    ended = network.host(B)
    failures: list[RemotingConnectError] = []

    async def connect() -> None:
        try:
            await ended.connect(f"{A}:{PORT}")
        except RemotingConnectError as failure:
            failures.append(failure)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(connect)
        await trio.testing.wait_all_tasks_blocked()
        network.end_process(B)
        nursery.start_soon(connect)
    assert len(failures) == 2
    with pytest.raises(StartError, match="the process has ended"):
        await ended.listen(None, PORT)
    await network.host(B).connect(f"{A}:{PORT}")


async def test_an_end_that_a_cut_has_hidden_is_found_once_it_is_healed(
    network: SimNetwork, autojump_clock: trio.testing.MockClock
) -> None:
    ours, _ = await a_pair(network)
    network.cut(A, B)
    network.end_process(B)

    async def heal() -> None:
        await trio.sleep(60)
        network.heal(A, B)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(heal)
        assert await broken_at(ours.receive_some) >= 60


async def test_what_is_sent_can_be_observed(network: SimNetwork, autojump_clock: trio.testing.MockClock) -> None:
    ours, theirs = await a_pair(network)
    seen: list[tuple[str, str, bytes]] = []
    network.observer = lambda source, target, content: seen.append((source, target, content))
    await ours.send_all(b"there")
    await theirs.send_all(b"back")
    assert seen == [(A, B, b"there"), (B, A, b"back")]


async def broken_at(call: Callable[[], object]) -> float:
    """Return when a call of a stream finds it broken."""
    with pytest.raises(trio.BrokenResourceError):
        while True:
            await call()  # type: ignore[misc]
            await trio.sleep(0.001)
    return trio.current_time()


async def test_a_port_is_closed_and_others_of_the_host_are_not(
    network: SimNetwork, autojump_clock: trio.testing.MockClock
) -> None:
    ours, theirs = await a_pair(network)
    await network.host(B).listen(None, 77)
    network.close_port(f"{B}:{PORT}")
    for stream in (ours, theirs):
        await broken_at(stream.receive_some)
    with pytest.raises(RemotingConnectError):
        await network.host(A).connect(f"{B}:{PORT}")
    await network.host(A).connect(f"{B}:77")
    network.open_port(f"{B}:{PORT}")
    await network.host(A).connect(f"{B}:{PORT}")


async def test_a_reset_breaks_both_sides(network: SimNetwork, autojump_clock: trio.testing.MockClock) -> None:
    ours, theirs = await a_pair(network)
    await ours.send_all(b"lost")
    network.reset(A, B)
    for stream in (ours, theirs):
        await broken_at(stream.receive_some)
        await broken_at(lambda stream=stream: stream.send_all(b"x"))  # type: ignore[misc]


async def test_the_end_of_a_process_reaches_its_peers_over_the_link(
    network: SimNetwork, autojump_clock: trio.testing.MockClock
) -> None:
    ours, _ = await a_pair(network)
    network.set_link(B, A, Link(delay_s=2.0))
    began = trio.current_time()
    network.end_process(B)
    await ours.send_all(b"not known yet")
    assert await broken_at(ours.receive_some) == pytest.approx(began + 2, abs=0.01)
    await broken_at(lambda: ours.send_all(b"x"))
    with pytest.raises(RemotingConnectError):
        await network.host(A).connect(f"{B}:{PORT}")


async def test_a_lost_machine_leaves_its_peers_half_open_until_it_returns(
    network: SimNetwork, autojump_clock: trio.testing.MockClock
) -> None:
    ours, theirs = await a_pair(network)
    network.lose_host(B)
    theirs.close()
    await ours.send_all(b"into the void")
    with trio.move_on_after(600) as scope:
        await ours.receive_some()
    assert scope.cancelled_caught
    with trio.move_on_after(60) as attempt:
        await network.host(A).connect(f"{B}:{PORT}")
    assert attempt.cancelled_caught
    network.return_host(B)
    await broken_at(ours.receive_some)
    with pytest.raises(RemotingConnectError):
        await network.host(A).connect(f"{B}:{PORT}")
    again, _ = await a_pair(network)
    await again.send_all(b"x")
