"""Decides by the first byte of an accepted connection whether it speaks TLS, and shakes hands if it does.

0x16 begins a TLS handshake; as the first byte of a frame it would announce 369 MB, so there is no ambiguity. The byte
is looked at and left where it is: a plain connection is served by the hub as if nobody had looked.

Rules: a handshake has HANDSHAKE_SECONDS. At most HANDSHAKES_MAX are under way, and when one more comes the oldest gives
way: a peer that means it is done in milliseconds, so those that only hold on are the ones that go.

Compatibility: ``NettyRemotingServer.HandshakeHandler`` (4.9.8), which closes what the mode does not allow. Netty gives
a handshake ten seconds as well, and bounds their number nowhere.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Awaitable, Callable

import trio

from rocketpy.remoting.config import TlsMode
from rocketpy.remoting.tls import ServerTls

TLS_HANDSHAKE = b"\x16"
HANDSHAKE_SECONDS = 10.0
HANDSHAKES_MAX = 256

Address = tuple[str, int]
ServeStream = Callable[[trio.abc.Stream, Address], Awaitable[None]]

_log = logging.getLogger("rocketpy.remoting")


class TlsAcceptor:
    """The handshakes of one server; what comes out of one is handed to ``serve_stream``, in the same task."""

    def __init__(self, *, tls: ServerTls | None, serve_stream: ServeStream) -> None:
        """Without ``tls`` the server speaks none, as with mode ``disabled``."""
        self._tls = tls
        self._serve_stream = serve_stream
        self._under_way: dict[trio.CancelScope, None] = {}  # handshakes, in the order in which they began
        self._silent_count = 0  # of those whose first byte is awaited
        self.refused_count = 0
        """Connections that the mode does not allow, and handshakes that came to nothing."""

    @property
    def under_way_count(self) -> int:
        """Connections that are not served yet: their handshake, or their first byte, is awaited."""
        return len(self._under_way) + self._silent_count

    def allows(self, first: bytes, address: Address) -> bool:
        """Say whether a connection that begins with this byte may go on; a refusal is logged."""
        mode = TlsMode.DISABLED if self._tls is None else self._tls.mode
        if first == TLS_HANDSHAKE and mode is TlsMode.DISABLED:
            self._refuse(address, "it speaks TLS, and tls.server.mode is disabled")
        elif first != TLS_HANDSHAKE and mode is TlsMode.ENFORCING:
            self._refuse(address, "it does not speak TLS, and tls.server.mode is enforcing")
        else:
            return True
        return False

    async def serve_tls(self, plain: trio.SocketStream, address: Address) -> None:
        """Shake hands and serve an accepted connection whose first byte is TLS's; owns and closes it."""
        assert self._tls is not None
        try:
            stream = trio.SSLStream(plain, self._tls.context, server_side=True, https_compatible=True)
        except OSError as failure:
            # Only in test mode can the context still be to be made, in a file that the disk refuses.
            self._refuse(address, f"no certificate for test mode could be made: {failure}")
            await trio.aclose_forcefully(plain)
            return
        if await self._shaken_hands(stream, address):
            await self._serve_stream(stream, address)
        else:
            await trio.aclose_forcefully(stream)

    async def serve_either(self, plain: trio.SocketStream, address: Address, patience_seconds: float) -> None:
        """Serve an accepted connection where there is no hub to look at its first byte; owns and closes it."""
        first = b""
        self._silent_count += 1
        try:
            with trio.move_on_after(patience_seconds):
                first = await plain.socket.recv(1, socket.MSG_PEEK)
        except OSError as failure:
            _log.debug("%s:%d has ended before it said anything: %s", *address, failure)
        finally:
            self._silent_count -= 1
        if not first or not self.allows(first, address):
            await trio.aclose_forcefully(plain)
        elif first == TLS_HANDSHAKE:
            await self.serve_tls(plain, address)
        else:
            await self._serve_stream(plain, address)

    async def _shaken_hands(self, stream: trio.SSLStream[trio.SocketStream], address: Address) -> bool:
        if len(self._under_way) >= HANDSHAKES_MAX:
            next(iter(self._under_way)).cancel()
        with trio.move_on_after(HANDSHAKE_SECONDS) as scope:
            self._under_way[scope] = None
            try:
                await stream.do_handshake()
                return True
            except (trio.BrokenResourceError, trio.ClosedResourceError) as failure:
                self._refuse(address, f"its TLS handshake failed: {_reason(failure)}")
                return False
            finally:
                del self._under_way[scope]
        late = trio.current_time() >= scope.deadline
        why = f"was not done in {HANDSHAKE_SECONDS:g} s" if late else f"gave way to {HANDSHAKES_MAX} later ones"
        self._refuse(address, f"its TLS handshake {why}")
        return False

    def _refuse(self, address: Address, why: str) -> None:
        self.refused_count += 1
        _log.warning("closed the connection of %s:%d: %s", *address, why)


def _reason(failure: BaseException) -> str:
    """What OpenSSL said, without its file and line."""
    cause = failure.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return cause.reason or str(cause)
    return str(cause or failure) or "the connection ended"
