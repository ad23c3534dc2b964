"""The addresses of tunnels and load balancers are numeric and whole."""

from __future__ import annotations

import pytest

from rocketpy.broker.config import BrokerConfig
from rocketpy.remoting.limits.targets import acl_targets


def test_targets_are_written_as_clients_sign_them() -> None:
    assert acl_targets("") == []
    assert acl_targets(" 10.0.0.9:10911 ,[fd00::2]:10911,fd00:0:0::3:09,*") == [
        "10.0.0.9:10911",
        "fd00::2:10911",
        "fd00::3:9",
        "*",
    ]


@pytest.mark.parametrize(
    "text", ["lb.example.com:10911", "10.0.0.9", "10.0.0.9:", "10.0.0.9:0", "10.0.0.9:65536", ":1"]
)
def test_what_is_no_address_ends_the_start(text: str) -> None:
    with pytest.raises(ValueError, match=r"^acl_targets is .*expected numeric addresses with ports"):
        BrokerConfig(acl_targets=text)
