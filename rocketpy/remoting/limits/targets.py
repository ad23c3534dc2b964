"""The setting ``aclTargets``: addresses of tunnels and load balancers that lead to a broker."""

from __future__ import annotations

import ipaddress

import attrs

from rocketpy.protocol.host import split_host_port

ANY_ADDRESS = "*"
"""Stands for every address."""


def acl_targets(text: str) -> list[str]:
    """Return what a text names, as clients sign it: ADDRESS:PORT, IPv6 without brackets, or ``*``; else ValueError."""
    targets = []
    for each in filter(None, map(str.strip, text.split(","))):
        if each == ANY_ADDRESS:
            targets.append(each)
        else:
            host, port = split_host_port(each)
            targets.append(f"{ipaddress.ip_address(host)}:{port}")
    return targets


def are_targets(instance: object, attribute: attrs.Attribute[object], value: object) -> None:
    """Validate a setting; raise ``ValueError`` unless :func:`acl_targets` can read its text."""
    try:
        acl_targets(str(value))
    except ValueError as error:
        raise ValueError(f"{attribute.name} is {value!r}: {error}, expected numeric addresses with ports") from error
