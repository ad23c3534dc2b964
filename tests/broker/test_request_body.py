"""An invalid body or field refuses the request, and the remark names it."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.broker.metadata.groups import NAME_LENGTH_MAX
from rocketpy.broker.request_body import check_name, check_range, read_body
from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.lock import LockBatchRequestBody
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.headers.queue_bounds import GetMaxOffsetRequestHeader


def request(body: bytes | None) -> RemotingCommand:
    command = RemotingCommand(RequestCode.LOCK_BATCH_MQ)
    command.body = body
    return command


def test_a_body_is_read_as_its_class() -> None:
    body = LockBatchRequestBody("G", "client", [])
    assert read_body(request(encode_body(body)), LockBatchRequestBody) == body


@pytest.mark.parametrize("body", [None, b""])
def test_a_missing_body_is_named_by_its_class(body: bytes | None) -> None:
    with pytest.raises(RequestError) as caught:
        read_body(request(body), LockBatchRequestBody)
    assert caught.value.response_code == ResponseCode.SYSTEM_ERROR
    assert caught.value.remark == "LockBatchRequestBody: expected a body, found none"


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"[]", b"null", b'{"consumerGroup":{}}'])
def test_an_invalid_body_refuses_the_request_and_keeps_the_connection(body: bytes) -> None:
    """RemoteProtocolError would close the connection, with everything else that goes over it."""
    with pytest.raises(RequestError) as caught:
        read_body(request(body), LockBatchRequestBody)
    assert caught.value.response_code == ResponseCode.SYSTEM_ERROR
    assert caught.value.remark.startswith("body: ")
    assert caught.value.__cause__ is not None


HEADER = GetMaxOffsetRequestHeader(topic="T", queue_id=0)


@pytest.mark.parametrize(
    ("value", "low", "high"), [(0, 0, None), (5, 0, 5), (0, 0, 0), (-1, -1, 3), (1 << 62, 0, None)]
)
def test_the_limits_themselves_pass(value: int, low: int, high: int | None) -> None:
    check_range(HEADER, "queueId", value, low, high)


@pytest.mark.parametrize(
    ("value", "low", "high", "remark"),
    [
        (-1, 0, None, "GetMaxOffsetRequestHeader.queueId: expected 0 or more, found -1"),
        (6, 0, 5, "GetMaxOffsetRequestHeader.queueId: expected 0 to 5, found 6"),
        (0, 1, 5, "GetMaxOffsetRequestHeader.queueId: expected 1 to 5, found 0"),
    ],
)
def test_a_number_out_of_range_is_named_with_its_limits(value: int, low: int, high: int | None, remark: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_range(HEADER, "queueId", value, low, high)
    assert (caught.value.response_code, caught.value.remark) == (ResponseCode.SYSTEM_ERROR, remark)


@attrs.frozen
class Owner:
    name: str | None


@pytest.mark.parametrize("name", ["a", " a ", "x" * NAME_LENGTH_MAX])
def test_a_name_comes_back_as_it_is(name: str) -> None:
    assert check_name(Owner(name), "name", name) == name


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (None, "expected a name, found nothing"),
        ("", "expected a name, found a blank text"),
        (" \t", "expected a name, found a blank text"),
        ("x" * (NAME_LENGTH_MAX + 1), f"expected at most {NAME_LENGTH_MAX} characters, found {NAME_LENGTH_MAX + 1}"),
    ],
)
def test_an_invalid_name_is_refused_with_its_field(name: str | None, found: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_name(Owner(name), "name", name)
    assert (caught.value.response_code, caught.value.remark) == (ResponseCode.SYSTEM_ERROR, f"Owner.name: {found}")
