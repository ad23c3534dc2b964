"""How many connections a program takes: one budget over all of its listeners, and a share of it for each address.

The share leaves a tenth to others whatever one address does. It is no less than that, for all clients of a broker may
come from the one address of a load balancer.
"""

from __future__ import annotations


class ConnectionBudget:
    """Counts open connections, handshakes included. One per program."""

    def __init__(self, connections_max: int, per_address_max: int) -> None:
        self._max = connections_max
        self._per_address_max = min(per_address_max, max(1, connections_max - connections_max // 10))
        self._count = 0
        self._count_of: dict[str, int] = {}

    @property
    def count(self) -> int:
        """How many connections are open."""
        return self._count

    def take(self, host: str) -> str | None:
        """Count one more connection; if there are too many, return why it is refused instead."""
        of_host = self._count_of.get(host, 0)
        if self._count >= self._max:
            return f"{self._count} connections are open"
        if of_host >= self._per_address_max:
            return f"{of_host} connections of this address are open"
        self._count += 1
        self._count_of[host] = of_host + 1
        return None

    def release(self, host: str) -> None:
        """A connection has ended."""
        self._count -= 1
        left = self._count_of[host] - 1
        if left:
            self._count_of[host] = left
        else:
            del self._count_of[host]
