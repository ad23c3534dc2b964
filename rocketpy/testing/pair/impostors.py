"""Peers of a pair that are not what they say: one that sends bytes to a master, one that pretends to be a master."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import trio

from rocketpy.errors import RemotingConnectError
from rocketpy.protocol.host import host_of
from rocketpy.testing.pair.machines import LIAR, Machines
from rocketpy.testing.pair.steps import STEP_SECONDS_MAX, Steps
from rocketpy.testing.replica import HA_PORT, REQUEST_PORT
from rocketpy.testing.sim.network import SimListener
from rocketpy.testing.sim.stream import SimStream

FORGER = "10.0.0.66"


class Impostors:
    """Both of them, each on a machine of its own. ``before`` is called before time passes."""

    def __init__(self, machines: Machines, steps: Steps, *, before: Callable[[], None]) -> None:
        self.forged_at = -STEP_SECONDS_MAX
        """When bytes were last sent to a master; its connection counts as a slave's for a while."""
        self._machines = machines
        self._steps = steps
        self._before = before
        self._forged: list[SimStream] = []

    def forge(self, master: str, sent: bytes, *, is_new: bool) -> None:
        """Let a peer that is no slave send bytes to a master's port for slaves, on a new connection or its last one."""
        self._before()
        self.forged_at = trio.current_time()
        address = f"{self._machines[master].address}:{HA_PORT}"
        self._steps.do(partial(self._send, address, sent, is_new))

    def lie(self, slave: str, frames: Callable[[int], bytes], *, seconds: float = 2.0) -> None:
        """Let a slave follow a master that claims to have the same log, and answers its first report with frames."""
        self._before()
        self._machines.disturb()
        replica = self._machines[slave]
        address = replica.addresses.master_addr
        self._steps.do(partial(self._pretend, slave, frames, seconds))
        if address is not None:
            replica.follow(host_of(address))
        self._machines.disturb()

    async def _send(self, address: str, sent: bytes, is_new: bool) -> None:
        with trio.move_on_after(1.0):
            try:
                if is_new or not self._forged:
                    self._forged.append(await self._machines.network.host(FORGER).connect(address))
                await self._forged[-1].send_all(sent)
            except (RemotingConnectError, trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # the master has closed it, or ends

    async def _pretend(self, slave: str, frames: Callable[[int], bytes], seconds: float) -> None:
        network, replica = self._machines.network, self._machines[slave]
        side = network.host(LIAR)
        (for_slaves,), (for_questions,) = await side.listen(None, HA_PORT), await side.listen(None, REQUEST_PORT)
        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_serve_all, nursery, for_questions, _echo_once)
                replica.follow(LIAR)
                for other in self._machines.replicas.values():
                    network.reset(other.address, replica.address)
                await _serve_all(nursery, for_slaves, partial(_answer_report, frames))
        network.end_process(LIAR)


async def _serve_all(
    nursery: trio.Nursery, listener: SimListener, serve: Callable[[SimStream], Awaitable[None]]
) -> None:
    while True:
        stream, _ = await listener.accept()
        nursery.start_soon(serve, stream)


async def _answer_report(frames: Callable[[int], bytes], stream: SimStream) -> None:
    async with stream:
        try:
            report = await stream.receive_some(8)
            await stream.send_all(frames(int.from_bytes(report, "big")))
            await stream.receive_some(8)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the slave has closed it


async def _echo_once(stream: SimStream) -> None:
    async with stream:
        try:
            await stream.send_all(await stream.receive_some(1))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
