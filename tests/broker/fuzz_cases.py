"""Bad requests, derived: from header classes by their attributes, and from what Java's clients really sent by mutation.

A *base* is a request that makes sense. A *case* is a base of which one thing is spoiled: a field (missing, empty, much
too long, no number, out of range ...), the body (absent, random, cut, of another shape), or the body and the fields at
once. Cases say what was spoiled, so that an answer can be held against it.
"""

from __future__ import annotations

import gzip
import importlib
import inspect
import json
import pkgutil
import re
import typing
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from random import Random
from types import EllipsisType
from typing import Annotated, Final

import attrs

import rocketpy.protocol.headers as headers
from rocketpy.protocol.codes import RequestCode, SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import decode_frame, encode_frame
from rocketpy.protocol.headers.codec import IntegerRange, wire_names

FRAMES = Path(__file__).parents[1] / "golden" / "frames.jsonl.gz"
BASES_PER_CODE_MAX = 3

FIELD_VALUES: Final = (
    None,  # missing
    "",
    " ",
    "x" * 300,
    "x" * 40_000,
    "abc",
    "-1",
    "0",
    "2147483648",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "9" * 400,
    "1e3",
    "0x10",
    "1_0",
    "\N{ARABIC-INDIC DIGIT THREE}",
    "null",
    "true",
    "nul\0byte",
    "line\nbreak",
    "../../../etc/passwd",
    "\N{ROCKET}\ud83d",
    "%RETRY%",
    '{"a":[1]}',
)
BODIES: Final = (
    None,
    b"\0",
    b"{",
    b"[]",
    b"{}",
    b"null",
    b"1",
    b'"text"',
    b"[[[[[[[[",
    b"[" * 100_000,
    b'{"a":' * 20_000,
    b"\xff\xfe\xfd" * 50,
    b"a=b\nc=\\u12",
    b'{"clientID":1,"producerDataSet":[1],"consumerDataSet":{}}',
    b'{"offsetTable":{"a":{"b":"c"}}}',
    b'{"mqSet":[{}],"consumerGroup":[],"clientId":{}}',
    b'{"topicConfigSerializeWrapper":[],"filterServerList":7}',
    b"1" * 5000,
    b'{"a":1e999999999}',
    b"x" * 300_000,
)


HELD_PULL: Final = {
    "consumerGroup": "GoldGroup",
    "topic": "TBW102",
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "32",
    "sysFlag": "6",
    "commitOffset": "0",
    "suspendTimeoutMillis": "20000",
    "subscription": "*",
    "subVersion": "0",
    "expressionType": "TAG",
}
"""A pull that waits for a message."""


@attrs.frozen
class Case:
    """One bad request; ``field`` is the name of the spoiled field, None when it is the body or everything."""

    command: RemotingCommand
    field: str | None
    what: str
    base: RemotingCommand

    @property
    def frame(self) -> bytes:
        """The bytes to send."""
        return encode_frame(self.command)

    def __str__(self) -> str:
        return f"code {self.command.code}, {self.what}"


def cases_of(base: RemotingCommand, random: Random, asked: Collection[str] = ()) -> Iterator[Case]:
    """Yield each way to spoil one thing of a request; of fields that were ``asked`` in another base, some ways."""
    fields = base.ext_fields or {}
    for number, name in enumerate(fields):
        for value in FIELD_VALUES[number % 3 :: 3] if name in asked else FIELD_VALUES:
            yield Case(changed(base, fields=with_field(fields, name, value)), name, f"{name} = {_shown(value)}", base)
    yield Case(changed(base, fields={}), None, "no fields", base)
    for body in (*BODIES, *spoiled_bodies(base.body or b"", random)):
        yield Case(changed(base, body=body), None, f"body {_shown(body)}", base)
    yield Case(changed(base, fields={}, body=random.randbytes(64)), None, "no fields, random body", base)


def spoiled_bodies(body: bytes, random: Random) -> Iterator[bytes]:
    """Yield a body cut at some positions, with a flipped byte at some others, and random ones."""
    for _ in range(6):
        if body:
            yield body[: random.randrange(len(body))]
            at = random.randrange(len(body))
            yield body[:at] + bytes([body[at] ^ (1 << random.randrange(8))]) + body[at + 1 :]
        yield random.randbytes(random.randrange(1, 200))


def changed(
    base: RemotingCommand,
    *,
    fields: dict[str, str] | None = None,
    body: bytes | EllipsisType | None = ...,
) -> RemotingCommand:
    """Return the base with other fields or another body."""
    command = RemotingCommand(
        code=base.code,
        language=base.language,
        version=base.version,
        opaque=base.opaque,
        flag=base.flag & ~2,  # oneways are sent as requests, otherwise there would be no answer
        ext_fields=dict(base.ext_fields or {}) if fields is None else fields,
        body=base.body if body is ... else body,
    )
    command.serialize_type = base.serialize_type
    return command


def with_field(fields: dict[str, str], name: str, value: str | None) -> dict[str, str]:
    """Return the fields with one of them changed, or left out for None."""
    others = {key: other for key, other in fields.items() if key != name}
    return others if value is None else {**others, name: value}


@cache
def golden_requests(peer: str) -> dict[int, list[RemotingCommand]]:
    """Return what was sent to a Java ``peer`` (broker or namesrv), a few different ones of each code."""
    found: dict[int, dict[object, RemotingCommand]] = {}
    with gzip.open(FRAMES, "rt") as lines:
        for line in lines:
            row = json.loads(line)
            if row["to"] != peer or row["kind"] == "response":
                continue
            command = decode_frame(bytes.fromhex(row["frame_hex"]))
            shape = (frozenset(command.ext_fields or {}), command.body is None, command.serialize_type)
            found.setdefault(command.code, {}).setdefault(shape, command)
    return {code: list(shapes.values())[:BASES_PER_CODE_MAX] for code, shapes in found.items()}


@cache
def header_classes() -> dict[int, list[type]]:
    """Return the header classes of each code: the first words of their docstrings are ``Request N``."""
    found: dict[int, list[type]] = {}
    for module in pkgutil.iter_modules(headers.__path__):
        for _, each in inspect.getmembers(
            importlib.import_module(f"{headers.__name__}.{module.name}"), inspect.isclass
        ):
            if attrs.has(each) and (each.__doc__ or "").startswith("Request "):
                first = (each.__doc__ or "").partition("\n")[0].partition(".")[0].partition(":")[0]
                for code in re.findall(r"\b(\d+)\b", first):
                    found.setdefault(int(code), []).append(each)
    return found


def made_request(code: int, header_class: type, serialize_type: SerializeType) -> RemotingCommand:
    """Return a request with every field of a header class, each with a value of its type."""
    hints = typing.get_type_hints(header_class, include_extras=True)
    values = [_plain(hints[field.name]) for field in attrs.fields(header_class)]
    command = RemotingCommand(code=code, ext_fields=dict(zip(wire_names(header_class), values, strict=True)))
    command.serialize_type = serialize_type
    return command


def bases_of(code: int, peer: str) -> list[RemotingCommand]:
    """Return requests of a code that make sense: recorded ones, one made of each header class, and an empty one."""
    bases = list(golden_requests(peer).get(code, []))
    for header_class in header_classes().get(code, []):
        bases.append(made_request(code, header_class, SerializeType.JSON))
    if code == RequestCode.PULL_MESSAGE:
        bases.append(RemotingCommand(code=code, ext_fields=dict(HELD_PULL)))
    bases.append(RemotingCommand(code=code, ext_fields={}))
    return [changed(base) for base in bases]


def _plain(annotation: object) -> str:
    kinds = [kind for kind in typing.get_args(annotation) if kind is not type(None)]
    if type(None) in typing.get_args(annotation):
        annotation = kinds[0]
    if typing.get_origin(annotation) is Annotated:
        assert isinstance(typing.get_args(annotation)[1], IntegerRange)
        return "0"
    return "true" if annotation is bool else "TopicTest"


def _shown(value: str | bytes | None) -> str:
    if value is None:
        return "nothing"
    return repr(value) if len(value) <= 40 else f"{value[:20]!r}... ({len(value)})"
