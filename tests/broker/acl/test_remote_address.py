"""Address patterns: those of Java, and what they say where Java reads them in another way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpy.broker.acl.acl_error import AclError
from rocketpy.broker.acl.remote_address import host_of_peer, parse_address_pattern

VECTORS = json.loads((Path(__file__).parents[2] / "golden" / "vectors.json").read_text())["acl_addresses"]

READ_AS_WRITTEN = {
    "*.0.0.1": {"127.0.0.1", "10.0.0.1"},
    "10.*.0.1": {"10.0.0.1"},
    "2001:db8::1-ff": {"2001:db8::1", "2001:db8:0:0:0:0:0:20"},
}
"""Java ignores what follows the first ``*`` (or fails on every request), and miscounts after ``::``."""


@pytest.mark.parametrize("vector", VECTORS, ids=[str(each["pattern"]) for each in VECTORS])
def test_patterns_match_what_they_match_in_java(vector: dict[str, object]) -> None:
    text, wanted = vector["pattern"], vector["matches"]
    assert isinstance(wanted, dict)
    assert text is None or isinstance(text, str)
    if "error" in wanted:
        with pytest.raises(AclError) as failure:
            parse_address_pattern(text)
        assert str(failure.value).startswith(wanted["message"])
        return
    is_meant = parse_address_pattern(text)
    if text in READ_AS_WRITTEN:
        assert {address for address in wanted if is_meant(address)} == READ_AS_WRITTEN[text]
    else:
        assert {address: is_meant(address) for address in wanted} == wanted


@pytest.mark.parametrize(
    ("text", "meant", "not_meant"),
    [
        ("10.0.1-5.*", ["10.0.1.0", "10.0.5.255"], ["10.0.0.1", "10.0.6.1", "10.1.1.1", "::1"]),
        ("1-2.0.0.7", ["1.0.0.7", "2.0.0.7"], ["3.0.0.7", "1.0.0.8"]),
        ("10.0.0.1-1", ["10.0.0.1"], ["10.0.0.0", "10.0.0.2"]),
        ("10.0.0.{7}", ["10.0.0.7"], ["10.0.0.6"]),
        ("5::7:6:1-200:*", ["5::7:6:1:9", "5::7:6:200:ffff"], ["5::7:6:201:1", "5::7:7:1:1", "5.7.6.1"]),
        ("1:2:3:4:5:6:7:a-f", ["1:2:3:4:5:6:7:a", "1:2:3:4:5:6:7:F"], ["1:2:3:4:5:6:7:10"]),
        ("::*", ["::1", "::ffff"], ["::1:0"]),
        ("2001:DB8::1", ["2001:db8:0::1"], ["2001:db8::2"]),
        ("2001:db8::{1,a}", ["2001:db8::1", "2001:DB8::A"], ["2001:db8::2"]),
        ("10.0.0.1,::1,", ["10.0.0.1", "0:0::1"], ["10.0.0.2", "nonsense", ""]),
    ],
)
def test_every_form_of_pattern(text: str, meant: list[str], not_meant: list[str]) -> None:
    is_meant = parse_address_pattern(text)
    assert [address for address in meant if not is_meant(address)] == []
    assert [address for address in not_meant if is_meant(address)] == []


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0.-5",
        "10.0.0.5-",
        "10.0.0.*.*",
        "10.0.0.1-256",
        "10.0.0.a-f",
        "10.0.{1,2}.3}",
        "10.0.{1,2}",
        "{1,2}",
        "10.0.0.1{2}",
        "10.0.0.{1,300}",
        "10.0.0.{*}",
        "1:*:3:4:5:6:7:8",
        "1:2:3:4:5:6:*:8",
        "1:2:3:4:5:6:*:*",
        "1:2:3:4:5:6:7:8:*",
        "1::2::*",
        "1:2:3:4::5:6:7:*",
        "1:2:3:*",
        "2001:db8::{g}",
        "2001:db8::f-1",
        "2001:db8::fffff-*",
        "١٠.0.0.*",
    ],
)
def test_what_is_no_pattern_is_refused_and_named(text: str) -> None:
    with pytest.raises(AclError) as failure:
        parse_address_pattern(text)
    assert text in str(failure.value) or "Netaddress examine Exception" in str(failure.value)


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("10.0.0.1:1234", "10.0.0.1"),
        ("::1:1234", "::1"),
        ("::ffff:10.0.0.1:1234", "10.0.0.1"),
        ("fe80::1%eth0:1234", "fe80::1"),
        ("::ffff:1:1234", "::ffff:1"),
    ],
)
def test_a_peer_is_known_by_its_address(peer: str, host: str) -> None:
    assert host_of_peer(peer) == host


@settings(deadline=None)
@given(st.text(alphabet="0123456789abcdef.:*-{},% ", max_size=40))
def test_any_text_is_a_pattern_or_an_error(text: str) -> None:
    try:
        is_meant = parse_address_pattern(text)
    except AclError:
        return
    assert is_meant("10.0.0.1") in (True, False)
