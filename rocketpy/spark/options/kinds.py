"""Kinds of option values: what a text means, and what is expected of it.

Spark passes every option as text. A kind turns the text into a value or raises ``ValueError``; the message that the
user reads is made of ``expected``, so it says what would have been right.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Generic, TypeVar

import attrs

from rocketpy.protocol.host import split_host_port

T_co = TypeVar("T_co", covariant=True)


@attrs.frozen
class Kind(Generic[T_co]):
    """``expected`` completes the sentence "expected ..."; ``shown`` is the word in the documentation's table.

    Where ``explains``, the words of the ``ValueError`` are for the user, too.
    """

    shown: str
    expected: str
    parse: Callable[[str], T_co]
    explains: bool = False


def whole_number(least: int, most: int) -> Kind[int]:
    """Return the kind of a number with bounds."""

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise ValueError
        return int(text)

    return Kind("number", f"a whole number from {least} to {most}", parse)


def size_in_bytes(least: int, most: int) -> Kind[int]:
    """Return the kind of a number of bytes with bounds, also as ``64k``, ``64m`` or ``1g``, with or without a ``b``."""

    def parse(text: str) -> int:
        number, unit = text.lower().removesuffix("b"), 0
        if number and number[-1] in "kmg":
            number, unit = number[:-1].rstrip(), "kmg".index(number[-1]) + 1
        if not number.isascii() or not number.isdigit() or not least <= int(number) << 10 * unit <= most:
            raise ValueError
        return int(number) << 10 * unit

    return Kind("bytes", f"a size from {least} to {most} bytes, such as 64m", parse)


def one_of(*words: str) -> Kind[str]:
    """Return the kind of a word out of several, in any case."""

    def parse(text: str) -> str:
        if text.lower() not in words:
            raise ValueError
        return text.lower()

    return Kind(", ".join(words), f"{', '.join(words[:-1])} or {words[-1]}", parse)


def _text(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _local_path(text: str) -> str:
    """Return a path, or that of a URL of the scheme file; as in Spark's own paths nothing is escaped in it."""
    if not text:
        raise ValueError("it is empty")
    url = _URL.fullmatch(text)
    if url is None:
        return text
    if url["scheme"].lower() != "file" or url["host"] not in (None, "", "localhost"):
        raise ValueError("files are read from a file system that the driver and every executor have mounted")
    return url["path"]


def _names(text: str) -> tuple[str, ...]:
    """Split at commas; each name once, in the order given."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise ValueError
    return names


def _addresses(text: str) -> tuple[str, ...]:
    addresses = tuple(part.strip() for part in text.split(";") if part.strip())
    if not addresses:
        raise ValueError
    for address in addresses:
        split_host_port(address)
    return addresses


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def _timestamp_ms(text: str) -> int:
    """Milliseconds since the epoch, or an ISO 8601 time; one without a zone is UTC."""
    if text.isascii() and text.isdigit():
        if int(text) > _TIMESTAMP_MS_MAX:
            raise ValueError
        return int(text)
    time = datetime.fromisoformat(text)
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def _seconds(text: str) -> float:
    """As Spark writes a time: a number and a unit; without a unit it is milliseconds."""
    match = _DURATION.fullmatch(text.lower())
    if match is None:
        raise ValueError
    return int(match[1]) * _UNITS_MS[match[2] or "ms"] / 1000


_TIMESTAMP_MS_MAX = (1 << 63) - 1  # a later time fits no request and no column
_DURATION = re.compile(r"([0-9]{1,12}) ?(ms|s|m|min|h|d)?")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(//(?P<host>[^/]*))?(?P<path>/.*)", re.DOTALL)

TEXT = Kind("text", "a text that is not empty", _text)
LOCAL_PATH = Kind("text", "the path of a local directory, or file:///path", _local_path, explains=True)
NAMES = Kind("names, separated by commas", "one name, or several separated by commas", _names)
ADDRESSES = Kind("host:port, separated by ;", "host:port, or several separated by semicolons", _addresses)
BOOLEAN = Kind("true, false", "true or false", _boolean)
TIMESTAMP = Kind(
    "ms or ISO 8601", "milliseconds since the epoch or a time like 2026-01-31T12:00:00+00:00", _timestamp_ms
)
DURATION = Kind("time such as 500ms, 10s, 15m", "a time such as 500ms, 10s, 15m or 1h", _seconds)
