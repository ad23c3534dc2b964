"""Checks before anything is sent: what is refused, and what is not."""

from __future__ import annotations

import functools

import pytest

from rocketpy.client.validators import (
    check_async,
    check_body_size,
    check_group,
    check_message,
    check_properties_bytes,
    check_topic,
)
from rocketpy.errors import ClientError
from rocketpy.protocol.message import Message


@pytest.mark.parametrize("topic", ["T", "%RETRY%group", "a" * 127, "A|b-c_9", "TBW102"])
def test_a_legal_topic_passes(topic: str) -> None:
    check_topic(topic)


@pytest.mark.parametrize(
    ("topic", "fault"),
    [
        ("", "blank"),
        ("  ", "blank"),
        ("a" * 128, "has 128 characters, the limit is 127"),
        ("a b", "illegal characters.*' '"),
        ("naïve", "illegal characters"),
        ("SCHEDULE_TOPIC_XXXX", r"Sending message to topic\[SCHEDULE_TOPIC_XXXX\] is forbidden"),
    ],
)
def test_a_topic_that_cannot_be_is_named(topic: str, fault: str) -> None:
    with pytest.raises(ClientError, match=fault) as caught:
        check_topic(topic)
    assert caught.value.response_code == -1


@pytest.mark.parametrize("group", ["g", "%a|b-c_9", "a" * 255])
def test_a_legal_group_passes(group: str) -> None:
    check_group(group)


@pytest.mark.parametrize(
    ("group", "fault"),
    [
        ("", "blank"),
        (" ", "blank"),
        ("a" * 256, "max length 255: it has 256"),
        ("a b", r"group\[a b\] contains illegal characters"),
        ("grüppe", "illegal characters"),
        ("DEFAULT_PRODUCER", "can not equal DEFAULT_PRODUCER"),
        ("DEFAULT_CONSUMER", "can not equal DEFAULT_CONSUMER"),
    ],
)
def test_a_group_that_cannot_be_is_named(group: str, fault: str) -> None:
    with pytest.raises(ClientError, match=fault):
        check_group(group)


def test_the_limit_of_a_body_is_inclusive() -> None:
    check_body_size(10, 10)
    with pytest.raises(ClientError, match="MAX: 10, found 11 bytes") as caught:
        check_body_size(11, 10)
    assert caught.value.response_code == 13
    with pytest.raises(ClientError, match="length is zero"):
        check_body_size(0, 10)


@pytest.mark.parametrize("name", ["TAGS", "KEYS", "WAIT", "DELAY", "BUYER_ID", "INSTANCE_ID", "UNIQ_KEY", "colour"])
def test_properties_of_the_user_pass(name: str) -> None:
    check_message(Message("T", b"x", {name: "blue"}), 10)


@pytest.mark.parametrize("name", ["PGROUP", "TRAN_MSG", "REAL_TOPIC", "RETRY_TOPIC", "MIN_OFFSET"])
def test_properties_of_rocketmq_are_refused(name: str) -> None:
    with pytest.raises(ClientError, match=f"The Property<{name}> is used by system"):
        check_message(Message("T", b"x", {name: "1"}), 10)


@pytest.mark.parametrize(("name", "value"), [("", "v"), (" ", "v"), ("n", ""), ("n", " ")])
def test_a_blank_name_or_value_is_refused_because_it_would_not_arrive(name: str, value: str) -> None:
    with pytest.raises(ClientError, match="blank"):
        check_message(Message("T", b"x", {name: value}), 10)


@pytest.mark.parametrize(("name", "value"), [("a\x01b", "v"), ("a\x02b", "v"), ("n", "a\x01b"), ("n", "a\x02b")])
def test_the_separators_are_refused_because_they_would_cut_the_value(name: str, value: str) -> None:
    with pytest.raises(ClientError, match="separates properties"):
        check_message(Message("T", b"x", {name: value}), 10)


def test_properties_are_measured_in_bytes() -> None:
    check_properties_bytes(32767)
    with pytest.raises(ClientError, match="32768 bytes, the limit is 32767"):
        check_properties_bytes(32768)


@pytest.mark.parametrize("body", ["text", bytearray(b"x"), memoryview(b"x"), [1]])
def test_a_body_that_is_not_bytes_is_named(body: object) -> None:
    with pytest.raises(ClientError, match=f"the message body is of {type(body).__name__}, expected bytes"):
        check_message(Message("T", body), 100)  # type: ignore[arg-type]


@pytest.mark.parametrize("flag", [0, 1, -(2**31), 2**31 - 1])
def test_a_flag_is_an_int32(flag: int) -> None:
    check_message(Message("T", b"x", flag=flag), 100)
    with pytest.raises(ClientError, match="expected an int32"):
        check_message(Message("T", b"x", flag=flag + 2**32), 100)


class Called:
    async def __call__(self, batch: object) -> None: ...


async def coroutine_function(batch: object) -> None: ...


@functools.wraps(coroutine_function)
def wrapped(batch: object) -> object:
    return coroutine_function(batch)


@pytest.mark.parametrize("handler", [coroutine_function, wrapped, Called(), functools.partial(coroutine_function, 1)])
def test_what_can_be_awaited_is_a_handler(handler: object) -> None:
    check_async(handler)


@pytest.mark.parametrize("handler", [None, print, lambda batch: None, Called, functools.partial(print)])
def test_what_cannot_be_awaited_is_no_handler(handler: object) -> None:
    with pytest.raises(TypeError, match=r"expected a (coroutine )?function as handler( \(async def\))?, found"):
        check_async(handler)
