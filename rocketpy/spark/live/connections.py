"""Connections of one task to brokers, kept from one part to the next: a task may read pieces of many short queues."""

from __future__ import annotations

from types import TracebackType

import attrs

from rocketpy.spark.live.access import ClusterAccess
from rocketpy.spark.live.remoting import BlockingRemotingClient


@attrs.define(eq=False)
class BrokerConnections:
    """At most one connection for each address, closed by leaving the ``with`` block."""

    _access: ClusterAccess = attrs.field(alias="access")
    _clients: dict[str, BlockingRemotingClient] = attrs.field(factory=dict, init=False)

    def __enter__(self) -> BrokerConnections:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        while self._clients:
            self._clients.popitem()[1].close()

    def __contains__(self, address: str) -> bool:
        """Return whether there is one, which its peer may have closed meanwhile."""
        return address in self._clients

    def open(self, broker_name: str, address: str, advertised_by: str) -> BlockingRemotingClient:
        """Return the connection to a broker, a new one if there is none; see ``ClusterAccess.connect_broker``."""
        if address not in self._clients:
            self._clients[address] = self._access.connect_broker(broker_name, address, advertised_by)
        return self._clients[address]

    def close(self, address: str) -> None:
        """Close the connection to a broker, if there is one: it has failed, or answers are on their way."""
        if address in self._clients:
            self._clients.pop(address).close()
