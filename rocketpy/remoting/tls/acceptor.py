"""TLS detection by the first byte of an accepted connection, and the handshake.

0x16 is the first byte of a TLS ClientHello; as the first byte of a frame it would announce 369 MB, so there is no
ambiguity. The byte is peeked at and stays in the socket buffer, so a plain connection is served as if unread.

Rules: a handshake has HANDSHAKE_SECONDS. At most HANDSHAKES_MAX are in progress; one more cancels the oldest of the
address that has most. An honest peer is done in milliseconds, so this hits connections that only occupy a slot, and an
address that floods displaces its own. However a handshake fails, its socket is closed.

Compatibility: ``NettyRemotingServer.HandshakeHandler`` (4.9.8), which closes connections that the mode does not allow.
Netty also allows ten seconds per handshake, but any number of them.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable

import trio

from rocketpy.remoting.config import TlsMode
from rocketpy.remoting.limits.refusal_log import RefusalLog
from rocketpy.remoting.tls.contexts import ServerTls

TLS_HANDSHAKE = b"\x16"
HANDSHAKE_SECONDS = 10.0
HANDSHAKES_MAX = 256

Address = tuple[str, int]
ServeStream = Callable[[trio.abc.Stream, Address], Awaitable[None]]

_log = logging.getLogger("rocketpy.remoting")


class TlsAcceptor:
    """The handshakes of one server; the TLS stream is then passed to ``serve_stream``, in the same task."""

    def __init__(self, *, tls: ServerTls | None, serve_stream: ServeStream, refusals: RefusalLog) -> None:
        """Without ``tls`` the server refuses TLS, as in mode ``disabled``."""
        self._tls = tls
        self._serve_stream = serve_stream
        self._refusals = refusals
        self._under_way: dict[trio.CancelScope, str] = {}  # scope of each handshake, oldest first, to its host
        self.refused_count = 0
        """Connections that the mode does not allow, and failed handshakes."""

    @property
    def under_way_count(self) -> int:
        """Number of handshakes in progress."""
        return len(self._under_way)

    def allows(self, first: bytes, address: Address) -> bool:
        """Whether the mode accepts a connection with this first byte; a refusal is logged."""
        mode = TlsMode.DISABLED if self._tls is None else self._tls.mode
        if first == TLS_HANDSHAKE and mode is TlsMode.DISABLED:
            self._refuse(address, "it speaks TLS, and tls.server.mode is disabled")
        elif first != TLS_HANDSHAKE and mode is TlsMode.ENFORCING:
            self._refuse(address, "it does not speak TLS, and tls.server.mode is enforcing")
        else:
            return True
        return False

    async def serve_tls(self, plain: trio.SocketStream, address: Address) -> None:
        """Do the handshake and serve an accepted connection that starts with a ClientHello; owns and closes it."""
        assert self._tls is not None
        try:
            stream = trio.SSLStream(plain, self._tls.context, server_side=True, https_compatible=True)
        except OSError as failure:
            # Only test mode creates the context this late, and for that it writes a temporary file.
            self._refuse(address, f"no certificate for test mode could be made: {failure}")
            await trio.aclose_forcefully(plain)
            return
        succeeded = False
        try:
            succeeded = await self._do_handshake(stream, address)
        finally:
            if not succeeded:
                await trio.aclose_forcefully(stream)
        if succeeded:
            await self._serve_stream(stream, address)

    async def serve_either(self, plain: trio.SocketStream, address: Address, patience_seconds: float) -> None:
        """Serve an accepted connection without a hub: peek at its first byte here; owns and closes it."""
        first = b""
        try:
            with trio.move_on_after(patience_seconds):
                first = await plain.socket.recv(1, socket.MSG_PEEK)
        except OSError as failure:
            _log.debug("%s:%d ended before it sent anything: %s", *address, failure)
        finally:
            is_allowed = bool(first) and self.allows(first, address)
            if not is_allowed:
                await trio.aclose_forcefully(plain)
        if not is_allowed:
            return
        if first == TLS_HANDSHAKE:
            await self.serve_tls(plain, address)
        else:
            await self._serve_stream(plain, address)

    async def _do_handshake(self, stream: trio.SSLStream[trio.SocketStream], address: Address) -> bool:
        if len(self._under_way) >= HANDSHAKES_MAX:
            self._make_room()
        with trio.move_on_after(HANDSHAKE_SECONDS) as scope:
            self._under_way[scope] = address[0]
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

    def _make_room(self) -> None:
        """Cancel the oldest handshake of the address that has most of them."""
        greedy, _ = Counter(self._under_way.values()).most_common(1)[0]
        next(scope for scope, host in self._under_way.items() if host == greedy).cancel()

    def _refuse(self, address: Address, why: str) -> None:
        self.refused_count += 1
        self._refusals.warn(address[0], "closed the connection of %s:%d: %s", *address, why)


def _reason(failure: BaseException) -> str:
    """Return OpenSSL's reason, without its file and line."""
    cause = failure.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return cause.reason or str(cause)
    return str(cause or failure) or "the connection ended"
