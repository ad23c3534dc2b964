"""Real processes on loopback: rocketpy's nameserver and broker, waiting until they serve, ending them by pid."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from tests.blackbox.forked import Forked
from tests.blackbox.ports import free_ports
from tests.blackbox.wire import Wire, WireError
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS, starved_s, wait_until

REPOSITORY = Path(__file__).resolve().parents[2]

NEVER_BUSY: Mapping[str, object] = {
    "waitTimeMillsInSendQueue": PATIENCE_MS,
    "osPageCacheBusyTimeOutMills": PATIENCE_MS,
    "syncFlushTimeout": PATIENCE_MS,
}
"""A broker refuses sends, or reports a timeout, when the machine keeps it waiting: not what these tests are about."""


@attrs.define(eq=False)
class Process:
    """A child of ours whose output goes to a file."""

    popen: subprocess.Popen[bytes] | Forked
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
        """Return how long it was ready to run so far and others had the processor: its first thread."""
        return starved_s(self.pid)

    def wait(self, timeout_s: float = PATIENCE_SECONDS) -> int:
        """Return its exit status; kills it and fails when it does not end."""
        try:
            return self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {timeout_s} s:\n{self.log()}") from None

    def terminate(self) -> int:
        """Ask it to stop and return its exit status."""
        if self.is_running():
            self.popen.send_signal(signal.SIGTERM)
        return self.wait()

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


def start_nameserver(
    directory: Path, port: int, settings: Mapping[str, object] | None = None, *, wrap: Sequence[str] = ()
) -> Process:
    """Start ``python -m rocketpy.nameserver``, as :func:`start_broker`, and wait until it listens."""
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
    process = _start("rocketpy.nameserver", config, directory / "namesrv.log", wrap)
    _await([process], lambda: _answers(f"127.0.0.1:{port}"), "nameserver")
    return process


@contextmanager
def running_nameserver(directory: Path) -> Iterator[str]:
    """A nameserver for the block, by its address; it must end in order."""
    port = free_ports(1)
    process = start_nameserver(directory, port)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        status = process.terminate()
    assert status == 0, process.log()


def start_broker(directory: Path, settings: Mapping[str, object], *, wrap: Sequence[str] = ()) -> Process:
    """Start ``python -m rocketpy.broker -c FILE`` without waiting: forked, unless ``wrap`` is a command to run it."""
    name = str(settings["brokerName"])
    config = write_config(directory / f"{name}.conf", settings)
    return _start("rocketpy.broker", config, directory / f"{name}.log", wrap)


def _start(module: str, config: Path, log_path: Path, wrap: Sequence[str]) -> Process:
    arguments = ("-c", str(config))
    if wrap:
        return Process.start([*wrap, *python_command(module, *arguments)], log_path, cwd=log_path.parent)
    return Process(Forked(f"{module}.__main__", arguments, log_path), log_path)


def await_brokers(namesrv: str, names: set[str], children: Sequence[Process]) -> None:
    """Wait until the nameserver has a route to each broker: from then on clients can send to it."""
    _await(children, lambda: _routes(namesrv) >= names, f"brokers {sorted(names)}")


def await_any_broker(namesrv: str, children: Sequence[Process]) -> None:
    """Wait until the nameserver has a route to some broker."""
    _await(children, lambda: bool(_routes(namesrv)), "a broker")


def _routes(namesrv: str) -> set[str]:
    try:
        with Wire(namesrv) as wire:
            return wire.brokers_of("TBW102")
    except WireError:
        return set()


def _answers(address: str) -> bool:
    try:
        Wire(address).close()
    except WireError:
        return False
    return True


def _await(children: Sequence[Process], condition: Callable[[], bool], what: str) -> None:
    def is_so() -> bool:
        if condition():
            return True
        for child in children:
            if not child.is_running():
                raise AssertionError(f"{what}: ended with status {child.popen.returncode}:\n{child.log()}")
        return False

    wait_until(is_so, lambda: "\n".join([f"{what}: not there", *(child.log() for child in children)]))
