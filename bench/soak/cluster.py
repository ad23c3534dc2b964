"""The brokers of a soak as processes: a master with a slave and a master without, each on its port for life."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from tests.blackbox import processes
from tests.blackbox.ports import broker_port
from tests.blackbox.wire import SUCCESS, Wire, WireError

DELAY_LEVELS = "1s 1s 1s 1s 2s 2s 2s 2s 3s 3s 3s 3s 4s 4s 4s 4s 5s 5s"
WAIT_SECONDS = 120.0
_LOOK_SECONDS = 0.02

SETTINGS = {
    "messageDelayLevel": DELAY_LEVELS,  # a message that failed comes again soon
    "transactionTimeOut": 2_000,
    "transactionCheckInterval": 1_000,
    "transactionCheckMax": 10_000,  # brokers are away for a while, and none of their questions is the last
    "registerNameServerPeriod": 10_000,
    "haSendHeartbeatInterval": 500,
    "slaveTimeout": 500,
    "slaveReadEnable": "true",
}


@attrs.define(eq=False)
class BrokerProcess:
    """One broker; a life begins with :meth:`start`."""

    title: str
    name: str
    role: str
    directory: Path
    namesrv: str
    port: int = attrs.field(factory=broker_port)
    master_ha_address: str = ""
    settings: Mapping[str, object] = attrs.field(factory=lambda: SETTINGS)
    wrap: Sequence[str] = ()
    """The command that runs it; none: it is forked from a process that has imported all it needs."""
    process: processes.Process | None = None

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    @property
    def broker_id(self) -> int:
        """The id that it registers."""
        return int(self.role == "SLAVE")

    @property
    def pid(self) -> int:
        """The process of this life."""
        assert self.process is not None, f"{self.title} runs"
        return self.process.pid

    def start(self) -> None:
        """Begin a life, and wait until the nameserver knows it."""
        self.directory.mkdir(exist_ok=True)
        settings = {
            **processes.broker_settings(self.directory, self.port, self.namesrv, name=self.name),
            **self.settings,
            "brokerRole": self.role,
            "brokerId": self.broker_id,
            **({"haMasterAddress": self.master_ha_address} if self.master_ha_address else {}),
        }
        self.process = processes.start_broker(self.directory, settings, wrap=self.wrap)
        deadline = time.monotonic() + WAIT_SECONDS
        while not self._serves():
            self.require_running()
            assert time.monotonic() < deadline, f"{self.title} does not serve:\n{self.log()}"
            time.sleep(_LOOK_SECONDS)

    def kill(self) -> None:
        """End it by SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process = None

    def stop(self) -> None:
        """End it in order; it must say that it ended well."""
        process, self.process = self.process, None
        if process is not None:
            status = process.terminate()
            assert status == 0, f"{self.title} ended with {status}:\n{self.log()}"

    def pause(self) -> None:
        """Stop it by SIGSTOP."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def require_running(self) -> None:
        """Fail if it has ended by itself."""
        if self.process is not None:
            assert self.process.is_running(), f"{self.title} has ended:\n{self.log()}"

    def log(self) -> str:
        """Return the end of what it printed in all its lives."""
        path = self.directory / f"{self.name}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-40:]) if path.exists() else ""

    def _serves(self) -> bool:
        try:
            with Wire(self.address, timeout_s=WAIT_SECONDS) as wire:
                if not wire.runtime_info():
                    return False
            with Wire(self.namesrv, timeout_s=WAIT_SECONDS) as wire:
                return wire.broker_addresses(self.name).get(self.broker_id) == self.address
        except WireError:
            return False


def brokers_of(directory: Path, namesrv: str) -> dict[str, BrokerProcess]:
    """Return the brokers of a soak, by title; none is started."""
    master = BrokerProcess("master a", "broker-a", "SYNC_MASTER", directory / "broker-a", namesrv)
    return {
        each.title: each
        for each in (
            master,
            BrokerProcess(
                "slave of a",
                "broker-a",
                "SLAVE",
                directory / "broker-a-slave",
                namesrv,
                master_ha_address=f"127.0.0.1:{master.port + 1}",
            ),
            BrokerProcess("master b", "broker-b", "ASYNC_MASTER", directory / "broker-b", namesrv),
        )
    }


def create_topics(brokers: dict[str, BrokerProcess], namesrv: str, topics: list[str], queues: int) -> None:
    """Create topics at the masters, and wait for their routes."""
    masters = [each for each in brokers.values() if not each.broker_id]
    for each in masters:
        with Wire(each.address) as wire:
            for topic in topics:
                response = wire.create_topic(topic, queues)
                assert response.code == SUCCESS, response
    deadline = time.monotonic() + WAIT_SECONDS
    with Wire(namesrv) as wire:
        for topic in topics:
            while wire.brokers_of(topic) != {each.name for each in masters}:
                assert time.monotonic() < deadline, f"no route to {topic}"
                time.sleep(_LOOK_SECONDS)
