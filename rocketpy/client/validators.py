"""Checks of names, bodies and properties in the client, before anything is sent.

Every refusal is a ClientError with RocketMQ's code; its text names the limit and what was found.

Compatibility: ``Validators`` and ``MessageAccessor`` (4.9.8). Java lets a program set reserved properties by bypassing
the API, and loses a value that contains a separator; here both are refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from rocketpy.errors import ClientError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import Message
from rocketpy.protocol.properties import (
    NAME_VALUE_SEPARATOR,
    PROPERTIES_SIZE_MAX,
    PROPERTY_BUYER_ID,
    PROPERTY_DELAY_TIME_LEVEL,
    PROPERTY_INSTANCE_ID,
    PROPERTY_KEYS,
    PROPERTY_SEPARATOR,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
    PROPERTY_WAIT_STORE_MSG_OK,
    RESERVED_PROPERTIES,
)
from rocketpy.protocol.topic_name import NOT_ALLOWED_SEND_TOPICS, topic_name_fault

UNSPECIFIED = -1
GROUP_LENGTH_MAX = 255
DEFAULT_GROUPS = frozenset(("DEFAULT_PRODUCER", "DEFAULT_CONSUMER"))

# Java has a setter for each of these; every other reserved name belongs to RocketMQ itself.
SETTABLE_PROPERTIES = frozenset(
    (
        PROPERTY_KEYS,
        PROPERTY_TAGS,
        PROPERTY_WAIT_STORE_MSG_OK,
        PROPERTY_DELAY_TIME_LEVEL,
        PROPERTY_BUYER_ID,
        PROPERTY_INSTANCE_ID,
        PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
    )
)


def check_topic(topic: str) -> None:
    """Refuse an illegal topic name, and topics that belong to the broker."""
    try:
        fault = topic_name_fault(topic)
    except TypeError as failure:
        raise ClientError(UNSPECIFIED, f"the specified topic is {topic!r:.100}, expected text") from failure
    if fault is None and topic in NOT_ALLOWED_SEND_TOPICS:
        fault = f"Sending message to topic[{topic}] is forbidden."
    if fault is not None:
        raise ClientError(UNSPECIFIED, fault)


def check_group(group: str) -> None:
    """Refuse a group name that is blank, too long, illegal or one of the two that mean "not set"."""
    if group is not None and not isinstance(group, str):
        raise ClientError(UNSPECIFIED, f"the specified group is {group!r:.100}, expected text")
    if not group or group.isspace():
        raise ClientError(UNSPECIFIED, "the specified group is blank")
    if len(group) > GROUP_LENGTH_MAX:
        raise ClientError(
            UNSPECIFIED,
            f"the specified group is longer than group max length {GROUP_LENGTH_MAX}: it has {len(group)} characters",
        )
    if group in DEFAULT_GROUPS:
        raise ClientError(UNSPECIFIED, f"the group can not equal {group}, please specify another one.")
    if not all(each.isascii() and (each.isalnum() or each in "%|_-") for each in group):
        raise ClientError(
            UNSPECIFIED,
            f"the specified group[{group}] contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        )


def check_message(message: Message, max_message_size: int) -> None:
    """Refuse a message that no broker would take; the size is that of the body before compression."""
    check_topic(message.topic)
    check_body_size(body_size(message), max_message_size)
    check_properties(message.properties)
    if message.flag != 0 and not _is_int32(message.flag):
        raise ClientError(ResponseCode.MESSAGE_ILLEGAL, f"the message flag is {message.flag!r:.100}, expected an int32")


def body_size(message: Message) -> int:
    """Return the bytes of a body; ClientError for one that is text or may still change, as a bytearray may."""
    body: object = message.body
    if isinstance(body, bytes):
        return len(body)
    if body is None:
        raise ClientError(ResponseCode.MESSAGE_ILLEGAL, "the message body is null")
    raise ClientError(ResponseCode.MESSAGE_ILLEGAL, f"the message body is of {type(body).__name__}, expected bytes")


def check_body_size(size: int, max_message_size: int) -> None:
    """Refuse an empty body and one above the limit."""
    if size == 0:
        raise ClientError(ResponseCode.MESSAGE_ILLEGAL, "the message body length is zero")
    if size > max_message_size:
        raise ClientError(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the message body size over max value, MAX: {max_message_size}, found {size} bytes",
        )


def check_properties(properties: Mapping[str, str]) -> None:
    """Refuse properties that RocketMQ reserves or whose text would not survive encoding."""
    try:
        _check_properties(properties)
    except (AttributeError, TypeError) as failure:
        text = f"the message properties are {properties!r:.100}, expected text by text"
        raise ClientError(ResponseCode.MESSAGE_ILLEGAL, text) from failure


def _check_properties(properties: Mapping[str, str]) -> None:
    for name, value in properties.items():
        if name in RESERVED_PROPERTIES and name not in SETTABLE_PROPERTIES:
            raise ClientError(UNSPECIFIED, f"The Property<{name}> is used by system, input another please")
        if not name.strip() or not value.strip():
            raise ClientError(
                UNSPECIFIED, f"The name or value of property can not be null or blank string! Found {name!r}={value!r}"
            )
        for separator in (NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR):
            if separator in name or separator in value:
                raise ClientError(
                    UNSPECIFIED, f"the property {name!r} contains {separator!r}, which separates properties"
                )


def check_properties_bytes(size: int) -> None:
    """Refuse properties whose text, of so many bytes, does not fit into a record."""
    if size > PROPERTIES_SIZE_MAX:
        raise ClientError(
            ResponseCode.MESSAGE_ILLEGAL, f"the properties have {size} bytes, the limit is {PROPERTIES_SIZE_MAX}"
        )


def is_async(function: object) -> bool:
    """Whether a function returns something to await: a coroutine function, also decorated, or an object called so."""
    called = getattr(type(function), "__call__", None)  # noqa: B004 - the method, not whether there is one
    return any(map(inspect.iscoroutinefunction, (function, called, inspect.unwrap(function))))  # type: ignore[arg-type]


def check_async(handler: object) -> None:
    """TypeError for a handler that cannot be awaited: each call would have its effects, and then fail."""
    if not callable(handler):
        raise TypeError(f"expected a function as handler, found {handler!r:.100}")
    if not is_async(handler):
        raise TypeError(f"expected a coroutine function as handler (async def), found {handler!r:.100}")


def _is_int32(value: object) -> bool:
    return isinstance(value, int) and -(2**31) <= value < 2**31
