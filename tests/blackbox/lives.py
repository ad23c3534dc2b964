"""Broker processes that run one after the other on one store, and end as requested."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import attrs

from tests.blackbox import processes
from tests.blackbox.ports import broker_port
from tests.blackbox.wire import Wire, WireError
from tests.interop.cluster import Cluster, start_cluster
from tests.patience import wait_until

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
        port = broker_port()
        self._address = f"127.0.0.1:{port}"
        given = {**processes.broker_settings(self.directory, port, _NO_NAMESERVER), **settings}
        self._process = processes.start_broker(self.directory, given)

    def live(self, settings: Mapping[str, object]) -> str:
        """Start a broker and wait for its first answer."""
        self.begin(settings)
        wait_until(self._serves, lambda: f"it does not serve:\n{self.process.log()}")
        return self._address

    def await_opening(self) -> None:
        """Wait until the broker of now opens its store: that is when it locks it, right before recovery."""
        lock = self.store / "lock"
        before = self._written_ns(lock)

        def is_opening() -> bool:
            assert self.process.is_running(), self.process.log()
            return self._written_ns(lock) != before

        wait_until(is_opening, self.process.log)

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

    def _serves(self) -> bool:
        assert self.process.is_running(), self.process.log()
        try:
            with Wire(self._address) as wire:
                wire.topic_table()
        except WireError:
            return False
        return True

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
        self._cluster.stop_brokers()
        return max(self._cluster.stop(), default=0)


def remove_folders(store: Path, names: tuple[str, ...]) -> None:
    """Delete folders of a store, as an operator does who wants them made again."""
    for name in names:
        shutil.rmtree(store / name)
