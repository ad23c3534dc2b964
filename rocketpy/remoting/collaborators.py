"""Interfaces that a connection needs: of the driver that owns its socket, and of what serves its peer's requests.

They are generic, so that they need not know the class of the connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

from rocketpy.protocol.command import RemotingCommand
from rocketpy.remoting.burst import Burst
from rocketpy.remoting.deferred import Deferred, Owed
from rocketpy.remoting.task_pool import TaskKind

ConnectionT = TypeVar("ConnectionT", contravariant=True)


class Transport(Protocol[ConnectionT]):
    """Interface that a connection needs from the driver that owns its socket."""

    def flush(self, connection: ConnectionT) -> None:
        """Send now what can be sent without waiting; never called while a burst is open."""
        ...

    def end(self, connection: ConnectionT) -> None:
        """Close the socket and remove the connection. Calls nothing that sends, for it may be called within a send."""
        ...

    def has_room(self, size: int) -> bool:
        """Whether so many bytes more fit into what all peers together may leave unread."""
        ...

    def start_task(
        self, owner: object, kind: TaskKind, function: Callable[..., Awaitable[None]], *arguments: object
    ) -> bool:
        """Run a task in the server's nursery; False at the limit per owner or in total."""
        ...


class RequestDispatcher(Protocol[ConnectionT]):
    """Serves the requests of a connection's peer; ``dispatch.Dispatcher`` implements it."""

    @property
    def burst(self) -> Burst:
        """The block that requests are served in."""
        ...

    @property
    def fast_paths(self) -> Mapping[bytes, Callable[[ConnectionT, bytes, bytes | None], int]]:
        """Fast paths by the first bytes of a JSON header; each serves the request or declines it."""
        ...

    def dispatch(self, connection: ConnectionT, serialize_type: int, header: bytes, body: bytes | None) -> None:
        """Serve one frame; RemoteProtocolError when its header is garbage."""
        ...

    def answer_failure(self, connection: ConnectionT, header: bytes, body: bytes | None, failure: Exception) -> None:
        """Answer a request whose fast path raised."""
        ...

    async def run_deferred(
        self,
        connection: ConnectionT,
        owed: Owed,
        function: Callable[..., Awaitable[RemotingCommand | bytes | Deferred]],
        *arguments: object,
    ) -> None:
        """Give the answer that ``function`` returns; see :meth:`Connection.answer_later`."""
        ...
