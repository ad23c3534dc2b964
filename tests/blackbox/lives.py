"""Broker processes that run one after the other on one store, and end as requested."""

from __future__ import annotations

import contextlib
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import attrs

from tests.blackbox import processes
from tests.blackbox.wire import Wire, WireError
from tests.interop.cluster import Cluster, start_cluster

_POLL_S = 0.001
_NO_NAMESERVER = "127.0.0.1:9"


class Lives(Protocol):
    """The broker of now and its store."""

    @property
    def store(self) -> Path:
        """The store's folder."""
        ...

    def live(self, settings: Mapping[str, object]) -> str:
        """Start a broker, wait until it serves and return its address."""
        ...

    def kill(self) -> None:
        """End it with SIGKILL; harmless when it has ended."""
        ...

    def stop(self) -> int:
        """End it in order and return its exit status."""
        ...


@attrs.define(eq=False)
class OurLives:
    """rocketpy's broker, alone: without a nameserver a life begins sooner."""

    directory: Path
    _process: processes.Process | None = None
    _address: str = ""

    @property
    def store(self) -> Path:
        """The store's folder."""
        return self.directory / "broker-0-store"

    @property
    def process(self) -> processes.Process:
        """The process of now."""
        assert self._process is not None, "a life has begun"
        return self._process

    def begin(self, settings: Mapping[str, object]) -> None:
        """Start a broker and return at once."""
        port = processes.broker_port()
        self._address = f"127.0.0.1:{port}"
        given = {**processes.broker_settings(self.directory, port, _NO_NAMESERVER), **settings}
        self._process = processes.start_broker(self.directory, given)

    def live(self, settings: Mapping[str, object]) -> str:
        """Start a broker and wait for its first answer."""
        self.begin(settings)
        deadline = time.monotonic() + processes.START_TIMEOUT_S
        while time.monotonic() < deadline:
            assert self.process.is_running(), self.process.log()
            with contextlib.suppress(WireError), Wire(self._address, timeout_s=processes.START_TIMEOUT_S) as wire:
                wire.topic_table()
                return self._address
            time.sleep(_POLL_S)
        raise AssertionError(f"it does not serve:\n{self.process.log()}")

    def await_opening(self) -> None:
        """Wait until the broker of now opens its store: that is when it locks it, right before recovery."""
        lock = self.store / "lock"
        before = self._written_ns(lock)
        deadline = time.monotonic() + processes.START_TIMEOUT_S
        while self._written_ns(lock) == before:
            assert self.process.is_running(), self.process.log()
            assert time.monotonic() < deadline, self.process.log()
            time.sleep(_POLL_S)

    def terminate(self) -> None:
        """Ask the broker of now to stop, and return at once."""
        self.process.popen.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it with SIGKILL; harmless when it has ended."""
        if self._process is not None:
            self._process.kill()

    def stop(self) -> int:
        """End it in order and return its exit status."""
        return self.process.terminate()

    @staticmethod
    def _written_ns(path: Path) -> int:
        return path.stat().st_mtime_ns if path.exists() else 0


@attrs.define(eq=False)
class JavaLives:
    """The Java broker and its nameserver, to tell a fault of ours from one of the test."""

    directory: Path
    _cluster: Cluster | None = None

    @property
    def store(self) -> Path:
        """The store's folder."""
        return self.directory / "broker-0-store"

    def live(self, settings: Mapping[str, object]) -> str:
        """Start both."""
        self._cluster = start_cluster("java", self.directory, 1, settings)
        return self._cluster.brokers["broker-0"]

    def kill(self) -> None:
        """End both with SIGKILL."""
        if self._cluster is not None:
            self._cluster.kill()

    def stop(self) -> int:
        """End both in order."""
        assert self._cluster is not None, "a life has begun"
        return max(self._cluster.stop(), default=0)


def remove_folders(store: Path, names: tuple[str, ...]) -> None:
    """Delete folders of a store, as an operator does who wants them made again."""
    for name in names:
        shutil.rmtree(store / name)
