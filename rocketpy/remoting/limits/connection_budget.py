"""Admission control for connections: one limit over all listeners of a program, and one per client address.

The limit per address is at most nine tenths of the whole, so that one address can never use up all connections. It is
as generous as that because all clients of a broker may come through one load balancer.
"""

from __future__ import annotations


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
        of_host = self._count_of.get(host, 0)
        if self._count >= self._max:
            return f"{self._count} connections are open"
        if of_host >= self._per_address_max:
            return f"{of_host} connections of this address are open"
        self._count += 1
        self._count_of[host] = of_host + 1
        return None

    def release(self, host: str) -> None:
        """Uncount a connection that has ended."""
        self._count -= 1
        left = self._count_of[host] - 1
        if left:
            self._count_of[host] = left
        else:
            del self._count_of[host]
