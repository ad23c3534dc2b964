"""The local address of outgoing connections, part of client ids and of unique keys.

Nothing is sent and no name is resolved: connecting a datagram socket only queries the routing table.

Compatibility: Java walks its interfaces and prefers public IPv4 addresses (``RemotingUtil.getLocalAddress``).
"""

from __future__ import annotations

import socket

# TEST-NET-1 and the documentation prefix: routed like any remote address, but assigned to no host.
_FOREIGN = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
_LOOPBACK = "127.0.0.1"


def local_address() -> str:
    """Return an IPv4 or IPv6 address of this machine; loopback when it has no route to other networks."""
    for family, foreign in _FOREIGN:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((foreign, 9))
                return str(probe.getsockname()[0]).partition("%")[0]
        except OSError:
            continue
    return _LOOPBACK


def packed_address(address: str) -> bytes:
    """Return the 4 or 16 bytes of an address."""
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
