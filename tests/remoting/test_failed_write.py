"""A burst that cannot be written, over real sockets: no acknowledgement of it leaves, whatever happens as all ends.

Two listeners share a program, as a broker's main and VIP port do. Each peer has sent, and has an answer queued, when
the write fails; each end of a connection notifies all the others, as a change of a consumer group does.
"""

from __future__ import annotations

import pytest
import trio

from rocketpy.errors import StoreError
from rocketpy.protocol.command import RemotingCommand, make_request, make_response
from rocketpy.protocol.frame import encode_frame
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.deferred import DEFERRED, Deferred
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.server import RemotingServer
from tests.patience import PATIENCE_SECONDS
from tests.remoting.conftest import bound_server
from tests.remoting.test_server import Peer, ask

SEND, DEFER, NOTIFY = 310, 11, 40


class Log:
    """A store of messages in memory; ``breaks`` is the moment from which it cannot be written."""

    def __init__(self) -> None:
        self.pending: list[tuple[Connection, int]] = []
        self.written: list[int] = []
        self.breaks = False
        self.deferred: list[tuple[Connection, RemotingCommand]] = []
        self.members: list[Connection] = []
        self.dispatcher = Dispatcher(end_burst=self._end_burst)
        self.dispatcher.register(SEND, self._send)
        self.dispatcher.register(DEFER, self._defer)

    def _send(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        if connection not in self.members:
            self.members.append(connection)
        self.pending.append((connection, request.opaque))
        self.notify()  # the group has changed, as far as this test goes
        return make_response(request)

    def _defer(self, connection: Connection, request: RemotingCommand) -> Deferred:
        self.deferred.append((connection, request))
        return DEFERRED

    def _end_burst(self) -> None:
        if self.pending and self.breaks:
            raise StoreError("the disk is gone", path="commitlog/0")
        self.written += [opaque for _, opaque in self.pending]
        self.pending.clear()

    def notify(self) -> None:
        for connection in self.members:
            connection.oneway(make_request(NOTIFY, oneway=True))

    def on_close(self, connection: Connection) -> None:
        self.notify()


async def connect(server: RemotingServer) -> Peer:
    return Peer(await trio.open_tcp_stream("127.0.0.1", server.port))


async def answers_of(peer: Peer) -> list[int]:
    """The opaques of all answers until the end of the connection."""
    opaques = []
    while (command := await peer.receive()) is not None:
        if command.is_response:
            opaques.append(command.opaque)
    return opaques


async def test_no_peer_of_any_listener_is_answered_for_a_message_that_was_never_written(use_hub: bool) -> None:
    log = Log()
    servers = [
        await bound_server(dispatcher, on_close=log.on_close, use_hub=use_hub)
        for dispatcher in (log.dispatcher, log.dispatcher.without([DEFER]))
    ]
    heard: dict[str, list[int]] = {}

    async def listen(name: str, peer: Peer) -> None:
        heard[name] = await answers_of(peer)

    async def use() -> None:
        peers = {f"{name} {port}": await connect(server) for name in "ab" for port, server in enumerate(servers)}
        for peer in peers.values():
            await peer.send(ask(SEND, 1))
            while (await peer.answer()).code == NOTIFY:
                pass
        assert log.written == [1] * 4
        log.breaks = True
        async with trio.open_nursery() as nursery:
            for name, peer in peers.items():
                nursery.start_soon(listen, name, peer)
            for peer in peers.values():
                # Those who come after the failure meet a server that is being cancelled.
                nursery.start_soon(send_what_may_be_lost, peer)

    async def send_what_may_be_lost(peer: Peer) -> None:
        try:
            await peer.stream.send_all(b"".join(encode_frame(ask(SEND, opaque)) for opaque in range(2, 90)))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    with trio.fail_after(PATIENCE_SECONDS), pytest.raises(BaseExceptionGroup) as caught:
        async with trio.open_nursery() as clients:
            clients.start_soon(use)
            async with trio.open_nursery() as nursery:
                for server in servers:
                    nursery.start_soon(server.run)
    assert caught.group_contains(StoreError)
    assert heard == {name: [] for name in ("a 0", "a 1", "b 0", "b 1")}
    assert log.written == [1] * 4
