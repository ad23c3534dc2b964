"""The setting ``aclTargets``: addresses of tunnels and load balancers that lead to a broker."""

from __future__ import annotations

import ipaddress

import attrs

ANY_ADDRESS = "*"
"""Stands for every address."""


def acl_targets(text: str) -> list[str]:
    """Return what a text names, as clients sign it: ADDRESS:PORT, IPv6 without brackets, or ``*``; else ValueError."""
    targets = []
    for each in filter(None, map(str.strip, text.split(","))):
        host, colon, port = each.rpartition(":")
        if each == ANY_ADDRESS:
            targets.append(each)
        elif colon and port.isascii() and port.isdecimal() and 0 < int(port) <= 65_535:
            targets.append(f"{ipaddress.ip_address(host.strip('[]'))}:{int(port)}")
        else:
            raise ValueError(f"{each!r} is no ADDRESS:PORT")
    return targets


def are_targets(instance: object, attribute: attrs.Attribute[object], value: object) -> None:
    """Validate a setting; raise ``ValueError`` unless :func:`acl_targets` can read its text."""
    try:
        acl_targets(str(value))
    except ValueError as error:
        raise ValueError(f"{attribute.name} is {value!r}: {error}, expected numeric addresses with ports") from error
