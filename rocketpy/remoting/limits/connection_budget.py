"""Admission control for connections: one limit over all listeners of a program, and one per client address.

The limit per address is at most nine tenths of the whole, so that one address can never use up all connections. It is
as generous as that because all clients of a broker may come through one load balancer. IPv6 addresses of one /64 count
as one address, since one machine may have all of them.
"""

from __future__ import annotations

from rocketpy.protocol.host import site_of


class ConnectionBudget:
    """Counts of open connections, TLS handshakes included. One per program."""

    def __init__(self, connections_max: int, per_address_max: int) -> None:
        self._max = connections_max
        self._per_address_max = min(per_address_max, max(1, connections_max - connections_max // 10))
        self._count = 0
        self._count_of: dict[str, int] = {}

    @property
    def count(self) -> int:
        """Number of open connections."""
        return self._count

    def take(self, host: str) -> str | None:
        """Count one more connection and return None; above a limit, return the reason for the refusal instead."""
        site = site_of(host)
        of_site = self._count_of.get(site, 0)
        if self._count >= self._max:
            return f"{self._count} connections are open"
        if of_site >= self._per_address_max:
            return f"{of_site} connections of {'this address' if site == host else site} are open"
        self._count += 1
        self._count_of[site] = of_site + 1
        return None

    def release(self, host: str) -> None:
        """Uncount a connection that has ended."""
        self._count -= 1
        site = site_of(host)
        left = self._count_of[site] - 1
        if left:
            self._count_of[site] = left
        else:
            del self._count_of[site]
