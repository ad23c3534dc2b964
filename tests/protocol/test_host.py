"""Addresses as bytes and text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError
from rocketpy.protocol.host import decode_host, encode_host, host_of, pack_host, plain_address

PORTS = st.integers(-(2**31), 2**31 - 1).map(lambda port: port.to_bytes(4, "big", signed=True))


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("10.0.0.1:50000", "0a0000010000c350"),
        ("255.255.255.255:0", "ffffffff00000000"),
        ("[2001:db8::1]:50002", "20010db80000000000000000000000010000c352"),
        ("[::]:-1", "00" * 16 + "ffffffff"),
    ],
)
def test_hosts_are_address_and_port(text: str, content: str) -> None:
    assert encode_host(text).hex() == content
    assert decode_host(bytes.fromhex(content)) == text


@given(st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16), PORTS)
def test_every_host_survives(address: bytes, port: bytes) -> None:
    assert encode_host(decode_host(address + port)) == address + port


@pytest.mark.parametrize("text", ["", "10.0.0.1", "10.0.0.1:", "10.0.0:1", "localhost:1", "1.2.3.4:99999999999", ":1"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(LocalProtocolError, match="expected ip:port, found"):
        encode_host(text)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("10.0.0.1:50000", "10.0.0.1"),
        ("::ffff:10.0.0.1:50000", "::ffff:10.0.0.1"),
        ("fe80::1%eth0:50000", "fe80::1%eth0"),
        ("[::1]:50000", "[::1]"),
        ("localhost:", "localhost"),
        ("localhost", ""),
    ],
)
def test_the_host_ends_at_the_last_colon(address: str, host: str) -> None:
    assert host_of(address) == host


@pytest.mark.parametrize(
    ("address", "plain"),
    [
        ("10.0.0.1:50000", "10.0.0.1:50000"),
        ("::ffff:10.0.0.1:50000", "10.0.0.1:50000"),
        ("fe80::1%eth0:50000", "fe80::1:50000"),
        ("::ffff:0:1:50000", "::ffff:0:1:50000"),
    ],
)
def test_an_address_is_written_in_one_way(address: str, plain: str) -> None:
    assert plain_address(address) == plain


@pytest.mark.parametrize(
    ("address", "packed"),
    [
        ("127.0.0.1", bytes([127, 0, 0, 1])),
        ("::ffff:127.0.0.1", bytes([127, 0, 0, 1])),
        ("::1", bytes(15) + b"\1"),
        ("fe80::1%eth0", b"\xfe\x80" + bytes(13) + b"\1"),
    ],
)
def test_hosts_are_packed_for_records(address: str, packed: bytes) -> None:
    assert pack_host(address, 1) == packed + b"\0\0\0\1"
