"""The blocking client: answers are matched, everything that can go wrong names the address."""

from __future__ import annotations

import socket

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
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.headers.queue_bounds import GetMaxOffsetRequestHeader
from rocketpy.protocol.signature import SessionCredentials, proved_content, shape_of_request, signed_for
from rocketpy.protocol.signing_key import SigningKey
from rocketpy.remoting.tls.contexts import server_context
from rocketpy.spark.live.remoting import BlockingRemotingClient
from rocketpy.spark.live.tls import TlsFiles
from tests.remoting.certificate_files import crt, key, server_config
from tests.spark.live.fake_cluster import served

HEADER = GetMaxOffsetRequestHeader(topic="T", queue_id=3)


def request(address: str, timeout_s: float = 60.0) -> RemotingCommand:
    with BlockingRemotingClient(address, timeout_s=timeout_s) as client:
        return client.expect_success(RequestCode.GET_MAX_OFFSET, HEADER)


def test_request_and_answer_with_header_and_body() -> None:
    def answer(command: RemotingCommand) -> RemotingCommand:
        assert command.code == RequestCode.GET_MAX_OFFSET
        assert command.ext_fields == {"topic": "T", "queueId": "3"}
        return make_response(command, body=b"answer")

    with served(answer) as address:
        assert request(address).body == b"answer"


def test_what_a_broker_says_by_itself_and_late_answers_are_skipped() -> None:
    def answer(command: RemotingCommand) -> bytes:
        late = make_response(command)
        late.opaque -= 1
        own = make_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, oneway=True)
        own.opaque = command.opaque
        return b"".join(map(encode_frame, [late, own, make_response(command, body=b"mine")]))

    with served(answer) as address:
        assert request(address).body == b"mine"


def test_an_error_code_carries_code_remark_and_address() -> None:
    def answer(command: RemotingCommand) -> RemotingCommand:
        return make_response(command, ResponseCode.TOPIC_NOT_EXIST, "no topic")

    with served(answer) as address, pytest.raises(BrokerError) as caught:
        request(address)
    assert (caught.value.response_code, caught.value.remark, caught.value.address) == (17, "no topic", address)


def test_a_closed_connection_names_the_address() -> None:
    with served(lambda command: None) as address, pytest.raises(RemotingSendRequestError, match=address):
        request(address)


def test_silence_ends_at_the_timeout() -> None:
    with served(lambda command: b"") as address, pytest.raises(RemotingTimeoutError, match=address):
        request(address, timeout_s=0.05)


def test_garbage_is_a_protocol_error_that_names_the_address() -> None:
    with served(lambda command: b"HTTP/1.1 400 Bad") as address, pytest.raises(RemoteProtocolError, match=address):
        request(address)


def test_a_refused_connection_names_the_address() -> None:
    with socket.socket() as unused:  # holds the port without listening, so that no other process does
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(RemotingConnectError, match=f"127.0.0.1:{port}"):
            request(f"127.0.0.1:{port}")


def test_several_requests_are_in_flight_and_each_gets_its_own_answer() -> None:
    """The peer answers nothing before both are there, and then the second one first."""
    kept: list[RemotingCommand] = []

    def answer(request: RemotingCommand) -> bytes:
        kept.append(request)
        if len(kept) == 1:
            return b""
        return b"".join(encode_frame(make_response(each, body=b"%d" % each.opaque)) for each in reversed(kept))

    with served(answer) as address, BlockingRemotingClient(address, timeout_s=60) as client:
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
        served(lambda command: make_response(command, body=b"answer"), context) as address,
        BlockingRemotingClient(address, timeout_s=60, tls=files) as client,
    ):
        assert client.expect_success(RequestCode.GET_MAX_OFFSET, HEADER).body == b"answer"


def test_a_certificate_of_an_unknown_issuer_is_refused_unless_the_user_does_not_care() -> None:
    context = server_context(server_config())
    with (
        served(lambda command: None, context) as address,
        pytest.raises(RemotingConnectError, match=f"connect to {address} failed: .*certificate verify failed"),
    ):
        BlockingRemotingClient(address, timeout_s=60, tls=TlsFiles())
    with (
        served(make_response, context) as address,
        BlockingRemotingClient(address, timeout_s=60, tls=TlsFiles(is_insecure=True)) as client,
    ):
        client.expect_success(RequestCode.GET_MAX_OFFSET, HEADER)


@pytest.mark.parametrize("address", ["nonsense", "a:0", "a:65536"])
def test_an_address_that_is_none_is_named(address: str) -> None:
    with pytest.raises(RemotingConnectError, match=f"connect to '{address}' failed: expected host:port"):
        BlockingRemotingClient(address, timeout_s=60)


def test_a_nameserver_gets_no_signature_before_it_asks_for_one_and_a_broker_gets_one() -> None:
    asked: list[RemotingCommand] = []
    refuses = True

    def answer(request: RemotingCommand) -> bytes:
        asked.append(request)
        is_refused = refuses and "Signature" not in (request.ext_fields or {})
        return encode_frame(make_response(request, ResponseCode.NO_PERMISSION if is_refused else ResponseCode.SUCCESS))

    credentials = SessionCredentials("an-account", "a-secret")
    with served(answer) as address:
        for signs_when_asked in (False, True):
            with BlockingRemotingClient(
                address, timeout_s=60, credentials=credentials, signs_when_asked=signs_when_asked
            ) as client:
                for code in (
                    RequestCode.GET_MAX_OFFSET,
                    RequestCode.GET_ROUTEINFO_BY_TOPIC,
                    RequestCode.GET_MAX_OFFSET,
                ):
                    client.request(code, HEADER)
    signed = ["#signedFor" in (request.ext_fields or {}) for request in asked]
    assert signed == [True, True, True, False, False, True, True]
    for request in asked:
        if "#signedFor" in (request.ext_fields or {}):
            fields = request.ext_fields or {}
            assert proved_content(fields, request.body, SigningKey("a-secret"))
            assert fields["#signedFor"] == signed_for(request.code, address, shape_of_request(fields, request.body))
