"""Accepts connections to the replication port, of every peer or of allowed addresses only.

The wire of replication has no authentication and no encryption, so ``haAllowList`` and the number of connections are
all that stands between a peer and the log. Both are checked before a byte is read. Rule: no peer and no shortage of
descriptors ends the service.

Compatibility: ``HAService.AcceptSocketService`` (4.9.8), which takes every connection.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

import attrs
import trio

from rocketpy.containment import Contained
from rocketpy.log_files import is_logged
from rocketpy.remoting.limits.allow_list import IPNetwork, is_allowed
from rocketpy.remoting.limits.connection_budget import ConnectionBudget
from rocketpy.remoting.network import Address, Listener
from rocketpy.remoting.nowait_stream import NowaitStream
from rocketpy.remoting.server import ACCEPT_RETRY_SECONDS
from rocketpy.store.ha.service import CONNECTIONS_MAX

CONNECTIONS_PER_ADDRESS_MAX = 16
"""Connections to the replication port from one address, so that one peer cannot lock the slaves out."""

_log = logging.getLogger("rocketpy.store.ha")


@attrs.frozen
class AcceptStatistics:
    """Connections that are open, and counters since the start."""

    connections: int
    accepted_count: int
    refused_count: int


class AcceptSocketService:
    """Accepts on the listeners and serves each connection in a task of its own. Closes the listeners at its end.

    ``serve`` gets the stream, which it closes, and HOST:PORT of the peer. Without ``allowed`` every peer is allowed.
    """

    def __init__(
        self,
        *,
        listeners: Sequence[Listener],
        serve: Callable[[NowaitStream, str], Awaitable[None]],
        allowed: Sequence[IPNetwork],
    ) -> None:
        self._listeners = list(listeners)
        self._serve = serve
        self._allowed = tuple(allowed)
        self._budget = ConnectionBudget(CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS_MAX)
        self._accepted_count = 0
        self._refused_count = 0

    def statistics(self) -> AcceptStatistics:
        """Return the counters."""
        return AcceptStatistics(self._budget.count, self._accepted_count, self._refused_count)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Accept and serve until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                for listener in self._listeners:
                    nursery.start_soon(self._accept, listener, nursery)
                task_status.started()
        finally:
            for listener in self._listeners:
                listener.close()

    # ---- private --------------------------------------------------------------------------------------------------

    async def _accept(self, listener: Listener, nursery: trio.Nursery) -> None:
        while True:
            try:
                stream, address = await listener.accept()
            except trio.ClosedResourceError:
                return
            except OSError as failure:  # out of descriptors: the peers wait, or give up
                self._note_refused("a peer", f"cannot accept a connection: {failure.strerror}")
                await trio.sleep(ACCEPT_RETRY_SECONDS)
                continue
            why = self._refusal_of(address[0])
            if why is not None:
                self._note_refused(address[0], why)
                await trio.aclose_forcefully(stream)
                continue
            self._accepted_count += 1
            nursery.start_soon(self._serve_one, stream, address)

    async def _serve_one(self, stream: NowaitStream, address: Address) -> None:
        host, port = address
        try:
            with Contained(_log, "serving the connection of %s:%d to the replication port", host, port):
                await self._serve(stream, f"{host}:{port}")
        finally:
            self._budget.release(host)

    def _refusal_of(self, host: str) -> str | None:
        """Count a connection and return None; return the reason when it is refused."""
        if self._allowed and not is_allowed(host, self._allowed):
            return "its address is not in haAllowList"
        return self._budget.take(host)

    def _note_refused(self, host: str, why: str) -> None:
        self._refused_count += 1
        if is_logged(self._refused_count):
            _log.warning("refused %s at the replication port: %s", host, why)
