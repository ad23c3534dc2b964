"""Whether this machine has IPv6: a few have none, and what needs it is skipped there."""

from __future__ import annotations

import socket


def has_ipv6() -> bool:
    """Return whether a socket can be bound to ::1."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True
