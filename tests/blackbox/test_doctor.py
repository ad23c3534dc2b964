"""``rocketpy doctor`` as a process, against brokers as processes that are killed, paused, behind, or set wrongly."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.blackbox import processes
from tests.blackbox.doctor import examine, problems_of
from tests.blackbox.wire import SLAVE_NOT_AVAILABLE, SUCCESS, Wire
from tests.interop.pair import NAME, Pair, open_pair

pytestmark = pytest.mark.blackbox

BODY = os.urandom(4 << 20)
LAG_MESSAGES = 17
"""Together more than the 64 MiB by which a slave may lag."""
SKEW_SECONDS = 3600
SKEWED = f"""\
import sys, time
real = time.time_ns
time.time_ns = lambda: real() + {SKEW_SECONDS} * 10**9
time.time = lambda: time.time_ns() / 1e9
from rocketpy.broker.__main__ import main
sys.exit(main())
"""
REGISTRATION_S = 60.0


@pytest.fixture
def namesrv(tmp_path: Path) -> Iterator[str]:
    """The address of a running nameserver."""
    port = processes.free_ports(1)
    process = processes.start_nameserver(tmp_path / "namesrv", port)
    yield f"127.0.0.1:{port}"
    assert process.terminate() == 0, process.log()


@pytest.fixture
def pair(tmp_path: Path, namesrv: str) -> Iterator[Pair]:
    """A SYNC_MASTER and its slave, which follows."""
    settings = {"mappedFileSizeCommitLog": 64 << 20, "maxMessageSize": 2 * len(BODY)}
    with open_pair(tmp_path, namesrv, ("rocketpy", "rocketpy"), "SYNC_MASTER", **settings) as pair:
        pair.start()
        pair.wait_following()
        yield pair


def subject_of(pair: Pair, *, is_slave: bool) -> str:
    if is_slave:
        return f"{NAME} slave 1 {pair.slave.address}"
    return f"{NAME} master {pair.master.address}"


def wait_problems(namesrv: str, expected: dict[str, str]) -> None:
    """Wait until these are the problems: brokers and nameserver take a moment to learn of each other."""
    deadline = time.monotonic() + REGISTRATION_S
    while (found := problems_of(namesrv)) != expected:
        assert time.monotonic() < deadline, f"{found}, expected {expected}"


def test_a_slave_that_is_paused_dead_or_behind_is_found(pair: Pair, namesrv: str) -> None:
    master, slave = (subject_of(pair, is_slave=each) for each in (False, True))
    status, findings = examine(namesrv)
    assert problems_of(namesrv) == {}
    assert status == any(each["check"] == "disk-full" for each in findings)
    assert "single-copy" not in {each["check"] for each in findings}

    pair.slave.send_signal(signal.SIGSTOP)
    assert problems_of(namesrv) == {"address-unreachable": slave, "sync-master-without-slave": master}
    pair.slave.send_signal(signal.SIGCONT)
    wait_problems(namesrv, {})

    pair.slave.kill()
    wait_problems(namesrv, {"sync-master-without-slave": master})

    with processes.port_in_use() as silent:
        pair.slave.settings["haMasterAddress"] = f"127.0.0.1:{silent}"
        with Wire(pair.master.address) as wire:
            for _ in range(LAG_MESSAGES):
                assert wire.send("large", 0, BODY, "WAIT\x01false\x02").code in (SUCCESS, SLAVE_NOT_AVAILABLE)
        pair.slave.start()
        wait_problems(namesrv, {"slave-lag": slave, "replication-stopped": slave})
        pair.slave.stop()
    pair.slave.settings["haMasterAddress"] = f"127.0.0.1:{pair.master.port + 1}"
    pair.slave.start()
    pair.wait_following()
    assert problems_of(namesrv) == {}

    pair.master.kill()
    wait_problems(namesrv, {"no-master": NAME, "replication-stopped": slave})


def test_two_masters_of_one_name_are_found(pair: Pair, namesrv: str, tmp_path: Path) -> None:
    other = attrs.evolve(pair.master, directory=tmp_path / "other", port=processes.broker_port())
    other.start()
    try:
        deadline = time.monotonic() + REGISTRATION_S
        while "broker-id-conflict" not in (found := problems_of(namesrv)):
            assert time.monotonic() < deadline, found
        assert found["broker-id-conflict"].startswith(f"{NAME} master 127.0.0.1:")
    finally:
        other.kill()


def test_a_clock_that_is_an_hour_ahead_is_found(tmp_path: Path, namesrv: str) -> None:
    settings = processes.broker_settings(tmp_path, processes.broker_port(), namesrv)
    config = processes.write_config(tmp_path / "broker.conf", settings)
    broker = processes.Process.start([sys.executable, "-c", SKEWED, "-c", str(config)], tmp_path / "broker.log",
                                     cwd=processes.REPOSITORY)  # fmt: skip
    try:
        processes.await_brokers(namesrv, {"broker-0"}, [broker])
        assert problems_of(namesrv) == {"clock-skew": f"broker-0 master 127.0.0.1:{settings['listenPort']}"}
        _, findings = examine(namesrv)
        (skew,) = [each for each in findings if each["check"] == "clock-skew"]
        assert "s ahead of this machine's" in skew["problem"]
        assert abs(int(skew["problem"].split()[3]) - SKEW_SECONDS) <= 2
    finally:
        broker.kill()
