"""A simulated machine: its address, disk and wall clock, and one program after the other on it.

A program is any async function that takes a :class:`SimProcess`; it is the product's own composition root, or a client.
The fault model, per host:

- :meth:`SimHost.kill` ends the process: the page cache stays, peers find their connections reset.
- :meth:`SimHost.lose_power` ends the machine: the disk keeps what its own fault model says, peers are not notified
  until :meth:`SimHost.power_on` or the next start.
- :meth:`SimHost.pause` stops every task of the process until :meth:`SimHost.resume`, as SIGSTOP does. The machine's
  kernel goes on: connections are established and bytes buffered.
- :class:`HostClock` can be set and can run fast or slow. Deadlines use Trio's clock, which is one for all hosts.
- ``disk_delay_s`` is how long a call in a worker thread takes, and again until that is noticed.

The code of a process that was killed still ends as any cancelled code does, but nothing of that is visible: its disk
refuses all calls, its connections are gone, and it can open none. Only virtual time shows it, and only if the code
shields a pause.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

import trio

from rocketpy.errors import RemotingError, StartError, StoreError, single_failures
from rocketpy.testing.sim.choices import Choose
from rocketpy.testing.sim.disk import ProcessDied, SimDisk
from rocketpy.testing.sim.network import SimHostNetwork, SimNetwork
from rocketpy.testing.sim.task_gate import TaskGate
from rocketpy.testing.sim.trace import Trace

T = TypeVar("T")

STARTING_TIMESTAMP_MS = 1_700_000_000_000
_FAILURES = (StoreError, StartError)
_ECHOES = (ProcessDied, StoreError, StartError, RemotingError, trio.ClosedResourceError, trio.BrokenResourceError)
"""What the code of a killed process may end with: its disk and its connections are gone."""

_FIRST_PROCESS_ID = 1000


class HostClock:
    """The wall clock of one host: Trio's time since the run began, at a rate, plus an offset."""

    def __init__(self) -> None:
        self._base_ms = float(STARTING_TIMESTAMP_MS)
        self._since = 0.0  # of Trio's clock
        self._rate = 1.0

    def timestamp_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return int(self._base_ms + (trio.current_time() - self._since) * 1000 * self._rate)

    def advance_ms(self, milliseconds: int) -> None:
        """Set the clock; a negative number sets it back."""
        self._base_ms += milliseconds

    def set_rate(self, rate: float) -> None:
        """Let it run fast (above 1) or slow from now on."""
        now = trio.current_time()
        self._base_ms += (now - self._since) * 1000 * self._rate
        self._since, self._rate = now, rate


class SimProcess:
    """What a program gets of its host: it ends with the process."""

    def __init__(self, host: SimHost, *, network: SimHostNetwork, randomness: Random, process_id: int) -> None:
        self.disk = host.disk
        self.clock = host.clock
        self.network = network
        self.randomness = randomness
        self.process_id = process_id
        self.stop = trio.Event()
        """Set when the process is to end in order, as after SIGTERM."""
        self.has_begun = trio.Event()
        self.has_ended = trio.Event()
        self.is_killed = False
        self.scope = trio.CancelScope()
        self.gate = TaskGate()
        self._host = host

    def started(self, value: object = None) -> None:
        """Report that the program serves: a ``trio.TaskStatus`` for composition roots."""
        self.has_begun.set()

    async def run_blocking(self, function: Callable[..., T], /, *arguments: object) -> T:
        """Run a blocking call as a worker thread would: others run meanwhile, and a cancellation waits for it."""
        await trio.lowlevel.checkpoint()
        with trio.CancelScope(shield=True):
            await trio.sleep(self._host.disk_delay_s)
            result = function(*arguments)
            await trio.sleep(self._host.disk_delay_s)
        return result


Program = Callable[[SimProcess], Awaitable[object]]


class SimHost:
    """One machine. Every method that ends a process waits until its code has ended."""

    def __init__(
        self, address: str, *, network: SimNetwork, nursery: trio.Nursery, trace: Trace, randomness: Random
    ) -> None:
        """``nursery`` runs the processes: an unexpected failure of one of them is raised there."""
        self.address = address
        self.clock = HostClock()
        self.randomness = randomness
        self.disk = self._empty_disk()
        self.disk_delay_s = 0.0005
        self._network = network
        self._nursery = nursery
        self._trace = trace
        self._process: SimProcess | None = None
        self._process_count = 0
        self._has_power = True
        self.failure: BaseException | None = None
        """Why the last process has ended, if neither in order nor by a kill."""
        self.ended_at = -math.inf
        """When the last process ended, in seconds of Trio's clock."""

    @property
    def process(self) -> SimProcess:
        """The process that runs."""
        assert self._process is not None, f"{self.address}: a process runs"
        return self._process

    @property
    def is_running(self) -> bool:
        """Whether a process runs; it may be paused."""
        return self._process is not None

    async def start(self, program: Program) -> bool:
        """Begin a process and wait until it serves; False when it has ended instead, as :attr:`failure` says."""
        assert self._process is None, f"{self.address}: no other process runs"
        self.power_on()
        self._process_count += 1
        self.failure = None
        process = self._process = SimProcess(
            self,
            network=self._network.host(self.address),
            randomness=Random(self.randomness.getrandbits(64)),
            process_id=_FIRST_PROCESS_ID + self._process_count,
        )
        self._trace.note("start", self.address)
        process.gate.start_soon(self._nursery, self._live, process, program)
        await process.has_begun.wait()
        return not process.has_ended.is_set()

    async def stop(self) -> None:
        """End the process in order."""
        process = self.process
        self.resume()
        process.stop.set()
        await process.has_ended.wait()

    async def wait_ended(self) -> None:
        """Wait until the process that runs, if one does, has ended."""
        if self._process is not None:
            await self._process.has_ended.wait()

    async def kill(self) -> None:
        """End the process as SIGKILL does."""
        if self._process is not None:
            self._trace.note("kill", self.address)
            self._network.end_process(self.address)
            await self._end(self._process)

    async def lose_power(self, choose: Choose | None = None) -> None:
        """End the machine; ``choose`` says what the disk has of what was not synced, else the host's randomness."""
        self._trace.note("lose power", self.address)
        self._network.lose_host(self.address)
        self._has_power = False
        if self._process is not None:
            await self._end(self._process)
        self.disk.lose_power(choose or self.randomness.randrange)

    def power_on(self) -> None:
        """Bring the machine back, without a process. Idempotent."""
        if not self._has_power:
            self._has_power = True
            self._network.return_host(self.address)

    def wipe(self) -> None:
        """Replace the disk by an empty one of the same size. Not while a process runs."""
        assert self._process is None, f"{self.address}: no process runs"
        capacity_bytes = self.disk.capacity_bytes
        self.disk = self._empty_disk()
        self.disk.capacity_bytes = capacity_bytes

    def pause(self) -> None:
        """Stop all tasks of the process. Idempotent."""
        self._trace.note("pause", self.address)
        self.process.gate.close()

    def resume(self) -> None:
        """Let the process go on. Idempotent."""
        if self._process is not None and self._process.gate.is_closed:
            self._trace.note("resume", self.address)
            self._process.gate.open()

    # ---- private --------------------------------------------------------------------------------------------------

    def _empty_disk(self) -> SimDisk:
        return SimDisk(choose=self.randomness.randrange, clock=self.clock)

    async def _live(self, process: SimProcess, program: Program) -> None:
        try:
            with process.scope:
                await program(process)
        except BaseException as failure:
            leaves = list(single_failures(failure))
            expected = _ECHOES if process.is_killed else _FAILURES
            if not all(isinstance(each, expected) for each in leaves):
                raise
            self.failure = None if process.is_killed else leaves[0]
        finally:
            if not process.is_killed:
                self._network.end_process(self.address)
            self.disk.kill_process()
            self._process = None
            self.ended_at = trio.current_time()
            process.has_begun.set()
            process.has_ended.set()
            self._trace.note("end", self.address)

    async def _end(self, process: SimProcess) -> None:
        process.is_killed = True
        self.disk.end_process()
        process.gate.open()
        process.scope.cancel()
        await process.has_ended.wait()
