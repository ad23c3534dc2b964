"""Every header field of sends, pulls and queries, missing, empty, not a number, out of range; bodies of any bytes.

Rule: there is always one answer, with a code of RocketMQ's and a remark that names the field; nothing is stored; the
connection lives. A remark that begins with the name of a Python exception would be a bug that the server caught.
"""

from __future__ import annotations

import re
import typing

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketpy.protocol.codes import RequestCode, ResponseCode, SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.headers.codec import wire_names
from rocketpy.protocol.headers.pull import PullMessageRequestHeader
from rocketpy.protocol.headers.query import QueryMessageRequestHeader, ViewMessageRequestHeader
from rocketpy.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from rocketpy.remoting.config import ConnectionLimits
from tests.broker.message_broker import MessageBroker, open_message_broker, pull, send

HEADERS: dict[int, type] = {
    RequestCode.SEND_MESSAGE: SendMessageRequestHeader,
    RequestCode.SEND_MESSAGE_V2: SendMessageRequestHeaderV2,
    RequestCode.SEND_BATCH_MESSAGE: SendMessageRequestHeaderV2,
    RequestCode.PULL_MESSAGE: PullMessageRequestHeader,
    RequestCode.QUERY_MESSAGE: QueryMessageRequestHeader,
    RequestCode.VIEW_MESSAGE_BY_ID: ViewMessageRequestHeader,
}
SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
CASES = [(code, name) for code, header_class in HEADERS.items() for name in wire_names(header_class)]
NUMBERS = [
    (code, name)
    for code, header_class in HEADERS.items()
    for name, annotation in zip(
        wire_names(header_class), typing.get_type_hints(header_class, include_extras=True).values(), strict=True
    )
    if "IntegerRange" in str(annotation)
]
EXCEPTION = re.compile(r"[A-Z][A-Za-z]*(Error|Exception)\b")
BAD_TEXTS = ["", " ", "\x00", "\u2028", "a" * 40_000, "1.5", "0x1", "１", "@", "true"]
BAD_TEXTS += ["-1", "2147483648", "-2147483649", "9223372036854775808", "9" * 5000]


def good_fields(code: int) -> dict[str, str]:
    """Return a valid request of the code."""
    if code in SENDS:
        fields = send(code=code, default_topic="NoModel", broker_name="b", max_reconsume_times=1).ext_fields
    elif code == RequestCode.PULL_MESSAGE:
        fields = pull(broker_name="b").ext_fields
    elif code == RequestCode.QUERY_MESSAGE:
        fields = {"topic": "T", "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "1"}
    else:
        fields = {"offset": "0"}
    return dict(fields or {})


async def ask(
    broker: MessageBroker,
    code: int,
    fields: dict[str, str] | None,
    body: bytes = b"body",
    serialize_type: SerializeType = SerializeType.JSON,
) -> RemotingCommand:
    """Ask, check the rule, and return the answer."""
    before = broker.stored_bytes
    connection = broker.connect(limits=ConnectionLimits(deferred_replies_max=0))  # no pull is held
    request = RemotingCommand(code, fields, body if code in SENDS else None, serialize_type=serialize_type)
    (answer,) = await broker.ask_frames(encode_frame(request), connection)
    assert not connection.is_closed
    assert connection.deferred_count == 0
    ResponseCode(answer.code)
    if answer.code != ResponseCode.SUCCESS:
        assert answer.remark
        assert not EXCEPTION.match(answer.remark), answer.remark
        assert len(answer.remark) < 1000
        if answer.code != ResponseCode.PULL_OFFSET_MOVED:  # which stores an OFFSET_MOVED_EVENT
            assert broker.stored_bytes == before
    if code in SENDS:
        extra = answer.ext_fields or {}
        assert (extra["MSG_REGION"], extra["TRACE_ON"]) == ("DefaultRegion", "true")
    return answer


@pytest.mark.parametrize("serialize_type", list(SerializeType))
@pytest.mark.parametrize(("code", "name"), CASES)
async def test_a_bad_field_is_answered(code: int, name: str, serialize_type: SerializeType) -> None:
    async with open_message_broker() as broker:
        for text in BAD_TEXTS:
            await ask(broker, code, {**good_fields(code), name: text}, serialize_type=serialize_type)


@pytest.mark.parametrize(("code", "name"), NUMBERS)
async def test_what_is_no_number_is_named(code: int, name: str) -> None:
    async with open_message_broker() as broker:
        for text in ("x", "1.5", "99999999999999999999", "-99999999999999999999", " 1", ""):
            answer = await ask(broker, code, {**good_fields(code), name: text})
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert re.match(rf"{HEADERS[code].__name__}\.{name}: expected int(32|64), found ", answer.remark or "")
            assert (answer.remark or "").endswith(f"found {text}")


@pytest.mark.parametrize(("code", "name"), CASES)
async def test_a_missing_field_that_is_needed_is_named(code: int, name: str) -> None:
    async with open_message_broker() as broker:
        fields = good_fields(code)
        fields.pop(name, None)
        answer = await ask(broker, code, fields)
        header_class = HEADERS[code]
        if attrs.fields(header_class)[wire_names(header_class).index(name)].default is attrs.NOTHING:
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert (answer.remark or "").startswith(f"{header_class.__name__}.{name}: expected ")
            assert (answer.remark or "").endswith("found nothing")


@pytest.mark.parametrize("fields", [None, {}])
@pytest.mark.parametrize("code", HEADERS)
async def test_no_fields_at_all(code: int, fields: dict[str, str] | None) -> None:
    async with open_message_broker() as broker:
        assert (await ask(broker, code, fields)).code == ResponseCode.SYSTEM_ERROR


TEXTS = st.one_of(
    st.sampled_from(BAD_TEXTS + ["0", "1", "4", "true", "%RETRY%g", "TopicTest", "||"]), st.text(max_size=9)
)


REQUESTS = st.tuples(
    st.sampled_from(list(HEADERS)),
    st.lists(st.tuples(st.integers(0, 20), TEXTS), max_size=4),
    st.binary(max_size=60),
    st.sampled_from(SerializeType),
)


@given(requests=st.lists(REQUESTS, min_size=10, max_size=20))
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
async def test_any_fields_and_any_body_are_answered(
    requests: list[tuple[int, list[tuple[int, str]], bytes, SerializeType]],
) -> None:
    """Several for each broker, because to open one takes ten times as long as to ask."""
    async with open_message_broker() as broker:
        for code, changes, body, serialize_type in requests:
            fields = good_fields(code)
            names = wire_names(HEADERS[code])
            fields.update({names[number % len(names)]: text for number, text in changes})
            await ask(broker, code, fields, body, serialize_type)
            assert (await broker.ask(send())).code == ResponseCode.SUCCESS
