"""Codec of a peer's address in records and message ids: 4 or 16 address bytes, then the port as a big-endian int32.

As text it is ``ip:port``, and ``[ip]:port`` for IPv6.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from rocketpy.errors import LocalProtocolError

HOST_V4_SIZE = 8
HOST_V6_SIZE = 20

_MAPPED = "::ffff:"
_NAME = re.compile(r"[\w.-]+")
_PORT_MAX, _PORT_DIGITS_MAX = 65_535, 5


@lru_cache(maxsize=4096)
def decode_host(host: bytes) -> str:
    """Return the text of 8 or 20 bytes. A port beyond 16 bits stays as it is: it is in records like any other."""
    assert len(host) in (HOST_V4_SIZE, HOST_V6_SIZE), len(host)
    port = int.from_bytes(host[-4:], "big", signed=True)
    if len(host) == HOST_V6_SIZE:
        return f"[{IPv6Address(host[:16])}]:{port}"
    return f"{host[0]}.{host[1]}.{host[2]}.{host[3]}:{port}"


@lru_cache(maxsize=4096)
def encode_host(text: str) -> bytes:
    """Return the 8 or 20 bytes of ``ip:port``; :class:`~rocketpy.errors.LocalProtocolError` when it is not that."""
    address, _, port = text.rpartition(":")
    try:
        return ip_address(address.strip("[]")).packed + int(port).to_bytes(4, "big", signed=True)
    except (ValueError, OverflowError):
        raise LocalProtocolError(f"host: expected ip:port, found {text!r}") from None


def pack_host(address: str, port: int) -> bytes:
    """Return the 8 or 20 bytes of a socket's address; an IPv4-mapped one becomes IPv4, a zone is left out.

    >>> pack_host("::ffff:10.0.0.1", 1) == pack_host("10.0.0.1", 1)
    True
    """
    return encode_host(f"{plain_host(address)}:{port}")


def host_of(address: str) -> str:
    """Return the host of ``host:port``. The port is after the last colon, so an IPv6 host needs no brackets.

    >>> host_of("2001:db8::1:10911")
    '2001:db8::1'
    """
    return address.rpartition(":")[0]


def plain_host(host: str) -> str:
    """Return a numeric address without its zone; an IPv4 address that has come over IPv6 as the IPv4 address.

    >>> plain_host("::ffff:10.0.0.7")
    '10.0.0.7'
    """
    host = host.partition("%")[0]
    return host[len(_MAPPED) :] if host.startswith(_MAPPED) and "." in host else host


def plain_address(address: str) -> str:
    """Return ``host:port`` with the host as :func:`plain_host` writes it: what clients sign, and servers compare.

    >>> plain_address("::ffff:10.0.0.7:10911")
    '10.0.0.7:10911'
    """
    host, _, port = address.rpartition(":")
    return f"{plain_host(host)}:{port}"


def site_of(host: str) -> str:
    """Return what a limit per address counts by: an IPv4 address, or the /64 of an IPv6 address.

    A machine with IPv6 usually has a /64 of its own, and so as many addresses as it likes.

    >>> site_of("2001:db8::9"), site_of("10.0.0.7")
    ('2001:db8::/64', '10.0.0.7')
    """
    if ":" not in host:
        return host
    return f"{IPv6Address(IPv6Address(plain_host(host)).packed[:8] + bytes(8))}/64"


def split_host_port(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port``, which is one whole: a name, an IPv4 address or an IPv6 address.

    That may have brackets and a zone, which is kept. ValueError for anything else: two addresses, or one in a URL.

    >>> split_host_port("[2001:db8::1]:10911")
    ('2001:db8::1', 10911)
    """
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdecimal() or len(port) > _PORT_DIGITS_MAX or not 0 < int(port) <= _PORT_MAX:
        raise ValueError(f"{text!r}: expected a port from 1 to {_PORT_MAX} after the last colon")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if is_bracketed:
        host = host[1:-1]
    if is_bracketed or ":" in host:
        IPv6Address(host)
    elif not _NAME.fullmatch(host):
        raise ValueError(f"{text!r}: expected one host before its port")
    return host, int(port)
