"""The address that client ids and unique keys carry."""

from __future__ import annotations

import ipaddress
import socket
from types import TracebackType

import pytest

from rocketpy.client.local_address import local_address, packed_address


def test_it_is_an_address_of_this_machine() -> None:
    address = local_address()
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))  # fails for an address of another machine


def test_a_machine_without_a_way_out_has_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpy.client.local_address.socket.socket", _Unroutable)
    assert local_address() == "127.0.0.1"


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
