"""RocketMQ's choice among the addresses of a machine."""

from __future__ import annotations

import ipaddress

import pytest

from rocketpy.broker.host import chosen_address, local_address, local_host_name


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
    ipaddress.ip_address(local_address())
    assert local_host_name()
