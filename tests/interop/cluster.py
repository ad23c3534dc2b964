"""The cluster under test: rocketpy's processes, or the Java peer's, with one interface."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from tests import costs
from tests.blackbox import processes
from tests.blackbox.ports import free_ports
from tests.blackbox.wire import SUCCESS, Wire
from tests.interop import tools
from tests.interop.clients import Received
from tests.patience import PATIENCE_SECONDS, wait_until

JAVA_START_S = 4 * PATIENCE_SECONDS  # longer than the script waits, for each JVM one after the other


@attrs.define(eq=False)
class Cluster:
    """A nameserver and its brokers by name."""

    kind: str
    namesrv: str
    brokers: Mapping[str, str]
    directory: Path
    children: list[processes.Process] = attrs.field(factory=list)
    pids: list[int] = attrs.field(factory=list)

    def create_topic(self, topic: str, queues: int = 4) -> str:
        """Create the topic at every broker, wait for its route and return its name."""
        for address in self.brokers.values():
            with Wire(address) as wire:
                response = wire.create_topic(topic, queues)
                assert response.code == SUCCESS, response
        self.wait_route(topic)
        return topic

    def wait_route(self, topic: str) -> None:
        """Wait until the nameserver knows the topic at every broker: a client looks again after half a minute only."""
        with Wire(self.namesrv) as wire:
            wait_until(lambda: wire.brokers_of(topic) == set(self.brokers), lambda: f"no route to {topic}")

    def wait_producer(self, group: str) -> None:
        """Wait until every broker has had a heartbeat of a producer of the group."""
        for address in self.brokers.values():
            with Wire(address) as wire:
                wait_until(lambda wire=wire: wire.has_producer(group), lambda: f"no producer of {group}")

    def wait_committed(self, topic: str, group: str, messages: Sequence[Received]) -> list[Received]:
        """Return those messages, of a client that has ended, that its group will get again.

        A client that ends commits what it knows of. What its listener has just returned from it may not know
        yet, and the commit itself has no answer. But it is sent before the client leaves its group, or its connection
        ends, so what the broker has when the group is gone is all that there will be.
        """
        (address,) = self.brokers.values()
        with Wire(address) as wire:
            wait_until(lambda: not wire.has_consumer(group), lambda: f"{group} does not leave")
            offsets = {each.queue_id: wire.consumer_offset(topic, group, each.queue_id) for each in messages}
        return [each for each in messages if each.queue_offset >= offsets[each.queue_id]]

    def store_path(self, broker: str) -> Path:
        """Return the folder of a broker's store."""
        return self.directory / f"{broker}-store"

    def logs(self) -> str:
        """Return the last lines that each process printed."""
        found = sorted(self.directory.glob("*.log"))
        return "\n".join(
            f"--- {each.name}\n" + "\n".join(each.read_text(errors="replace").splitlines()[-40:]) for each in found
        )

    def stop(self) -> list[int]:
        """End every process, brokers first, and return the exit statuses of those that are our children.

        Java's are killed: in order each takes eight seconds, see :meth:`stop_brokers`.
        """
        try:
            return [child.terminate() for child in reversed(self.children)]
        finally:
            self.kill()  # also those after one that would not end

    def stop_brokers(self) -> None:
        """End the brokers, in order; the nameserver stays."""
        if self.kind == "java":
            end_processes(self.pids[: len(self.brokers)])
        else:
            for child in self.children[-len(self.brokers) :]:
                child.terminate()

    def kill(self) -> None:
        """End every process with SIGKILL and wait until they are gone."""
        for child in reversed(self.children):
            child.kill()
        self.children.clear()
        for pid in self.pids:
            send_signal(pid, signal.SIGKILL)
        while any(map(is_running, self.pids)):
            time.sleep(0.01)
        self.pids.clear()


def end_processes(pids: list[int]) -> None:
    """Ask processes that are not our children to end, and make those end that have not after a generous time."""
    for pid in pids:
        send_signal(pid, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE_SECONDS
    for pid in pids:
        while is_running(pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        send_signal(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Return whether a process runs: orphans whose status is never collected remain, but do not run."""
    try:
        is_waited_for = " Z " in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        is_waited_for = False
    return not is_waited_for and send_signal(pid, 0)


def send_signal(pid: int, number: int) -> bool:
    """Send a signal; return whether there is such a process."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def start_cluster(
    kind: str,
    directory: Path,
    brokers: int = 1,
    settings: Mapping[str, object] | None = None,
    *,
    namesrv_kind: str | None = None,
) -> Cluster:
    """Start a nameserver and masters ``broker-0``, ...; they take sends on return.

    ``kind`` is rocketpy or java; the nameserver is of the same unless ``namesrv_kind`` says otherwise.
    """
    directory.mkdir(parents=True, exist_ok=True)
    first = free_ports(1 + 4 * brokers)
    # A Java broker also takes the port two below its own, and the one above.
    ports = [first + 3 + 4 * index for index in range(brokers)]
    addresses = {f"broker-{index}": f"127.0.0.1:{port}" for index, port in enumerate(ports)}
    cluster = Cluster(kind, f"127.0.0.1:{first}", addresses, directory)
    try:
        with costs.built(f"cluster of {kind} brokers"):
            _start(cluster, namesrv_kind or kind, settings or {})
    except BaseException:
        cluster.stop()
        raise
    return cluster


def _start(cluster: Cluster, namesrv_kind: str, settings: Mapping[str, object]) -> None:
    namesrv_port = int(cluster.namesrv.rpartition(":")[2])
    ports = [int(address.rpartition(":")[2]) for address in cluster.brokers.values()]
    if namesrv_kind == "rocketpy":
        cluster.children.append(processes.start_nameserver(cluster.directory, namesrv_port))
    else:
        _start_java(cluster, namesrv_port, [], settings, with_namesrv=True)
    if cluster.kind == "java":
        _start_java(cluster, namesrv_port, ports, settings, with_namesrv=False)
    else:
        assert cluster.kind == "rocketpy", cluster.kind
        for name, port in zip(cluster.brokers, ports, strict=True):
            own = processes.broker_settings(cluster.directory, port, cluster.namesrv, name=name)
            cluster.children.append(processes.start_broker(cluster.directory, own | dict(settings)))
    processes.await_brokers(cluster.namesrv, set(cluster.brokers), cluster.children)


def _start_java(
    cluster: Cluster, namesrv_port: int, ports: list[int], settings: Mapping[str, object], *, with_namesrv: bool
) -> None:
    environment = {
        **os.environ,
        "PEER_HEAP_MB": "256",
        "PEER_DIRECT_MB": "512",
        # What makes a certificate takes two seconds of each start.
        "PEER_JAVA_OPTS": f"-Dtls.server.mode={settings.get('tls.server.mode', 'disabled')}",
        "PEER_NAMESRV": "" if with_namesrv else "given",
        "ROCKETPY_PEER_CACHE": str(tools.cache_directory()),
    }
    lines = [f"{name}={value}" for name, value in {**processes.NEVER_BUSY, **settings}.items()]
    start = [str(tools.PEER / "cluster"), str(cluster.directory), str(namesrv_port), *map(str, ports), "--", *lines]
    pids = cluster.directory / "pids"
    try:
        subprocess.run(
            start,
            env=environment,
            check=True,
            timeout=JAVA_START_S,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    finally:
        if pids.exists():
            cluster.pids[:0] = [int(each) for each in reversed(pids.read_text().split())]
