"""Commands as values: what a request and its answer have in common, and what the flag bits say."""

from __future__ import annotations

import pytest

from rocketpy.errors import LocalProtocolError
from rocketpy.protocol.codes import MQ_VERSION, LanguageCode, RequestCode, ResponseCode, SerializeType
from rocketpy.protocol.command import RemotingCommand, make_request, make_response
from rocketpy.protocol.headers.queue_bounds import GetMaxOffsetRequestHeader, GetMaxOffsetResponseHeader


@pytest.mark.parametrize(
    ("flag", "is_response", "is_oneway"), [(0, False, False), (1, True, False), (2, False, True), (3, True, True)]
)
def test_flag_bits(flag: int, is_response: bool, is_oneway: bool) -> None:
    command = RemotingCommand(code=0, flag=flag)
    assert (command.is_response, command.is_oneway) == (is_response, is_oneway)


def test_bits_beyond_the_two_known_ones_change_nothing() -> None:
    command = RemotingCommand(code=0, flag=4)
    assert not command.is_response
    assert not command.is_oneway


def test_request_carries_its_header_as_text_fields() -> None:
    request = make_request(RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader(topic="T", queue_id=3), b"body")
    assert request == RemotingCommand(
        code=30,
        ext_fields={"topic": "T", "queueId": "3"},
        body=b"body",
        opaque=0,
        flag=0,
        language=LanguageCode.PYTHON,
        version=MQ_VERSION,
        serialize_type=SerializeType.JSON,
    )


def test_request_without_header_has_no_fields() -> None:
    assert make_request(RequestCode.GET_ALL_TOPIC_CONFIG).ext_fields is None


def test_oneway_request() -> None:
    assert make_request(RequestCode.HEART_BEAT, oneway=True).flag == 2


@pytest.mark.parametrize("serialize_type", SerializeType)
def test_response_repeats_opaque_and_serialize_type_of_its_request(serialize_type: SerializeType) -> None:
    request = RemotingCommand(code=30, opaque=-7, flag=2, version=407, serialize_type=serialize_type)
    response = make_response(request, header=GetMaxOffsetResponseHeader(offset=5), body=b"b")
    assert response == RemotingCommand(
        code=ResponseCode.SUCCESS,
        ext_fields={"offset": "5"},
        body=b"b",
        opaque=-7,
        flag=1,
        version=MQ_VERSION,
        serialize_type=serialize_type,
    )


def test_refusal() -> None:
    response = make_response(RemotingCommand(code=9998, opaque=1), ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "no")
    assert (response.code, response.remark, response.ext_fields, response.body) == (3, "no", None, None)


def test_header_that_does_not_fit_the_wire_makes_no_command() -> None:
    with pytest.raises(LocalProtocolError, match=r"GetMaxOffsetRequestHeader\.queueId: expected int32"):
        make_request(RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader(topic="T", queue_id=2**31))
