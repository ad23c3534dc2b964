"""``--groups N`` as real processes: what they serve, how they end together, and what ends a start."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.blackbox.ports import free_ports, is_free, port_in_use
from tests.blackbox.processes import NEVER_BUSY
from tests.blackbox.wire import Wire
from tests.broker.broker_processes import run_broker, start_broker, wait_ready_file
from tests.patience import PATIENCE_SECONDS, wait_until

STEP = 10


class Groups:
    """Two brokers under one parent."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.directory = directory
        self.namesrv_port = free_ports(40)
        self.port = self.namesrv_port + 4
        self.ready_path = directory / "ready.json"
        options = ("--groups", "2", *arguments, "--ready-file", str(self.ready_path))
        self.parent = start_broker(directory, *options, namesrv_port=self.namesrv_port)

    def wait_ready(self) -> dict[str, Any]:
        return wait_ready_file(self.parent, self.ready_path)

    def aborts(self) -> list[Path]:
        return sorted(self.directory.glob("store/*/abort"))


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


@pytest.mark.parametrize(
    ("number", "end", "left_open"),
    [(signal.SIGKILL, "signal 9, SIGKILL", ["broker-a"]), (signal.SIGTERM, "exit status 0", [])],
    ids=["dies", "is stopped alone"],
)
def test_a_broker_that_ends_takes_the_others_down_in_order(
    start: Callable[..., Groups], number: signal.Signals, end: str, left_open: list[str]
) -> None:
    groups = start("--port", "0")
    ended, other = groups.wait_ready()["brokers"]
    os.kill(ended["pid"], number)
    assert groups.parent.wait(PATIENCE_SECONDS) == 1, groups.parent.log()
    sentence = f"broker-a, process {ended['pid']}, has ended with {end}; the other brokers are stopped"
    assert groups.parent.log().splitlines()[-1] == sentence
    assert [path.parent.name for path in groups.aborts()] == left_open
    assert is_gone(other["pid"])


def test_a_second_signal_kills_what_still_runs(start: Callable[..., Groups]) -> None:
    groups = start("--port", "0")
    paused, other = groups.wait_ready()["brokers"]
    os.kill(paused["pid"], signal.SIGSTOP)
    groups.parent.popen.send_signal(signal.SIGTERM)
    wait_until(lambda: is_gone(other["pid"]), groups.parent.log)
    assert groups.parent.is_running(), "it waits for the one that does not answer"
    groups.parent.popen.send_signal(signal.SIGTERM)
    assert groups.parent.wait(PATIENCE_SECONDS) == 1, groups.parent.log()
    wait_until(lambda: is_gone(paused["pid"]), groups.parent.log)
    assert [path.parent.name for path in groups.aborts()] == ["broker-a"]
    assert "exiting without a clean shutdown, second signal" in groups.parent.log()


def test_brokers_end_in_order_when_their_parent_is_killed(start: Callable[..., Groups]) -> None:
    groups = start("--port", "0")
    brokers = groups.wait_ready()["brokers"]
    groups.parent.kill()
    wait_until(lambda: all(is_gone(each["pid"]) for each in brokers), groups.parent.log)
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
        options = ("--port", str(port - STEP), "-n", "127.0.0.1:1")
        ended = run_broker(tmp_path, "--groups", "2", *options)
    assert ended.returncode == 2, ended.stderr
    lines = [line for line in ended.stderr.splitlines() if " INFO " not in line and " WARN" not in line]
    sentence = f"cannot listen on 127.0.0.1, port {port}: another process uses it; --port N moves the broker"
    assert lines == [f"broker-b: {sentence}"]
    assert list(tmp_path.glob("store/*/abort")) == []


def test_a_nameserver_port_in_use_is_one_sentence_and_status_2(tmp_path: Path) -> None:
    with port_in_use() as port:
        ended = run_broker(tmp_path, "--groups", "2", "--port", "0", namesrv_port=port)
    assert ended.returncode == 2
    sentence = f"cannot listen on 127.0.0.1, port {port}: another process uses it; --namesrv-port N moves this broker's"
    assert ended.stderr.startswith(sentence)
    assert len(ended.stderr.splitlines()) == 1
    assert not (tmp_path / "store").exists()
