"""A broker without file descriptors: it refuses what needs one, lives, and works again when there are some.

Any client may open connections and send nothing. They take descriptors, which the store needs for its files.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import attrs
import pytest

from tests.blackbox import processes
from tests.blackbox.ports import free_ports
from tests.blackbox.processes import Process
from tests.blackbox.wire import SERVICE_NOT_AVAILABLE, SUCCESS, Wire
from tests.patience import wait_until

pytestmark = pytest.mark.blackbox

DESCRIPTORS = 256
IDLE_CONNECTIONS = 300


@attrs.frozen
class PoorBroker:
    """A running broker that may open 256 files."""

    process: Process
    address: str
    directory: Path

    def has_flushed(self, wire: Wire) -> bool:
        """Return whether a flush has made all durable that is in the log."""
        return wire.runtime_info()["remainHowManyDataToFlush"].startswith("0")

    def has_tried_tables(self, topic: str) -> bool:
        """Return whether the table of topics was written with this one, or could not be."""
        topics = self.directory / "broker-0-store" / "config" / "topics.json"
        met = [line for line in self.process.log().splitlines() if "no file descriptor" in line and "/config" in line]
        return bool(met) or (topics.exists() and f'"{topic}"' in topics.read_text())


@pytest.fixture
def poor_broker(tmp_path: Path) -> Iterator[PoorBroker]:
    first = free_ports(6)
    nameserver = processes.start_nameserver(tmp_path / "nameserver", first)
    settings = processes.broker_settings(tmp_path, first + 4, f"127.0.0.1:{first}")
    wrap = ["sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "sh"]
    broker = processes.start_broker(tmp_path, settings, wrap=wrap)
    try:
        processes.await_brokers(f"127.0.0.1:{first}", {"broker-0"}, [broker, nameserver])
        yield PoorBroker(broker, f"127.0.0.1:{first + 4}", tmp_path)
    finally:
        statuses = broker.terminate(), nameserver.terminate()
    assert statuses == (0, 0), broker.log()


def idle_connections(stack: ExitStack, address: str, count: int) -> None:
    """Open connections that say nothing; the broker may close some of them, or leave them unanswered."""
    host, port = address.rsplit(":", 1)
    for _ in range(count):
        idle = stack.enter_context(socket.socket())
        idle.setblocking(False)
        idle.connect_ex((host, int(port)))


def test_idle_connections_do_not_end_a_broker_with_few_descriptors(poor_broker: PoorBroker) -> None:
    with Wire(poor_broker.address) as wire, ExitStack() as stack:
        assert wire.send("Before", 0, b"before").code == SUCCESS
        idle_connections(stack, poor_broker.address, IDLE_CONNECTIONS)
        for number in range(20):
            response = wire.send(f"New{number}", 0, b"new")
            if response.code != SUCCESS:
                assert response.code == SERVICE_NOT_AVAILABLE, response
                assert "no file descriptor is left" in response.remark
        wait_until(lambda: poor_broker.has_flushed(wire) and poor_broker.has_tried_tables("New19"))
        assert wire.send("Before", 0, b"during").code == SUCCESS
        assert poor_broker.process.is_running()
        stack.close()
        for number in range(20):
            wire.send_until_stored(f"New{number}", b"after")
        assert [each.body for each in wire.pull_all("Before", 0, 0, 2)] == [b"before", b"during"]
    assert "Traceback" not in poor_broker.process.log()
