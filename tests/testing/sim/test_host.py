"""A simulated machine: what is left of a process and its disk after each fault."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

import pytest
import trio

from rocketpy.errors import RemotingConnectError, StartError, StoreError
from rocketpy.testing.sim.disk import ProcessDied
from rocketpy.testing.sim.host import STARTING_TIMESTAMP_MS, SimHost, SimProcess
from rocketpy.testing.sim.network import SimNetwork
from rocketpy.testing.sim.seeded_run import run_seeded
from rocketpy.testing.sim.trace import Trace


class Place:
    """A network with hosts."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.network = SimNetwork(randomness=Random(0))
        self._nursery = nursery
        self.hosts: list[SimHost] = []

    def host(self) -> SimHost:
        number = len(self.hosts) + 1
        host = SimHost(
            f"10.0.0.{number}",
            network=self.network,
            nursery=self._nursery,
            trace=Trace(),
            randomness=Random(number),
        )
        self.hosts.append(host)
        return host


def run(scene: Callable[[Place], Awaitable[None]]) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            place = Place(nursery)
            try:
                await scene(place)
            finally:
                for host in place.hosts:
                    host.resume()
            nursery.cancel_scope.cancel()

    run_seeded(main, seed=0)


async def idle(process: SimProcess) -> None:
    process.started()
    await process.stop.wait()


def write(process: SimProcess, content: bytes, *, synced: bool) -> None:
    file = process.disk.open("/file", create=True)
    file.write(0, content)
    if synced:
        file.sync()
        process.disk.sync_directory("/")
    file.close()


def read(host: SimHost) -> bytes | None:
    if not host.disk.exists("/file"):
        return None
    file = host.disk.open("/file", read_only=True)
    try:
        return file.read(0, 10)
    finally:
        file.close()


# ---- processes ------------------------------------------------------------------------------------------------------


def test_a_process_ends_in_order_and_another_one_begins() -> None:
    async def scene(place: Place) -> None:
        host = place.host()
        for _ in range(2):
            assert await host.start(idle)
            assert host.is_running
            first = host.process
            await host.stop()
            assert not host.is_running
            assert host.failure is None
            assert first.has_ended.is_set()
        assert await host.start(idle)
        assert host.process.process_id != first.process_id
        assert host.process.randomness.random() != first.randomness.random()

    run(scene)


@pytest.mark.parametrize("failure", [StoreError("the disk is gone", path="/x"), StartError("no")])
def test_a_process_that_ends_by_itself_says_why(failure: Exception) -> None:
    async def fail(process: SimProcess) -> None:
        await trio.sleep(1)
        raise failure

    async def scene(place: Place) -> None:
        host = place.host()
        assert not await host.start(fail)
        assert host.failure is failure
        assert await host.start(idle)
        assert host.failure is None

    run(scene)


def test_what_no_process_may_end_with_ends_the_run() -> None:
    async def fail(process: SimProcess) -> None:
        process.started()
        raise ZeroDivisionError

    async def scene(place: Place) -> None:
        await place.host().start(fail)
        await trio.sleep(1)

    with pytest.raises(BaseExceptionGroup) as caught:
        run(scene)
    assert caught.group_contains(ZeroDivisionError)


def test_a_killed_process_leaves_what_it_has_written_and_nothing_more() -> None:
    ended: list[str] = []

    async def work(process: SimProcess) -> None:
        write(process, b"before", synced=False)
        (listener,) = await process.network.listen(None, 1)
        assert listener
        process.started()
        try:
            await trio.sleep_forever()
        finally:
            with pytest.raises(ProcessDied):
                write(process, b"after", synced=False)
            with trio.CancelScope(shield=True), pytest.raises(RemotingConnectError):
                await process.network.connect("10.0.0.2:1")
            ended.append("ended")

    async def scene(place: Place) -> None:
        host, peer = place.host(), place.host()
        await host.start(work)
        await peer.start(idle)
        stream = await peer.process.network.connect(f"{host.address}:1")
        await host.kill()
        assert ended == ["ended"]
        assert read(host) == b"before"
        with pytest.raises(trio.BrokenResourceError):
            await stream.receive_some()
        await host.kill()
        assert host.failure is None

    run(scene)


@pytest.mark.parametrize("synced", [True, False])
def test_a_loss_of_power_leaves_what_was_synced_and_tells_no_peer(synced: bool) -> None:
    async def work(process: SimProcess) -> None:
        await process.network.listen(None, 1)
        write(process, b"content", synced=synced)
        process.started()
        await trio.sleep_forever()

    async def scene(place: Place) -> None:
        host, peer = place.host(), place.host()
        await host.start(work)
        await peer.start(idle)
        stream = await peer.process.network.connect(f"{host.address}:1")
        await host.lose_power(lambda count: 0)
        assert read(host) == (b"content" if synced else None)
        with trio.move_on_after(3600) as waiting:
            await stream.receive_some()
        assert waiting.cancelled_caught
        host.power_on()
        with pytest.raises(trio.BrokenResourceError):
            await stream.receive_some()
        await host.start(idle)

    run(scene)


def test_a_paused_process_takes_no_step_and_its_machine_goes_on() -> None:
    received: list[bytes] = []

    async def serve(process: SimProcess) -> None:
        (listener,) = await process.network.listen(None, 1)
        process.started()
        while True:
            stream, _ = await listener.accept()
            received.append(bytes(await stream.receive_some()))

    async def scene(place: Place) -> None:
        host, peer = place.host(), place.host()
        await host.start(serve)
        await peer.start(idle)
        host.pause()
        stream = await peer.process.network.connect(f"{host.address}:1")
        await stream.send_all(b"buffered")
        await trio.sleep(60)
        assert received == []
        host.resume()
        host.resume()
        await trio.sleep(1)
        assert received == [b"buffered"]
        host.pause()
        await host.kill()
        assert not host.is_running

    run(scene)


def test_a_paused_process_that_is_stopped_goes_on_first() -> None:
    async def scene(place: Place) -> None:
        host = place.host()
        await host.start(idle)
        host.pause()
        await host.stop()
        assert not host.is_running

    run(scene)


def test_a_wiped_disk_is_empty_and_as_large_as_before() -> None:
    async def work(process: SimProcess) -> None:
        write(process, b"content", synced=True)

    async def scene(place: Place) -> None:
        host = place.host()
        host.disk.capacity_bytes = 1 << 20
        await host.start(work)
        await host.wait_ended()
        host.wipe()
        assert read(host) is None
        assert host.disk.capacity_bytes == 1 << 20

    run(scene)


def test_a_blocking_call_takes_its_time_and_ends_although_it_is_cancelled() -> None:
    calls: list[float] = []

    async def work(process: SimProcess) -> None:
        with trio.move_on_after(1.0):
            await process.run_blocking(calls.append, trio.current_time())

    async def scene(place: Place) -> None:
        host = place.host()
        host.disk_delay_s = 2.0
        await host.start(work)
        await host.wait_ended()
        assert (calls, trio.current_time()) == ([0.0], 4.0)

    run(scene)


# ---- the wall clock -------------------------------------------------------------------------------------------------


def test_the_wall_clock_can_be_set_and_run_fast() -> None:
    async def scene(place: Place) -> None:
        first, second = place.host().clock, place.host().clock
        await trio.sleep(1)
        assert first.timestamp_ms() == STARTING_TIMESTAMP_MS + 1000
        first.advance_ms(-5000)
        assert first.timestamp_ms() == STARTING_TIMESTAMP_MS - 4000
        first.set_rate(2.0)
        await trio.sleep(1)
        assert first.timestamp_ms() == STARTING_TIMESTAMP_MS - 2000
        first.set_rate(0.5)
        await trio.sleep(1)
        assert first.timestamp_ms() == STARTING_TIMESTAMP_MS - 1500
        assert second.timestamp_ms() == STARTING_TIMESTAMP_MS + 3000

    run(scene)
