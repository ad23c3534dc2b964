"""``rocketpy doctor`` as a process, against brokers as processes that are killed, paused, behind, or set wrongly."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.blackbox.doctor import examine, problems_of
from tests.blackbox.ports import port_in_use
from tests.blackbox.wire import SLAVE_NOT_AVAILABLE, SUCCESS, Wire
from tests.interop.pair import NAME, Pair, open_pair
from tests.patience import wait_until

pytestmark = pytest.mark.blackbox

BODY = os.urandom(4 << 20)
LAG_MESSAGES = 17
"""Together more than the 64 MiB by which a slave may lag."""


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
    """Wait until these are the problems: brokers and nameserver take a moment to learn of each other.

    What answers slowly, because the machine is busy, is a problem too, until it answers.
    """
    found: list[dict[str, str]] = []

    def are_so() -> bool:
        found[:] = [problems_of(namesrv)]
        return found == [expected]

    wait_until(are_so, lambda: f"{found}, expected {expected}")


def test_a_slave_that_is_paused_dead_or_behind_is_found(pair: Pair, namesrv: str) -> None:
    master, slave = (subject_of(pair, is_slave=each) for each in (False, True))
    wait_problems(namesrv, {})
    status, findings = examine(namesrv)
    assert status == any(each["check"] == "disk-full" for each in findings)
    assert "single-copy" not in {each["check"] for each in findings}

    pair.slave.send_signal(signal.SIGSTOP)
    wait_problems(namesrv, {"address-unreachable": slave, "sync-master-without-slave": master})
    pair.slave.send_signal(signal.SIGCONT)
    wait_problems(namesrv, {})

    pair.slave.kill()
    wait_problems(namesrv, {"sync-master-without-slave": master})

    with port_in_use() as silent:
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
    wait_problems(namesrv, {})

    pair.master.kill()
    wait_problems(namesrv, {"no-master": NAME, "replication-stopped": slave})
