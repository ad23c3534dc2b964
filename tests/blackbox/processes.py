"""Real processes on loopback: ports, rocketpy's nameserver and broker, waiting until they serve, ending them by pid."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from tests.blackbox.wire import Wire, WireError

REPOSITORY = Path(__file__).resolve().parents[2]
# No measure of how fast anything is: an idle machine needs a hundredth, a slow and busy one may need half.
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 90.0
REFUSAL_TIMEOUT_S = 120.0


def free_ports(count: int) -> int:
    """Return the first of ``count`` consecutive ports that are free on loopback now.

    Below the range that the kernel gives to outgoing connections, so that none of our own clients takes one meanwhile.
    """
    chance = random.Random(f"{os.getpid()} {time.monotonic_ns()}")
    for _ in range(200):
        first = chance.randrange(12_000, 32_000 - count)
        if all(map(is_free, range(first, first + count))):
            return first
    raise RuntimeError(f"no {count} consecutive free ports")


def broker_port() -> int:
    """Return a port for a broker that is free now, nor the two below it nor the one above it.

    The broker also listens two below its port; the one above is for replication.
    """
    return free_ports(4) + 2


def is_free(port: int) -> bool:
    """Return whether the port is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextmanager
def port_in_use() -> Iterator[int]:
    """Listen on a port for as long as the block lasts."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        yield listener.getsockname()[1]


NEVER_BUSY: Mapping[str, object] = {
    "waitTimeMillsInSendQueue": 60_000,
    "osPageCacheBusyTimeOutMills": 60_000,
    "syncFlushTimeout": 60_000,
}
"""A broker refuses sends, or reports a timeout, when the machine keeps it waiting: not what these tests are about."""


@attrs.define(eq=False)
class Process:
    """A child of ours whose output goes to a file."""

    popen: subprocess.Popen[bytes]
    log_path: Path

    @classmethod
    def start(
        cls, command: Sequence[str], log_path: Path, *, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Process:
        """Start ``command``; what it prints is appended to ``log_path``."""
        with log_path.open("ab") as log:
            popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=None if env is None else {**os.environ, **env},
            )
        return cls(popen, log_path)

    @property
    def pid(self) -> int:
        """The process id."""
        return self.popen.pid

    def log(self) -> str:
        """Return what it has printed."""
        return self.log_path.read_text(errors="replace")

    def is_running(self) -> bool:
        """Tell whether it has not ended."""
        return self.popen.poll() is None

    def starved_s(self) -> float:
        """Return how long it was ready to run so far and others had the processor; 0 where the kernel does not say."""
        try:
            return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[1]) / 1e9
        except FileNotFoundError:
            return 0.0

    def wait(self, timeout_s: float) -> int:
        """Return its exit status; kills it and fails when it does not end in time."""
        try:
            return self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {timeout_s} s:\n{self.log()}") from None

    def terminate(self) -> int:
        """Ask it to stop and return its exit status."""
        if self.is_running():
            self.popen.send_signal(signal.SIGTERM)
        return self.wait(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """End it at once with SIGKILL."""
        self.popen.kill()
        self.popen.wait()


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command line of ``python -m MODULE``."""
    return [sys.executable, "-m", module, *arguments]


def write_config(path: Path, settings: Mapping[str, object]) -> Path:
    """Write a properties file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


def broker_settings(directory: Path, port: int, namesrv: str, *, name: str = "broker-0") -> dict[str, object]:
    """Return the settings of a master on loopback with its store in ``directory/NAME-store`` and small files."""
    store = directory / f"{name}-store"
    return {
        "brokerClusterName": "DefaultCluster",
        "brokerName": name,
        "brokerId": 0,
        "brokerRole": "ASYNC_MASTER",
        "flushDiskType": "ASYNC_FLUSH",
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "bindAddress": "127.0.0.1",
        "listenPort": port,
        "haListenPort": port + 1,
        "namesrvAddr": namesrv,
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
        "mappedFileSizeCommitLog": 16 << 20,
        "maxHashSlotNum": 50_000,
        "maxIndexNum": 200_000,
        "enablePropertyFilter": "true",
        "autoCreateTopicEnable": "true",
        **NEVER_BUSY,
    }


def start_nameserver(directory: Path, port: int, settings: Mapping[str, object] | None = None) -> Process:
    """Start ``python -m rocketpy.nameserver`` with more ``settings``, and wait until it listens."""
    directory.mkdir(parents=True, exist_ok=True)
    config = write_config(
        directory / "namesrv.conf",
        {
            "listenPort": port,
            "bindAddress": "127.0.0.1",
            "kvConfigPath": directory / "kvConfig.json",
            "configStorePath": directory / "namesrv.properties",
            **(settings or {}),
        },
    )
    process = Process.start(
        python_command("rocketpy.nameserver", "-c", str(config)), directory / "namesrv.log", cwd=directory
    )
    _await([process], lambda: _answers(f"127.0.0.1:{port}"), "nameserver")
    return process


def start_broker(directory: Path, settings: Mapping[str, object], *, wrap: Sequence[str] = ()) -> Process:
    """Start ``python -m rocketpy.broker -c FILE`` without waiting; ``wrap`` is a command that runs it."""
    name = str(settings["brokerName"])
    config = write_config(directory / f"{name}.conf", settings)
    command = [*wrap, *python_command("rocketpy.broker", "-c", str(config))]
    return Process.start(command, directory / f"{name}.log", cwd=directory)


def await_brokers(
    namesrv: str, names: set[str], children: Sequence[Process], timeout_s: float = START_TIMEOUT_S
) -> None:
    """Wait until the nameserver has a route to each broker: from then on clients can send to it."""
    _await(children, lambda: _routes(namesrv) >= names, f"brokers {sorted(names)}", timeout_s)


def await_any_broker(namesrv: str, children: Sequence[Process]) -> None:
    """Wait until the nameserver has a route to some broker."""
    _await(children, lambda: bool(_routes(namesrv)), "a broker")


def _routes(namesrv: str) -> set[str]:
    try:
        with Wire(namesrv, timeout_s=2.0) as wire:
            return wire.brokers_of("TBW102")
    except WireError:
        return set()


def _answers(address: str) -> bool:
    try:
        Wire(address, timeout_s=2.0).close()
    except WireError:
        return False
    return True


def _await(
    children: Sequence[Process], condition: Callable[[], bool], what: str, timeout_s: float = START_TIMEOUT_S
) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        for child in children:
            if not child.is_running():
                raise AssertionError(f"{what}: ended with status {child.popen.returncode}:\n{child.log()}")
        if time.monotonic() > deadline:
            logs = "\n".join(child.log() for child in children)
            raise AssertionError(f"{what}: not there after {timeout_s} s:\n{logs}")
        time.sleep(0.02)
