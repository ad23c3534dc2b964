"""Decoding and validation of request bodies. An invalid body refuses the request; the connection stays open."""

from __future__ import annotations

from typing import TypeVar

from rocketpy.broker.metadata.groups import NAME_LENGTH_MAX
from rocketpy.errors import RemoteProtocolError, RequestError
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.command import RemotingCommand

BodyT = TypeVar("BodyT")

SETTINGS_SIZE_MAX = 65_536
"""Bound of the properties text in a request: there are a few hundred settings of a few bytes each."""


def read_body(request: RemotingCommand, body_class: type[BodyT], size_max: int | None = None) -> BodyT:
    """Return the decoded body; RequestError(SYSTEM_ERROR) naming class and field when it is missing or invalid.

    A body above ``size_max`` bytes is refused without decoding, which would take a second for a full frame.
    """
    if not request.body:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"{body_class.__name__}: expected a body, found none")
    if size_max is not None and len(request.body) > size_max:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"{body_class.__name__}: expected at most {size_max} bytes, found {len(request.body)}",
        )
    try:
        return decode_body(request.body, body_class, is_bounded=True)
    except RemoteProtocolError as failure:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"body: {failure}") from failure


def check_range(header: object, field: str, value: int, low: int, high: int | None = None) -> None:
    """Refuse a number outside ``[low, high]`` with a remark that names header, field, limit and value."""
    if value < low or (high is not None and value > high):
        expected = f"{low} or more" if high is None else f"{low} to {high}"
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, f"{type(header).__name__}.{field}: expected {expected}, found {value}"
        )


def check_name(owner: object, field: str, value: str | None) -> str:
    """Return a name; refuse a missing, blank or too long one with a remark that names class and field."""
    if value is None or not value.strip():
        found = "nothing" if value is None else "a blank text"
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"{type(owner).__name__}.{field}: expected a name, found {found}")
    check_length(owner, field, value, NAME_LENGTH_MAX)
    return value


def check_length(owner: object, field: str, value: str, length_max: int) -> None:
    """Refuse a text that is too long with a remark that names class and field."""
    if len(value) > length_max:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"{type(owner).__name__}.{field}: expected at most {length_max} characters, found {len(value)}",
        )
