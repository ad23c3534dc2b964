"""The two rules for this machine's own address: RocketMQ's choice among interfaces, and the way out."""

from __future__ import annotations

import ipaddress
import socket
from types import TracebackType

import pytest

from rocketpy.remoting.local_address import (
    chosen_address,
    interface_address,
    local_host_name,
    outgoing_address,
    packed_address,
)


@pytest.mark.parametrize(
    ("addresses", "chosen"),
    [
        (["10.0.0.1", "10.0.0.2"], "10.0.0.1"),
        (["192.168.0.1", "10.0.0.2"], "10.0.0.2"),
        (["192.168.0.1", "192.168.0.2"], "192.168.0.2"),
        (["2001:db8::1", "192.168.0.1"], "192.168.0.1"),
        (["2001:db8::1", "2001:db8::2"], "2001:db8::1"),
        (["127.0.1.1"], "127.0.1.1"),
        ([], "127.0.0.1"),
    ],
)
def test_the_choice(addresses: list[str], chosen: str) -> None:
    assert chosen_address(addresses) == chosen


def test_this_machine_has_an_address_and_a_name() -> None:
    ipaddress.ip_address(interface_address())
    assert local_host_name()


def test_the_outgoing_address_is_an_address_of_this_machine() -> None:
    address = outgoing_address()
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))  # fails for an address of another machine


def test_a_machine_without_a_way_out_has_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpy.remoting.local_address.socket.socket", _Unroutable)
    assert outgoing_address() == "127.0.0.1"


@pytest.mark.parametrize("address", ["192.168.1.7", "127.0.0.1", "::1", "2001:db8::7"])
def test_packing_gives_the_bytes_of_the_address(address: str) -> None:
    assert packed_address(address) == ipaddress.ip_address(address).packed


class _Unroutable:
    """A socket of a machine without routes."""

    def __init__(self, family: int, kind: int) -> None:
        pass

    def __enter__(self) -> _Unroutable:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def connect(self, address: tuple[str, int]) -> None:
        raise OSError(101, "Network is unreachable")
