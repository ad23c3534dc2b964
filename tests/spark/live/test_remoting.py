"""The blocking client: answers are matched, everything that can go wrong names the address."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from rocketpy.errors import (
    BrokerError,
    RemoteProtocolError,
    RemotingConnectError,
    RemotingSendRequestError,
    RemotingTimeoutError,
)
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request, make_response
from rocketpy.protocol.frame import FrameReader, decode_command, encode_frame
from rocketpy.protocol.headers.queue_bounds import GetMaxOffsetRequestHeader
from rocketpy.protocol.signature import SessionCredentials, signature_matches
from rocketpy.protocol.signing_key import SigningKey
from rocketpy.remoting.tls.contexts import server_context
from rocketpy.spark.live.remoting import BlockingRemotingClient
from rocketpy.spark.live.tls import TlsFiles
from tests.remoting.certificate_files import crt, key, server_config

HEADER = GetMaxOffsetRequestHeader(topic="T", queue_id=3)
Answer = Callable[[RemotingCommand], bytes | None]


@contextmanager
def peer(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """A peer on loopback that serves one connection; ``None`` closes it. Yields its address."""

    def serve() -> None:
        connection, _ = listener.accept()
        if tls is not None:
            try:
                connection = tls.wrap_socket(connection, server_side=True)
            except OSError:
                connection.close()
                return
        reader = FrameReader()
        with connection:
            while received := connection.recv(65536):
                reader.receive(received)
                while (frame := reader.next_frame()) is not None:
                    reply = answer(decode_command(*frame))
                    if reply is None:
                        return
                    connection.sendall(reply)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(60)
        assert not thread.is_alive()


def request(address: str, timeout_s: float = 60.0) -> RemotingCommand:
    with BlockingRemotingClient(address, timeout_s=timeout_s) as client:
        return client.expect_success(RequestCode.GET_MAX_OFFSET, HEADER)


def test_request_and_answer_with_header_and_body() -> None:
    def answer(command: RemotingCommand) -> bytes:
        assert command.code == RequestCode.GET_MAX_OFFSET
        assert command.ext_fields == {"topic": "T", "queueId": "3"}
        return encode_frame(make_response(command, body=b"answer"))

    with peer(answer) as address:
        assert request(address).body == b"answer"


def test_what_a_broker_says_by_itself_and_late_answers_are_skipped() -> None:
    def answer(command: RemotingCommand) -> bytes:
        late = make_response(command)
        late.opaque -= 1
        own = make_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, oneway=True)
        own.opaque = command.opaque
        return b"".join(map(encode_frame, [late, own, make_response(command, body=b"mine")]))

    with peer(answer) as address:
        assert request(address).body == b"mine"


def test_an_error_code_carries_code_remark_and_address() -> None:
    def answer(command: RemotingCommand) -> bytes:
        return encode_frame(make_response(command, ResponseCode.TOPIC_NOT_EXIST, "no topic"))

    with peer(answer) as address, pytest.raises(BrokerError) as caught:
        request(address)
    assert (caught.value.response_code, caught.value.remark, caught.value.address) == (17, "no topic", address)


def test_a_closed_connection_names_the_address() -> None:
    with peer(lambda command: None) as address, pytest.raises(RemotingSendRequestError, match=address):
        request(address)


def test_silence_ends_at_the_timeout() -> None:
    with peer(lambda command: b"") as address, pytest.raises(RemotingTimeoutError, match=address):
        request(address, timeout_s=0.05)


def test_garbage_is_a_protocol_error_that_names_the_address() -> None:
    with peer(lambda command: b"HTTP/1.1 400 Bad") as address, pytest.raises(RemoteProtocolError, match=address):
        request(address)


def test_a_refused_connection_names_the_address() -> None:
    with socket.socket() as unused:  # holds the port without listening, so that no other process does
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(RemotingConnectError, match=f"127.0.0.1:{port}"):
            request(f"127.0.0.1:{port}")


def test_requests_are_signed_where_there_is_an_account() -> None:
    seen: list[RemotingCommand] = []

    def answer(request: RemotingCommand) -> bytes:
        seen.append(request)
        return encode_frame(make_response(request))

    credentials = SessionCredentials("RocketMQ", "12345678")
    with (
        peer(answer) as address,
        BlockingRemotingClient(address, timeout_s=60, credentials=credentials) as client,
    ):
        client.expect_success(RequestCode.GET_MAX_OFFSET, HEADER)
    (request,) = seen
    assert request.ext_fields is not None
    assert request.ext_fields["AccessKey"] == "RocketMQ"
    assert signature_matches(request.ext_fields, None, SigningKey("12345678"))


def test_several_requests_are_in_flight_and_each_gets_its_own_answer() -> None:
    """The peer answers nothing before both are there, and then the second one first."""
    kept: list[RemotingCommand] = []

    def answer(request: RemotingCommand) -> bytes:
        kept.append(request)
        if len(kept) == 1:
            return b""
        return b"".join(encode_frame(make_response(each, body=b"%d" % each.opaque)) for each in reversed(kept))

    with peer(answer) as address, BlockingRemotingClient(address, timeout_s=60) as client:
        first = client.send(RequestCode.GET_MAX_OFFSET, HEADER)
        second = client.send(RequestCode.GET_MAX_OFFSET, HEADER, b"body")
        assert client.receive(first).body == b"%d" % first
        assert client.receive(second).body == b"%d" % second
    assert [each.body for each in kept] == [None, b"body"]


def test_tls_with_a_known_issuer_and_a_certificate_of_its_own() -> None:
    context = server_context(
        server_config(need_client_auth="require", auth_client=True, trust_cert_path=crt("authority"))
    )
    files = TlsFiles(ca_file=crt("authority"), cert_file=crt("client"), key_file=key("client"))
    with (
        peer(lambda command: encode_frame(make_response(command, body=b"answer")), context) as address,
        BlockingRemotingClient(address, timeout_s=60, tls=files) as client,
    ):
        assert client.expect_success(RequestCode.GET_MAX_OFFSET, HEADER).body == b"answer"


def test_a_certificate_of_an_unknown_issuer_is_refused_unless_the_user_does_not_care() -> None:
    context = server_context(server_config())
    with (
        peer(lambda command: None, context) as address,
        pytest.raises(RemotingConnectError, match=f"connect to {address} failed: .*certificate verify failed"),
    ):
        BlockingRemotingClient(address, timeout_s=60, tls=TlsFiles())
    with (
        peer(lambda command: encode_frame(make_response(command)), context) as address,
        BlockingRemotingClient(address, timeout_s=60, tls=TlsFiles(is_insecure=True)) as client,
    ):
        client.expect_success(RequestCode.GET_MAX_OFFSET, HEADER)


@pytest.mark.parametrize("address", ["nonsense", "a:0", "a:65536"])
def test_an_address_that_is_none_is_named(address: str) -> None:
    with pytest.raises(RemotingConnectError, match=f"connect to '{address}' failed: expected host:port"):
        BlockingRemotingClient(address, timeout_s=60)
