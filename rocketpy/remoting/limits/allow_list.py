"""Allow lists of peer addresses: single addresses and networks, as settings name them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

import attrs

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

EXPECTED = "addresses or networks separated by ;, empty for all"
"""What a setting with an allow list expects, in words."""


def networks(text: str) -> tuple[IPNetwork, ...]:
    """Return the addresses and networks (``10.0.0.0/8``) that a text names, separated by ``;``; ValueError if none."""
    return tuple(ipaddress.ip_network(each.strip()) for each in text.split(";") if each.strip())


def are_networks(instance: object, attribute: attrs.Attribute[object], value: object) -> None:
    """Validate a setting; raise ``ValueError`` unless :func:`networks` can read its text."""
    try:
        networks(str(value))
    except ValueError as error:
        raise ValueError(f"{attribute.name} is {value!r}: {error}") from error


def is_allowed(host: str, allowed: Iterable[IPNetwork]) -> bool:
    """Whether the numeric address of a peer, with or without a zone, is in one of the networks.

    An IPv4 address that has arrived over IPv6 (``::ffff:10.1.2.3``) counts as the IPv4 address.
    """
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in allowed)
