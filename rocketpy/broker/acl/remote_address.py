"""Address patterns of white lists.

=============================  =====================================================================================
pattern                        matches
=============================  =====================================================================================
nothing, blanks                no address
``*``, ``*.*.*.*``,            every address
``*:*:*:*:*:*:*:*``
``10.0.0.1``, ``2001:db8::1``  this address, however it is written
``10.0.0.1,2001:db8::1``       each of the list
``10.0.0.{1,25}``              each of the braces, which may only be the last part
``10.0.*.*``, ``10.0.1-5.*``   each part is a number, a range or ``*``
``2001:db8::*``,               the last part, or the last but one before ``*``, may be a range; ``*`` may only be
``5::7:6:1-200:*``             the last part; parts are hexadecimal
=============================  =====================================================================================

Anything else is an :class:`~.acl_error.AclError`. Compatibility: ``RemoteAddressStrategyFactory`` (4.9.8), which
ignores the parts after the first range or ``*`` of an IPv4 pattern (``10.*.0.1`` is ``10.*.*.*`` there), fails on every
request for a pattern that begins with ``*``, and miscounts parts where ``::`` directly precedes a range or ``*``. Here
every part of a pattern is effective.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

from rocketpy.broker.acl.acl_error import AclError
from rocketpy.protocol.host import host_of, plain_host

AddressPattern = Callable[[str], bool]
"""Predicate that matches an address without port, in any spelling."""

_EVERY = ("*", "*.*.*.*", "*:*:*:*:*:*:*:*")
_PART = re.compile(r"(?P<low>[0-9A-Fa-f]{1,4})(?:-(?P<high>[0-9A-Fa-f]{1,4}))?|\*")


def parse_address_pattern(text: str | None) -> AddressPattern:
    """Compile an address pattern; AclError when it is invalid."""
    if text is None or not text.strip():
        return _matches_nothing
    if text in _EVERY:
        return _matches_all
    if text.endswith("}"):
        return _Listed(_brace_addresses(text))
    if "," in text:
        return _Listed([part for part in text.split(",") if part])
    if "*" in text or "-" in text:
        return _Ranges(_ipv6_ranges(text) if ":" in text else _ipv4_ranges(text), is_ipv6=":" in text)
    return _Listed([text])


def host_of_peer(peer: str) -> str:
    """Return the address of ``address:port``; an IPv4 peer of an IPv6 socket is an IPv4 one."""
    return plain_host(host_of(peer))


class _Listed:
    """Single addresses."""

    def __init__(self, addresses: list[str]) -> None:
        self._addresses = frozenset(map(_checked_address, addresses))

    def __call__(self, address: str) -> bool:
        return _parsed(address) in self._addresses


class _Ranges:
    """One range for each part of an address."""

    def __init__(self, ranges: list[tuple[int, int]], *, is_ipv6: bool) -> None:
        self._ranges = ranges
        self._version = 6 if is_ipv6 else 4

    def __call__(self, address: str) -> bool:
        parsed = _parsed(address)
        if parsed is None or parsed.version != self._version:
            return False
        packed = parsed.packed
        size = 1 if parsed.version == 4 else 2
        parts = (int.from_bytes(packed[at : at + size], "big") for at in range(0, len(packed), size))
        return all(low <= part <= high for part, (low, high) in zip(parts, self._ranges, strict=True))


def _matches_nothing(address: str) -> bool:
    return False


def _matches_all(address: str) -> bool:
    return True


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(address)
    except ValueError:
        return None


def _checked_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    parsed = _parsed(text)
    if parsed is None:
        raise AclError(f"Netaddress examine Exception netaddress is {text}")
    return parsed


def _brace_addresses(text: str) -> list[str]:
    """Write out ``a.b.c.{1,2}``."""
    head, brace, last = text.partition("{")
    if not brace or "{" in last or not head.endswith((":", ".")):
        raise AclError(f"MultipleRemoteAddressStrategy netaddress examine scope Exception netaddress {text}")
    if ":" not in text and head.count(".") != 3:
        raise AclError(f"MultipleRemoteAddressStrategy has got a/some wrong format IP(s) {text}")
    return [head + part.strip() for part in last[:-1].split(",") if part.strip()]


def _ipv4_ranges(text: str) -> list[tuple[int, int]]:
    parts = [part.strip() for part in text.split(".")]
    if len(parts) != 4:
        raise AclError(f"Netaddress examine scope Exception netaddress is {text}")
    return [_range(part, 10, 255, text) for part in parts]


def _ipv6_ranges(text: str) -> list[tuple[int, int]]:
    """Split at the colons, with ``::`` expanded to zeros."""
    head, gap, tail = text.partition("::")
    before = head.split(":") if head else []
    after = tail.split(":") if tail else []
    missing = 8 - len(before) - len(after)
    if (missing < 1) if gap else (missing != 0):
        raise AclError(f"Netaddress examine scope Exception netaddress is {text}")
    parts = [part.strip() for part in (*before, *["0"] * (missing if gap else 0), *after)]
    ranged = [at for at, part in enumerate(parts) if "*" in part or "-" in part]
    if ranged not in ([7], [6, 7]) or (len(ranged) == 2 and ("-" not in parts[6] or parts[7] != "*")):
        raise AclError(f"Netaddress examine scope Exception netaddress is {text}")
    return [_range(part, 16, 0xFFFF, text) for part in parts]


def _range(part: str, base: int, most: int, text: str) -> tuple[int, int]:
    """Return the bounds of ``*``, ``7`` or ``1-20``."""
    match = _PART.fullmatch(part)
    if match is None:
        raise AclError(f"RangeRemoteAddressStrategy netaddress examine scope Exception value {part} of {text}")
    if match["low"] is None:
        return 0, most
    try:
        low = int(match["low"], base)
        high = int(match["high"] or match["low"], base)
    except ValueError as failure:
        raise AclError(f"Netaddress examine scope Exception netaddress is {text}") from failure
    if not low <= high <= most:
        raise AclError(
            f"RangeRemoteAddressStrategy netaddress examine scope Exception start is {low} , end is {high} of {text}"
        )
    return low, high
