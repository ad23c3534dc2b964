"""``--groups N`` as real processes: what they serve, how they end together, and what ends a start.

The nameserver's port is moved before the module is imported, as in ``test_main.py``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.blackbox.ports import free_ports, is_free, port_in_use
from tests.blackbox.processes import NEVER_BUSY, REPOSITORY, Process
from tests.blackbox.wire import Wire
from tests.patience import PATIENCE_SECONDS

MOVED = (
    "import sys, rocketpy.broker.start_settings as s; s.NAMESRV_PORT = int(sys.argv.pop(1));"
    "from rocketpy.broker.__main__ import main; sys.exit(main())"
)
STEP = 10


class Groups:
    """Two brokers under one parent."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.directory = directory
        self.namesrv_port = free_ports(40)
        self.port = self.namesrv_port + 4
        self.ready_path = directory / "ready.json"
        command = [sys.executable, "-c", MOVED, str(self.namesrv_port), "--groups", "2", *arguments]
        command += ["--ready-file", str(self.ready_path)]
        environment = {"PYTHONPATH": str(REPOSITORY), "NAMESRV_ADDR": ""}
        self.parent = Process.start(command, directory / "groups.log", cwd=directory, env=environment)

    def wait_ready(self) -> dict[str, Any]:
        wait_for(lambda: self.ready_path.exists() or not self.parent.is_running(), self.parent.log)
        assert self.parent.is_running(), self.parent.log()
        content: dict[str, Any] = json.loads(self.ready_path.read_text())
        return content

    def aborts(self) -> list[Path]:
        return sorted(self.directory.glob("store/*/abort"))


def wait_for(condition: Callable[[], bool], log: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, log()
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    """Whether a process has ended; it may wait for its new parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except FileNotFoundError:
        return True


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Groups]]:
    started: list[Groups] = []

    def make(*arguments: str) -> Groups:
        (tmp_path / "b.conf").touch()
        started.append(Groups(tmp_path, *arguments))
        return started[-1]

    yield make
    for groups in started:
        if groups.parent.is_running():
            groups.parent.kill()


def run(directory: Path, namesrv_port: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "NAMESRV_ADDR": ""}
    command = [sys.executable, "-c", MOVED, str(namesrv_port), "--groups", "2", *arguments]
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )


def test_each_group_is_a_process_and_all_end_in_order_with_ctrl_c(start: Callable[..., Groups]) -> None:
    groups = start("--port", "0")
    ready = groups.wait_ready()
    brokers = ready["brokers"]
    namesrv_addr = f"127.0.0.1:{groups.namesrv_port}"
    assert (ready["role"], ready["namesrvAddr"]) == ("cluster", namesrv_addr)
    assert [each["brokerName"] for each in brokers] == ["broker-a", "broker-b"]
    assert len({ready["pid"], *(each["pid"] for each in brokers)}) == 3
    with Wire(namesrv_addr) as wire:
        assert wire.brokers_of("TBW102") == {"broker-a", "broker-b"}
    for each in brokers:
        with Wire(each["brokerAddr"]) as wire:
            assert wire.send("hello", 0, b"one").code == 0
    log = groups.parent.log()
    assert all(f"  {each['brokerAddr']}" in log and f"  {each['pid']}  " in log for each in brokers), log
    assert len(groups.aborts()) == 2
    # A terminal sends Ctrl-C to the brokers, too: they leave it to their parent.
    for pid in [*(each["pid"] for each in brokers), ready["pid"]]:
        os.kill(pid, signal.SIGINT)
    assert groups.parent.wait(PATIENCE_SECONDS) == 0, groups.parent.log()
    assert groups.aborts() == []
    assert sorted(path.name for path in (groups.directory / "store").iterdir()) == ["broker-a", "broker-b"]
    assert all(is_gone(each["pid"]) for each in brokers)
    assert not groups.ready_path.exists()


def test_a_broker_that_dies_takes_the_others_down(start: Callable[..., Groups]) -> None:
    groups = start("--port", "0")
    victim, other = groups.wait_ready()["brokers"]
    os.kill(victim["pid"], signal.SIGKILL)
    assert groups.parent.wait(PATIENCE_SECONDS) == 1, groups.parent.log()
    sentence = f"broker-a, process {victim['pid']}, has ended with signal 9, SIGKILL; the other brokers are stopped"
    assert groups.parent.log().splitlines()[-1] == sentence
    assert [path.parent.name for path in groups.aborts()] == ["broker-a"], "the other one has shut down in order"
    assert is_gone(other["pid"])


def test_a_broker_that_is_stopped_alone_takes_the_others_down(start: Callable[..., Groups]) -> None:
    groups = start("--port", "0")
    _, stopped = groups.wait_ready()["brokers"]
    os.kill(stopped["pid"], signal.SIGTERM)
    assert groups.parent.wait(PATIENCE_SECONDS) == 1, groups.parent.log()
    sentence = f"broker-b, process {stopped['pid']}, has ended with exit status 0; the other brokers are stopped"
    assert groups.parent.log().splitlines()[-1] == sentence
    assert groups.aborts() == []


def test_a_second_signal_kills_what_still_runs(start: Callable[..., Groups]) -> None:
    groups = start("--port", "0")
    paused, other = groups.wait_ready()["brokers"]
    os.kill(paused["pid"], signal.SIGSTOP)
    groups.parent.popen.send_signal(signal.SIGTERM)
    wait_for(lambda: is_gone(other["pid"]), groups.parent.log)
    assert groups.parent.is_running(), "it waits for the one that does not answer"
    groups.parent.popen.send_signal(signal.SIGTERM)
    assert groups.parent.wait(PATIENCE_SECONDS) == 1, groups.parent.log()
    wait_for(lambda: is_gone(paused["pid"]), groups.parent.log)
    assert [path.parent.name for path in groups.aborts()] == ["broker-a"]
    assert "exiting without a clean shutdown, second signal" in groups.parent.log()


def test_brokers_end_in_order_when_their_parent_is_killed(start: Callable[..., Groups]) -> None:
    groups = start("--port", "0")
    brokers = groups.wait_ready()["brokers"]
    groups.parent.kill()
    wait_for(lambda: all(is_gone(each["pid"]) for each in brokers), groups.parent.log)
    assert groups.aborts() == []


def test_a_file_is_shared_but_for_what_must_differ(start: Callable[..., Groups], tmp_path: Path) -> None:
    settings = {"brokerClusterName": "mine", "storePathRootDir": "store", "brokerIP1": "127.0.0.1", **NEVER_BUSY}
    settings |= {"bindAddress": "127.0.0.1", "brokerIP2": "127.0.0.1", "mappedFileSizeCommitLog": 1 << 20}
    settings |= {"storePathCommitLog": "log", "maxHashSlotNum": 1000, "maxIndexNum": 4000, "logDirectory": "logs"}
    (tmp_path / "b.conf").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    port = free_ports(40) + 4
    groups = start("-c", "b.conf", "--port", str(port))
    brokers = groups.wait_ready()["brokers"]
    assert [each["listenPort"] for each in brokers] == [port, port + STEP]
    assert {each["brokerClusterName"] for each in brokers} == {"mine"}
    assert [each["storePathRootDir"] for each in brokers] == [str(tmp_path / "store" / f"broker-{x}") for x in "ab"]
    for each in brokers:
        with Wire(each["brokerAddr"]) as wire:
            assert wire.send("hello", 0, b"one").code == 0
    assert {path.parent.name for path in (tmp_path / "log").glob("broker-?/*")} == {"broker-a", "broker-b"}
    assert (tmp_path / "logs" / "broker-b_0" / "broker.log").exists()
    assert groups.parent.terminate() == 0, groups.parent.log()
    assert groups.aborts() == []
    assert all(map(is_free, [port, port + STEP]))


def test_a_port_in_use_is_one_sentence_and_status_2(tmp_path: Path) -> None:
    with port_in_use() as port:
        ended = run(tmp_path, free_ports(1), "--port", str(port - STEP), "-n", "127.0.0.1:1")
    assert ended.returncode == 2, ended.stderr
    lines = [line for line in ended.stderr.splitlines() if " INFO " not in line and " WARN" not in line]
    assert lines == [f"broker-b: cannot listen on 127.0.0.1, port {port}: another process uses it"]
    assert list(tmp_path.glob("store/*/abort")) == []


def test_a_nameserver_port_in_use_is_one_sentence_and_status_2(tmp_path: Path) -> None:
    with port_in_use() as port:
        ended = run(tmp_path, port, "--port", "0")
    assert ended.returncode == 2
    assert ended.stderr == f"cannot listen on 127.0.0.1, port {port}: another process uses it\n"
    assert not (tmp_path / "store").exists()
