"""Several brokers as processes of one parent, which end together.

The parent forks a process for each broker before its own event loop runs, so all of them share the memory of what is
imported. Between the parent and each process there is a pair of sockets, the *line*::

    parent                                     process of a broker
      G  ------------------------------------->  start: the nameserver answers by now
      <-------------------------------------  {"ready": {...}}     one line of JSON: clients may connect
      <-------------------------------------  {"failed": "..."}    or: the sentence that ends the start
      end of the line  ----------------------->  stop in order
      <-------------------------------  end of the line: the process has ended

A line that ends means the same whether the parent closed it, failed, or was killed with SIGKILL: the kernel closes what
a process leaves. So no broker outlives its parent by more than its clean shutdown, and no signal has to arrive.

Rule, as in a nursery: a broker that ends although nothing told it to takes the others down, each by its own clean
shutdown, and the parent ends with a failure that names it. A supervisor starts the whole again, or a person does.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NoReturn

import attrs
import trio

from rocketpy.broker.app import BrokerAddress
from rocketpy.broker.sample_cluster import Member
from rocketpy.broker.shutdown_signals import SHUTDOWN_SECONDS, obey_signals
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.errors import RocketpyError, StartError

SIGNAL_SECONDS = 1.0
"""Time within which a signal that has stopped a broker reaches its parent, too."""

_GO = b"G"
_READ_SIZE = 1 << 16


class GroupEndedError(RocketpyError):
    """The process of a broker has ended although nothing told it to; the others were stopped."""


class ParentLine:
    """The broker's end of its line."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def wait_go(self) -> bool:
        """Wait, outside the event loop, for the order to start; False if the parent has ended instead."""
        return self._line.recv(len(_GO)) == _GO

    async def orders(self, signals: AsyncIterator[int]) -> AsyncIterator[None]:
        """Yield once, when the line ends or a signal arrives: the order to stop. No second order follows.

        A service manager may send SIGTERM to every process at once, and the parent passes its own on: two orders to
        stop are not impatience here. Only the parent kills a broker that is too slow.
        """
        async with trio.open_nursery() as nursery:

            async def first(wait: Callable[[], Awaitable[object]]) -> None:
                await wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(first, self._wait_end)
            nursery.start_soon(first, signals.__anext__)
        yield
        await trio.sleep_forever()

    def report_ready(self, values: Mapping[str, object]) -> None:
        """Tell the parent that clients may connect."""
        self._report({"ready": dict(values)})

    def report_failure(self, sentence: str) -> None:
        """Tell the parent why there was no start."""
        self._report({"failed": sentence})

    async def _wait_end(self) -> None:
        self._line.setblocking(False)
        while True:
            await trio.lowlevel.wait_readable(self._line)
            with suppress(BlockingIOError):
                if not self._line.recv(_READ_SIZE):
                    return

    def _report(self, message: Mapping[str, object]) -> None:
        """Write one line; it fits the empty buffer of the socket. Without a parent nobody needs it."""
        with suppress(OSError):
            self._line.sendall(json.dumps(message).encode() + b"\n")


@attrs.define(eq=False)
class GroupProcess:
    """The parent's view of one broker."""

    name: str
    pid: int
    line: socket.socket
    exit_status: int | None = None
    """Known once the process has ended: as of a shell's ``wait``, negative for a signal."""

    def go(self) -> None:
        """Let it start."""
        with suppress(OSError):
            self.line.sendall(_GO)

    def stop(self) -> None:
        """Tell it to stop in order; its end is still noticed on the line."""
        with suppress(OSError):
            self.line.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        """End it at once, unless it has ended."""
        if self.exit_status is None:
            os.kill(self.pid, signal.SIGKILL)

    @property
    def end(self) -> str:
        """The end in words."""
        status = self.exit_status
        assert status is not None
        how = f"exit status {status}" if status >= 0 else f"signal {-status}, {signal.Signals(-status).name}"
        return f"{self.name}, process {self.pid}, has ended with {how}"


def fork_groups(
    members: Sequence[BrokerSettings], run: Callable[[BrokerSettings, ParentLine], int]
) -> list[GroupProcess]:
    """Fork a process for each broker, which waits for its order and then runs ``run``; its result is the exit status.

    Call it before any thread or event loop runs.
    """
    processes: list[GroupProcess] = []
    for settings in members:
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            for each in (ours, *(process.line for process in processes)):
                each.close()  # a line must end with the parent, and with nothing else
            _enter(settings, ParentLine(theirs), run)
        theirs.close()
        processes.append(GroupProcess(settings.broker.broker_name, pid, ours))
    return processes


def _enter(settings: BrokerSettings, line: ParentLine, run: Callable[[BrokerSettings, ParentLine], int]) -> NoReturn:
    """Be the process of a broker, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the parent passes it on by the line
    sys.exit(run(settings, line) if line.wait_go() else 0)


async def serve_groups(
    processes: Sequence[GroupProcess],
    members: Sequence[BrokerSettings],
    *,
    run_nameserver: Callable[[trio.TaskStatus[int]], Awaitable[None]] | None,
    say_ready: Callable[[Sequence[Member]], None],
) -> None:
    """Let the brokers start once the nameserver serves, and watch them until a signal; then stop all, it last.

    Raises StartError with the sentence of a broker that could not start, and GroupEndedError for one that ended later.
    Another signal, or a shutdown that takes longer than SHUTDOWN_SECONDS, kills what still runs.
    """
    stop = trio.Event()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as outer:
            outer.start_soon(partial(obey_signals, signals, stop, before_exit=partial(_kill_all, processes)))
            try:
                if run_nameserver is not None:
                    await outer.start(run_nameserver)
                async with trio.open_nursery() as watching:
                    for process in processes:
                        process.go()
                    at = [await watching.start(_watch, process, stop) for process in processes]
                    say_ready([Member(*each) for each in zip(members, at, [p.pid for p in processes], strict=True)])
                    await stop.wait()
                    watching.cancel_scope.cancel()
            finally:
                with trio.CancelScope(shield=True):
                    await _end_all(processes)
            outer.cancel_scope.cancel()
    failed = [process.end for process in processes if process.exit_status]
    if failed:
        raise GroupEndedError("; ".join(failed))


async def _watch(process: GroupProcess, stop: trio.Event, *, task_status: trio.TaskStatus[BrokerAddress]) -> None:
    """Report started with the address that a broker says, and raise when it ends."""
    received = bytearray()
    is_ready = False
    process.line.setblocking(False)
    while chunk := await _received(process.line):
        received += chunk
        while not is_ready and b"\n" in received:
            line, _, rest = received.partition(b"\n")
            received = bytearray(rest)
            message = json.loads(line)
            if "failed" in message:
                raise StartError(f"{process.name}: {message['failed']}")
            is_ready = True
            task_status.started(BrokerAddress(**message["ready"]))
    await _reap(process)
    if not process.exit_status:
        # A service manager signals all processes at once: this one's signal may be the last that is handled.
        with trio.move_on_after(SIGNAL_SECONDS):
            await stop.wait()
            return
    raise GroupEndedError(f"{process.end}; the other brokers are stopped")


async def _end_all(processes: Sequence[GroupProcess]) -> None:
    """Stop the brokers that run and wait until all have ended; kill those that need too long."""
    for process in processes:
        process.stop()
    with trio.move_on_after(SHUTDOWN_SECONDS + 1):  # each exits by itself before that, unless it is paused
        await _wait_all(processes)
    _kill_all(processes)
    await _wait_all(processes)
    for process in processes:
        process.line.close()


def _kill_all(processes: Sequence[GroupProcess]) -> None:
    for process in processes:
        process.kill()


async def _wait_all(processes: Sequence[GroupProcess]) -> None:
    async with trio.open_nursery() as nursery:
        for process in processes:
            if process.exit_status is None:
                nursery.start_soon(_wait_end, process)


async def _wait_end(process: GroupProcess) -> None:
    process.line.setblocking(False)
    while await _received(process.line):
        pass
    await _reap(process)


async def _received(line: socket.socket) -> bytes:
    """Return what has come, empty at the end of the line."""
    while True:
        await trio.lowlevel.wait_readable(line)
        try:
            return line.recv(_READ_SIZE)
        except BlockingIOError:
            continue
        except ConnectionResetError:
            return b""


async def _reap(process: GroupProcess) -> None:
    """Take the exit status of a process whose line has ended: its last descriptors are closed, so it is about to end.

    Not cancelled: a status can be taken once only.
    """
    with trio.CancelScope(shield=True):
        _, status = await trio.to_thread.run_sync(os.waitpid, process.pid, 0)
    process.exit_status = os.waitstatus_to_exitcode(status)
