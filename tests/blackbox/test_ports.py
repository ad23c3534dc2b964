"""Ports that no other program can take between their choice and their use."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.blackbox import ports
from tests.blackbox.ports import ClaimedPorts, is_free


@pytest.fixture
def claimed() -> Iterator[ClaimedPorts]:
    found = ClaimedPorts()
    yield found
    found.release()


def taken(claimed: ClaimedPorts) -> set[int]:
    """Take the ports of 150 brokers, from more than one range."""
    return {first + step for first in [claimed.take(4) for _ in range(150)] for step in range(4)}


def test_two_runs_share_no_port(claimed: ClaimedPorts) -> None:
    other = ClaimedPorts()
    try:
        ours, theirs = taken(claimed), taken(other)
    finally:
        other.release()
    assert (len(ours), len(theirs)) == (600, 600)
    assert ours.isdisjoint(theirs)


def test_a_port_that_another_program_has_is_skipped(claimed: ClaimedPorts) -> None:
    before = claimed.take(1)
    with socket.create_server(("127.0.0.1", before + 2)):
        assert not is_free(before + 2)
        assert claimed.take(3) == before + 3
    assert is_free(before + 2)


def test_ports_are_below_those_of_outgoing_connections(claimed: ClaimedPorts) -> None:
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        assert claimed.take(40) + 40 < int(file.read().split()[0])


def test_a_run_that_takes_very_many_gets_its_own_again(claimed: ClaimedPorts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "RANGES_MAX", 2)
    per_range = (ports.RANGE_SIZE - 1) // 133
    taken = [claimed.take(133) for _ in range(3 * per_range)]
    assert taken[2 * per_range :] == taken[:per_range]


def test_without_a_free_range_it_says_so(claimed: ClaimedPorts, monkeypatch: pytest.MonkeyPatch) -> None:
    first = claimed.take(1) - 1
    monkeypatch.setattr(ports, "FIRST", first)
    monkeypatch.setattr(ports, "END", first + 1)
    with pytest.raises(RuntimeError, match="belongs to another process"):
        ClaimedPorts().take(1)
