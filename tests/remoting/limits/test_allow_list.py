from __future__ import annotations

import pytest

from rocketpy.remoting.limits.allow_list import is_allowed, networks


@pytest.mark.parametrize(
    ("allowed", "host"),
    [
        ("10.0.0.0/8", "10.1.2.3"),
        ("10.0.0.0/8", "::ffff:10.1.2.3"),
        ("1.1.1.1;10.1.2.3", "10.1.2.3"),
        (" 1.1.1.1 ; 10.1.2.3 ;", "10.1.2.3"),
        ("fe80::/10", "fe80::1%eth0"),
        ("::1", "::1"),
    ],
)
def test_an_address_in_a_network_is_allowed(allowed: str, host: str) -> None:
    assert is_allowed(host, networks(allowed))


@pytest.mark.parametrize("host", ["11.1.2.3", "::1", "::ffff:11.1.2.3", "fe80::1%eth0"])
def test_every_other_address_is_not(host: str) -> None:
    assert not is_allowed(host, networks("10.0.0.0/8"))
    assert not is_allowed(host, networks(""))


@pytest.mark.parametrize("text", ["here", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.1,10.0.0.2"])
def test_a_text_that_names_no_addresses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"does not appear to be|has host bits set"):
        networks(text)
