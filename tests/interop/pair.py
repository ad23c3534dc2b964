"""A master and its slave as processes, each of either make: started, stopped, killed and suspended one by one.

A member keeps its port and its store over all its lives. What it has stored is asked of it, never waited for by time.
"""

from __future__ import annotations

import signal
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs

from rocketpy.protocol.stored_message import RecordStatus, check_message
from tests.blackbox import processes
from tests.blackbox.ports import broker_port
from tests.blackbox.wire import SUCCESS, Wire, WireError
from tests.interop import tools
from tests.interop.cluster import JAVA_START_S, end_processes, is_running, send_signal
from tests.patience import PATIENCE_MS, wait_until

NAME = "pair"
FILE_SIZE = 65_536
_UNIT = struct.Struct(">qiq")

FAST_TIMERS: Mapping[str, object] = {"haSendHeartbeatInterval": 200}
"""A Java slave sends its first report only when this time has passed since it connected: 5 seconds by default."""

SETTINGS: Mapping[str, object] = {
    "mappedFileSizeCommitLog": FILE_SIZE,
    "mappedFileSizeConsumeQueue": 2_000,  # 100 units
    "maxHashSlotNum": 500,
    "maxIndexNum": 5_000,
    "registerNameServerPeriod": 10_000,  # the shortest: a slave without addresses learns them then
    "slaveTimeout": PATIENCE_MS,
    **FAST_TIMERS,
}
"""Small files, so that little load needs many; timeouts that a busy machine does not reach."""


@attrs.define(eq=False)
class Member:
    """One broker of a pair. ``kind`` is rocketpy or java; a life begins with :meth:`start`."""

    kind: str
    directory: Path
    namesrv: str
    role: str
    settings: dict[str, object] = attrs.field(factory=dict)
    port: int = attrs.field(factory=broker_port)
    _child: processes.Process | None = None  # ours, or the script that starts the Java broker
    _java_pids: list[int] = attrs.field(factory=list)

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    @property
    def store(self) -> Path:
        """The folder of its store."""
        return self.directory / f"{NAME}-store"

    @property
    def is_slave(self) -> bool:
        """Whether its next life is a slave's."""
        return self.role == "SLAVE"

    def begin(self) -> None:
        """Start a life and return at once."""
        self.directory.mkdir(parents=True, exist_ok=True)
        given = {
            **processes.broker_settings(self.directory, self.port, self.namesrv, name=NAME),
            "brokerRole": self.role,
            "brokerId": 1 if self.is_slave else 0,
            **SETTINGS,
            **self.settings,
        }
        if self.kind == "java":
            self._begin_java(given)
        else:
            assert self.kind == "rocketpy", self.kind
            self._child = processes.start_broker(self.directory, given)

    def start(self) -> None:
        """Start a life and wait until it serves."""
        self.begin()
        self.wait_serving()

    def wait_serving(self) -> None:
        """Wait until the broker of now answers, and the nameserver names it: a slave that starts later finds it."""
        if self.kind == "java":
            self._wait_java()
        self.wait(lambda: bool(self.figures()), "it does not serve")
        with Wire(self.namesrv) as wire:
            self.wait(lambda: wire.broker_addresses(NAME).get(self.broker_id) == self.address, "it is in no route")

    @property
    def broker_id(self) -> int:
        """The id that it registers."""
        return 1 if self.is_slave else 0

    def figures(self) -> dict[str, str]:
        """Return its runtime figures, none while it does not answer."""
        try:
            with Wire(self.address) as wire:
                return wire.runtime_info()
        except WireError:
            return {}

    def log_end(self) -> int:
        """Return the end of its log as it says; fails when it does not answer."""
        figures = self.figures()
        assert figures, f"{self.role} at {self.address} does not answer:\n{self.log()}"
        return int(figures["commitLogMaxOffset"])

    def is_dispatched(self) -> bool:
        """Tell whether its queues have all that its log has."""
        figures = self.figures()
        return bool(figures) and int(figures["dispatchBehindBytes"]) == 0

    def kill(self) -> None:
        """End it with SIGKILL; harmless when it has ended."""
        if self._child is not None:
            self._child.kill()
            self._child = None
        for pid in self._java_pids:
            send_signal(pid, signal.SIGKILL)
        while any(map(is_running, self._java_pids)):
            time.sleep(0.005)
        self._java_pids.clear()

    def stop(self) -> None:
        """End it in order; ours must say that it ended well."""
        child, self._child = self._child, None
        if child is not None:
            assert child.terminate() == 0, child.log()
        end_processes(self._java_pids)
        self._java_pids.clear()

    def send_signal(self, number: int) -> None:
        """Send it a signal, such as SIGSTOP."""
        for pid in [self._child.pid] if self._child is not None else self._java_pids:
            send_signal(pid, number)

    def starved_s(self) -> float:
        """Return how long a process of ours was ready to run so far and others had the processor."""
        assert self._child is not None, "a life of ours has begun"
        return self._child.starved_s()

    def log(self) -> str:
        """Return the end of what it printed in all its lives."""
        path = self.directory / ("broker-0.log" if self.kind == "java" else f"{NAME}.log")
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return "\n".join([f"--- {self.kind} {self.role}", *lines[-40:]])

    def wait(self, condition: Callable[[], bool], otherwise: str) -> None:
        """Wait for a condition; fails with ``otherwise`` when it does not come, or the broker has ended."""

        def is_so() -> bool:
            if condition():
                return True
            assert self._is_running(), f"{self.role} has ended; {otherwise}\n{self.log()}"
            return False

        wait_until(is_so, lambda: f"{self.role}: {otherwise}\n{self.log()}")

    def _is_running(self) -> bool:
        if self._child is not None:
            return self._child.is_running()
        return any(map(is_running, self._java_pids))

    def _begin_java(self, given: Mapping[str, object]) -> None:
        # Java does not start on a file that SIGKILL has caught after its creation and before it was given its size.
        for path in [*self.store.glob("commitlog/*"), *self.store.glob("consumequeue/*/*/*")]:
            if not path.stat().st_size:
                path.unlink()
        environment = {
            "PEER_HEAP_MB": "192",
            "PEER_DIRECT_MB": "256",
            "PEER_JAVA_OPTS": "-Dtls.server.mode=disabled",
            "PEER_NAMESRV": "given",
            "ROCKETPY_PEER_CACHE": str(tools.cache_directory()),
        }
        lines = [f"{name}={value}" for name, value in given.items()]
        namesrv_port = self.namesrv.rsplit(":", 1)[1]
        start = [str(tools.PEER / "cluster"), str(self.directory), namesrv_port, str(self.port), "--", *lines]
        self._child = processes.Process.start(start, self.directory / "start.log", env=environment)

    def _wait_java(self) -> None:
        assert self._child is not None, "a life has begun"
        script, self._child = self._child, None
        status = script.wait(JAVA_START_S)
        self._java_pids = [int(each) for each in (self.directory / "pids").read_text().split()]
        assert status == 0, script.log()


@attrs.define(eq=False)
class Pair:
    """A master and a slave at one nameserver."""

    master: Member
    slave: Member

    def start(self) -> None:
        """Start both, the master first: a slave that registers then gets its addresses with the answer."""
        self.master.start()
        self.slave.start()

    def wait_following(self) -> None:
        """Send a message that waits for no slave, and wait until it has arrived."""
        with Wire(self.master.address) as wire:
            response = wire.send("following", 0, b"", "WAIT\x01false\x02")
            assert response.code == SUCCESS, response
        self.wait_equal()

    def wait_equal(self) -> int:
        """Wait until the slave's log and queues are at the master's end, and return that offset."""
        end = self.master.log_end()
        self.slave.wait(lambda: self.slave.log_end() == end, f"its log does not reach {end}, where the master's ends")
        self.master.wait(self.master.is_dispatched, "its queues are behind its log")
        self.slave.wait(self.slave.is_dispatched, "its queues are behind its log")
        assert self.master.log_end() == end, "the master's log still grew"
        return end

    def logs(self) -> str:
        """Return what both printed."""
        return f"{self.master.log()}\n{self.slave.log()}"


@contextmanager
def open_pair(directory: Path, namesrv: str, kinds: tuple[str, str], role: str, **settings: object) -> Iterator[Pair]:
    """A pair of these kinds, master first, that is not started yet; whatever runs at the end is killed."""
    master = Member(kinds[0], directory / "master", namesrv, role, dict(settings))
    # A Java slave that has to learn the address first tries to connect for the second time after 5 seconds.
    known = {"haMasterAddress": f"127.0.0.1:{master.port + 1}"}
    slave = Member(kinds[1], directory / "slave", namesrv, "SLAVE", {**known, **settings})
    try:
        yield Pair(master, slave)
    finally:
        slave.kill()
        master.kill()


def assert_equal_stores(master: Path, slave: Path, end: int) -> None:
    """Compare two stores byte for byte: the log up to ``end``, and the units of every queue."""
    log = read_log(master, end)
    found = read_log(slave, end)
    different = next((i for i, (one, other) in enumerate(zip(log, found, strict=False)) if one != other), None)
    assert different is None, f"the logs differ at {different} of {end}"
    assert len(found) == len(log) == end
    assert_whole_records(log)
    units, others = queue_units(master), queue_units(slave)
    assert units.keys() == others.keys()
    for queue, content in units.items():
        assert content == others[queue], f"{queue} differs: {len(content)} and {len(others[queue])} units"
    assert units, "no queue has anything"


def read_log(store: Path, end: int) -> bytes:
    """Return the log from 0 to ``end``; fails when a file is missing."""
    content = bytearray()
    for path in sorted((store / "commitlog").iterdir()):
        if int(path.name) >= end:
            break
        assert int(path.name) == len(content), f"{path} does not follow {len(content)} bytes"
        content += path.read_bytes()
    return bytes(content[:end])


def assert_whole_records(log: bytes, file_size: int = FILE_SIZE) -> None:
    """Check that a log is made of sound records, each at its own offset, and BLANKs up to the ends of files."""
    position = 0
    while position < len(log):
        file_end = position - position % file_size + file_size
        found = check_message(log, position, min(file_end, len(log)) - position, check_crc=True)
        if found.status is RecordStatus.BLANK:
            position = file_end
            continue
        assert found.status is RecordStatus.MESSAGE, f"{found} at {position} of {len(log)}"
        position += found.size


def queue_units(store: Path) -> dict[str, list[tuple[int, int, int]]]:
    """Return the units of each queue: physical offset, size, tags code."""
    queues: dict[str, list[tuple[int, int, int]]] = {}
    base = store / "consumequeue"
    for path in sorted(base.glob("*/*/*")):
        units = [unit for unit in _UNIT.iter_unpack(path.read_bytes()) if unit[1]]
        if units:
            queues.setdefault(str(path.parent.relative_to(base)), []).extend(units)
    return queues
