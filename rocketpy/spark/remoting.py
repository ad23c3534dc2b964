"""A blocking client for Spark's executors, which have no Trio: one request at a time over one connection.

It waits for the answer to its request and ignores requests of the broker. It supports neither several requests in
flight nor reconnecting nor TLS: Spark repeats a failed task.
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
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.frame import FrameReader, decode_command, encode_frame
from rocketpy.protocol.signature import RequestSigner, SessionCredentials
from rocketpy.spark.options.kinds import parse_address

RECEIVE_SIZE = 256 * 1024


class BlockingRemotingClient:
    """A connection to one nameserver or broker, closed by leaving its ``with`` block.

    Every failure names the address: ``RemotingConnectError``, ``RemotingSendRequestError`` (the connection ended) or
    ``RemotingTimeoutError``. After any of them the client must not be used again.
    """

    def __init__(self, address: str, *, timeout_s: float, credentials: SessionCredentials | None = None) -> None:
        self._sign = None if credentials is None else RequestSigner(credentials)
        self._address = address
        self._reader = FrameReader()
        self._opaque = 0
        try:
            self._socket = socket.create_connection(parse_address(address), timeout=timeout_s)
        except (OSError, ValueError) as error:
            raise RemotingConnectError(f"connect to {address} failed: {error or 'expected host:port'}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> BlockingRemotingClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def request(self, code: int, header: object | None, body: bytes | None = None) -> RemotingCommand:
        """Send a request and return its answer, whatever its response code."""
        request = make_request(code, header, body)
        if self._sign is not None:
            self._sign(request)
        self._opaque += 1
        request.opaque = self._opaque
        try:
            self._socket.sendall(encode_frame(request))
            while True:
                command = self._next_command()
                if command.is_response and command.opaque == request.opaque:
                    return command
        except TimeoutError as error:
            raise RemotingTimeoutError(f"{self._address} did not answer request {code} in time") from error
        except OSError as error:
            raise RemotingSendRequestError(f"request {code} to {self._address} failed: {error}") from error
        except RemoteProtocolError as error:
            raise RemoteProtocolError(f"{self._address}: {error}") from error

    def expect_success(self, code: int, header: object | None, body: bytes | None = None) -> RemotingCommand:
        """Send a request and return its answer; :class:`BrokerError` unless it is SUCCESS."""
        response = self.request(code, header, body)
        if response.code != ResponseCode.SUCCESS:
            raise BrokerError(response.code, response.remark, self._address)
        return response

    def _next_command(self) -> RemotingCommand:
        while (frame := self._reader.next_frame()) is None:
            received = self._socket.recv(RECEIVE_SIZE)
            if not received:
                raise ConnectionResetError("the connection was closed by the peer")
            self._reader.receive(received)
        return decode_command(*frame)
