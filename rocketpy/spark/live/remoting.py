"""A blocking client for Spark's processes, which have no Trio: requests over one connection, several in flight.

Requests that the peer sends by itself, and answers that no longer have a request, are ignored. There is no
reconnecting: after any failure the client must not be used again.
"""

from __future__ import annotations

import socket
from types import TracebackType

from rocketpy.errors import (
    BrokerError,
    RemoteProtocolError,
    RemotingConnectError,
    RemotingSendRequestError,
    RemotingTimeoutError,
)
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.frame import FrameReader, decode_command, encode_frame
from rocketpy.protocol.host import plain_address, split_host_port
from rocketpy.protocol.signature import RequestSigner, SessionCredentials
from rocketpy.spark.live.tls import TlsFiles, client_context

RECEIVE_SIZE = 512 * 1024


class BlockingRemotingClient:
    """A connection to one nameserver or broker, closed by leaving its ``with`` block.

    Every failure names the address: ``RemotingConnectError``, ``RemotingSendRequestError`` (the connection ended),
    ``RemotingTimeoutError`` or ``RemoteProtocolError`` (the answer is none of RocketMQ's).
    """

    def __init__(
        self,
        address: str,
        *,
        timeout_s: float,
        credentials: SessionCredentials | None = None,
        tls: TlsFiles | None = None,
        signs_when_asked: bool = False,
    ) -> None:
        """With ``signs_when_asked`` no request is signed before the peer has answered a look-up of a route by
        NO_PERMISSION: that of a nameserver."""
        self.address = address
        self._is_asked = not signs_when_asked
        self._sign = None if credentials is None else RequestSigner(credentials)
        self._reader = FrameReader()
        self._opaque = 0
        self._answers: dict[int, RemotingCommand | None] = {}  # of the requests in flight
        self._hint = " (if the peer takes TLS only: option tls=true)" if tls is None else ""  # until it has answered
        self._socket = _connect(address, timeout_s, tls)
        self._peer = _peer_of(self._socket)

    def __enter__(self) -> BlockingRemotingClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def send(self, code: int, header: object | None, body: bytes | None = None) -> int:
        """Send a request; return its opaque, for :meth:`receive`."""
        request = make_request(code, header, body)
        if self._sign is not None and self._is_asked:
            self._sign(request, self._peer)
        self._opaque += 1
        request.opaque = self._opaque
        try:
            self._socket.sendall(encode_frame(request))
        except TimeoutError as error:
            raise RemotingTimeoutError(f"{self.address} did not take request {code} in time") from error
        except OSError as error:
            raise RemotingSendRequestError(f"request {code} to {self.address} failed: {error}") from error
        self._answers[request.opaque] = None
        return request.opaque

    def receive(self, opaque: int) -> RemotingCommand:
        """Return the answer to a request, whatever its response code; those to others are kept meanwhile."""
        try:
            while (answer := self._answers[opaque]) is None:
                command = self._next_command()
                if command.is_response and command.opaque in self._answers:
                    self._answers[command.opaque] = command
        except TimeoutError as error:
            raise RemotingTimeoutError(f"{self.address} did not answer in time") from error
        except OSError as error:
            raise RemotingSendRequestError(f"the connection to {self.address} failed: {error}{self._hint}") from error
        except RemoteProtocolError as error:
            raise RemoteProtocolError(f"{self.address}: {error}") from error
        del self._answers[opaque]
        return answer

    def request(self, code: int, header: object | None, body: bytes | None = None) -> RemotingCommand:
        """Send a request and return its answer, whatever its response code."""
        answer = self.receive(self.send(code, header, body))
        asks = answer.code == ResponseCode.NO_PERMISSION and code == RequestCode.GET_ROUTEINFO_BY_TOPIC
        if asks and self._sign is not None and not self._is_asked:
            self._is_asked = True
            return self.receive(self.send(code, header, body))
        return answer

    def expect_success(self, code: int, header: object | None, body: bytes | None = None) -> RemotingCommand:
        """Send a request and return its answer; :class:`BrokerError` unless it is SUCCESS."""
        return self.succeeded(self.request(code, header, body))

    def succeeded(self, answer: RemotingCommand) -> RemotingCommand:
        """Return an answer; :class:`BrokerError` unless it is SUCCESS."""
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark, self.address)
        return answer

    def _next_command(self) -> RemotingCommand:
        while (frame := self._reader.next_frame()) is None:
            received = self._socket.recv(RECEIVE_SIZE)
            if not received:
                raise ConnectionResetError("it was closed by the peer")
            self._reader.receive(received)
            self._hint = ""
        return decode_command(*frame)


def _peer_of(connection: socket.socket) -> str:
    """Return the numeric address of a connection's peer; empty when it has already gone."""
    try:
        name = connection.getpeername()
    except OSError:
        return ""
    return plain_address(f"{name[0]}:{name[1]}")


def _connect(address: str, timeout_s: float, tls: TlsFiles | None) -> socket.socket:
    context = None if tls is None else client_context(tls)
    try:
        host, port = split_host_port(address)
    except ValueError:
        raise RemotingConnectError(f"connect to {address!r} failed: expected host:port") from None
    try:
        connection = socket.create_connection((host, port), timeout=timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            return context.wrap_socket(connection, server_hostname=host)
    except OSError as error:
        raise RemotingConnectError(f"connect to {address} failed: {error}") from error
    return connection
