"""Arguments for any function by its annotations: the extremes of every integer, damaged formats, odd texts and views.

They are expressions, so that a call is a line of Python that a report can show:
``from tests.extreme_values import *`` lets an interpreter evaluate it.
"""

from __future__ import annotations

import collections.abc
import enum
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeVar

import mypy_extensions
from librt.strings import BytesWriter

from rocketpy.protocol.batch import encode_batch_body
from rocketpy.protocol.fast_path_headers import FastPullFields, decode_fast_pull
from rocketpy.protocol.message import Message, MessageExt
from rocketpy.protocol.stored_message import encode_message

EXTREMES: Final = (
    *(-(2**63), -(2**63) + 1, 2**63 - 1, 2**63 - 8, 2**62, 2**63, 2**64, -(2**63) - 1),
    *(2**32, 2**31, 2**31 - 1, -(2**31), -(2**31) - 1, 2**16, 2**15, -(2**15), 256, 255, 128, -1, 0, 1),
)
BITS: Final[dict[object, int]] = {
    int: 64,  # Python's have no limit, those that compiled code computes with have
    mypy_extensions.i64: 64,
    mypy_extensions.i32: 32,
    mypy_extensions.i16: 16,
    mypy_extensions.u8: 8,
}
_DEPTH_MAX: Final = 6
_LEAVES_FROM: Final = 3
"""From this depth on an object is none that is made of others of its kind."""

T = TypeVar("T")

SEND = (
    rb'{"code":310,"extFields":{"a":"G","b":"T","c":"TBW102","d":"4","e":"0","f":"0","g":"1700000000123","h":"0",'
    rb'"i":"KEYS\u0001a b\u0002UNIQ_KEY\u00017F000001\u0002WAIT\u0001true","j":"0","k":"false","m":"false"},'
    rb'"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":407}'
)
SEND_BATCH = SEND.replace(b"310", b"320").replace(b'"m":"false"', b'"m":"true"')
PULL = (
    b'{"code":11,"extFields":{"commitOffset":"0","consumerGroup":"G","expressionType":"TAG","maxMsgNums":"32",'
    b'"queueId":"3","queueOffset":"96","subVersion":"0","subscription":"*","suspendTimeoutMillis":"15000",'
    b'"sysFlag":"6","topic":"T"},"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":407}'
)
FIELDS = decode_fast_pull(PULL).ext_fields


def record(physical_offset: int, queue_offset: int) -> bytes:
    """Return a record of the log."""
    properties = {"KEYS": "a b", "UNIQ_KEY": "7F000001", "TAGS": "t"}
    born, host = 1_700_000_000_000, "1.2.3.4:5"
    message = MessageExt(
        *("T", b"body", properties, 0, 0, queue_offset, physical_offset, 0, born, host, born, host, 0, 0, 0, 0, "")
    )
    return encode_message(message)


RECORD = record(0, 0)
RECORDS = RECORD + record(len(RECORD), 1)
UNIT = bytes(8) + len(RECORD).to_bytes(4, "big") + bytes(8)
UNITS = UNIT + len(RECORD).to_bytes(8, "big") + UNIT[8:]
BATCH = encode_batch_body(
    [Message("T", b"one", {"KEYS": "k l", "TAGS": "t"}), Message("T", b"two", {"UNIQ_KEY": "7F000001", "n": "v"})]
)
KEYS = (bytes(3) + b"\x05" + bytes(7) + b"\x09" + bytes(6) + b"\x01\x02") * 3
FRAME = (4 + len(SEND) + 3).to_bytes(4, "big") + len(SEND).to_bytes(4, "big") + SEND + b"abc"
PROPERTIES = b"KEYS\x01a b\x02UNIQ_KEY\x017F000001\x02TAGS\x01t\x02"
ASCII = b"The quick brown fox jumps over 13 lazy dogs"
HIGH = "größer 漢字".encode()
SURROGATES = b"\xed\xa0\x80 \xff\xfe\xc0\x80"
HUGE = b"0123456789abcde\x02" * 5000

_FORMATS: Final = ("RECORD", "RECORDS", "UNITS", "BATCH", "KEYS", "FRAME", "PROPERTIES", "bytes(120)")
_HEADERS: Final = ("SEND", "SEND_BATCH", "PULL")
_BYTES: Final = (
    *(*_FORMATS, *_HEADERS, "UNIT", "ASCII", "HIGH", "SURROGATES", "HUGE", "bytes(range(256))", "bytes(4)", "bytes(8)"),
    *('b""', 'b"\\x00"', 'b"7"', 'b" a  b"', 'b"-9223372036854775808"', 'b"999999999999999999"', 'b"\\x01\\x02"'),
    *('b"\\xff" * 8', 'b"\\xff" * 120', 'b"\\x80" + bytes(7)', 'b"\\x7f" + b"\\xff" * 7'),
)
_TEXTS: Final = (
    *('""', '"T"', '"G"', '"a b"', '"\\x00"', '"\\ud800"', '"x\\udfff\\ud800y"', '"größer 漢字"', '"\\U0001f600"'),
    *(
        '"%RETRY%G"',
        '"x" * 70000',
        '"9223372036854775808"',
        '"KEYS\\x01\\x02\\x01"',
        '"é" * 300',
        "PROPERTIES.decode()",
    ),
)
_VIEWS: Final = (
    *("words(16)", "words(16)[::2]", "words(16)[::-1]", "words(0)", "memoryview(bytearray(64))[::3]"),
    *('memoryview(bytearray(64)).cast("q")', 'memoryview(bytes(64)).cast("I")'),
    'memoryview(bytearray(64)).cast("B", [8, 8])',
)
_SIMPLE: Final[dict[object, tuple[str, ...]]] = {
    str: _TEXTS,
    bool: ("False", "True"),
    float: ("0.0", "-1.5", "1e308", "float('inf')", "float('nan')"),
    types.NoneType: ("None",),
    object: ("None", "0", "-1", "9223372036854775807", '"T"', 'b"k"', "[b'k', HIGH]"),
    Any: ("None", "0", '"T"', "[]"),
    BytesWriter: ("BytesWriter()",),
    FastPullFields: ("FIELDS",),
}


def words(count: int) -> memoryview[int]:
    """Return words that can be written."""
    return memoryview(bytearray(range(4 * count))).cast("I")


def put(content: bytes, at: int, size: int, value: int) -> bytes:
    """Return content with a big-endian integer in it: the lowest bytes of one that has more."""
    return content[:at] + (value % (1 << 8 * size)).to_bytes(size, "big") + content[at + size :]


def renumber(header: bytes, which: int, number: str) -> bytes:
    """Return a header with another text in the place of one of its runs of digits."""
    runs = list(re.finditer(rb"\d+", header))
    run = runs[which % len(runs)]
    return header[: run.start()] + number.encode() + header[run.end() :]


class Callback:
    """A function that returns given values in turn, and keeps what it was called with."""

    def __init__(self, *values: object) -> None:
        self.values = values
        self.called: list[object] = []

    def __call__(self, *arguments: object) -> object:
        self.called.append(arguments)
        return self.values[len(self.called) % len(self.values)]


class NotMadeError(Exception):
    """There is no way to make an argument for an annotation."""


class Maker:
    """Chooses arguments by annotations; ``classes`` collects the modules of the classes that its expressions name."""

    def __init__(self, random: Random, classes: dict[str, str]) -> None:
        self._random = random
        self._classes = classes
        self._is_odd = False

    def took_odd(self) -> bool:
        """Return whether a number was chosen since the last call that does not fit its annotation, or any object."""
        was, self._is_odd = self._is_odd, False
        return was

    def arguments(self, function: Callable[..., object], own: Mapping[str, object], depth: int = 0) -> list[str]:
        """Return arguments for a function, each with its name; ``own`` has what its annotations name."""
        return [f"{name}={self.value(hint, depth)}" for name, hint in hints(function, own).items()]

    def every_extreme(self, function: Callable[..., object], own: Mapping[str, object]) -> Iterator[list[str]]:
        """Yield arguments in which each number in turn is each extreme."""
        for name, hint in hints(function, own).items():
            for number in EXTREMES if hint in BITS else ():
                made = self.arguments(function, own)
                self._note_width(number, BITS[hint])
                yield [f"{name}={number}" if each.startswith(f"{name}=") else each for each in made]

    def made(self, owner: type, depth: int = 0) -> str:
        """Return an expression for an object of a class."""
        if self._classes.setdefault(owner.__name__, owner.__module__) != owner.__module__:
            raise NotMadeError(f"two classes are named {owner.__name__}")
        return f"{owner.__name__}({', '.join(self.arguments(*_constructor(owner), depth))})"

    def value(self, hint: Any, depth: int = 0) -> str:
        """Return an expression for a value of a type."""
        choice = self._random.choice
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if depth > _DEPTH_MAX:
            raise NotMadeError("too deep")
        if origin in (typing.Union, types.UnionType):
            return self._one_of(list(arguments), depth)
        if origin is typing.Annotated:
            return self.value(arguments[0], depth)
        if origin is typing.Literal:
            return repr(choice(arguments))
        if hint in BITS:
            return self._number(BITS[hint])
        if hint is bytes or hint is bytearray:
            return self._bytes() if hint is bytes else f"bytearray({self._bytes()})"
        if hint in _SIMPLE:
            self._is_odd |= hint in (object, Any)  # compiled code may say sooner that it is of the wrong type
            return choice(_SIMPLE[hint])
        if memoryview in (hint, origin):
            return choice(_VIEWS)
        if inspect.isclass(origin):
            return self._collection(origin, arguments, depth + 1)
        return self._object(hint, depth + 1)

    def some(self, choices: Sequence[T], count_max: int) -> list[T]:
        """Return up to so many of the choices, in any order, each as often as it comes."""
        return self._random.choices(choices, k=self._random.randint(1, count_max)) if choices else []

    def _one_of(self, choices: list[Any], depth: int) -> str:
        self._random.shuffle(choices)
        for hint in choices:
            try:
                return self.value(hint, depth)
            except NotMadeError:
                continue
        raise NotMadeError(" or ".join(str(each) for each in choices))

    def _number(self, bits: int) -> str:
        random = self._random
        small = random.randrange(48) if random.random() < 0.8 else random.choice((-7, 91, 120, 400))
        number = random.choice(EXTREMES) if random.random() < 0.4 else small
        self._note_width(number, bits)
        return str(number)

    def _note_width(self, number: int, bits: int) -> None:
        least = 0 if bits == BITS[mypy_extensions.u8] else -(1 << bits - 1)
        self._is_odd |= not least <= number < least + (1 << bits)

    def _bytes(self) -> str:
        random = self._random
        kind = random.random()
        if kind < 0.6:
            return random.choice(_BYTES)
        if kind < 0.75:
            number = random.choice((*(str(each) for each in EXTREMES), "007", ""))
            return f"renumber({random.choice(_HEADERS)}, {random.randrange(24)}, {number!r})"
        if kind < 0.8:
            return f"{random.choice(_FORMATS)}[:{random.randrange(120)}]"
        at, size = random.randrange(0, 112, random.choice((1, 4))), random.choice((1, 2, 4, 8))
        return f"put({random.choice(_FORMATS)}, {at}, {size}, {random.choice(EXTREMES)})"

    def _collection(self, origin: Any, arguments: tuple[Any, ...], depth: int) -> str:
        count = self._random.choice((0, 1, 1, 2, 3, 5))
        if origin is collections.abc.Callable:
            return f"Callback({', '.join(self.value(arguments[-1], depth) for _ in range(max(count, 1)))})"
        if origin is tuple and arguments[-1] is not Ellipsis:
            return f"({', '.join(self.value(each, depth) for each in arguments)},)"
        if issubclass(origin, collections.abc.Mapping):
            return f"{{{', '.join(': '.join(self.value(each, depth) for each in arguments) for _ in range(count))}}}"
        if not issubclass(origin, collections.abc.Iterable | collections.abc.Container):
            raise NotMadeError(str(origin))
        values = f"[{', '.join(self.value(arguments[0], depth) for _ in range(count))}]"
        if origin in (tuple, set, frozenset):
            return f"{origin.__name__}({values})"
        return f"frozenset({values})" if issubclass(origin, collections.abc.Set) else values

    def _object(self, hint: Any, depth: int) -> str:
        if not inspect.isclass(hint) or not hint.__module__.startswith("rocketpy.") or is_protocol(hint):
            raise NotMadeError(str(hint))
        if issubclass(hint, enum.Enum):
            self._classes[hint.__name__] = hint.__module__
            return f"{hint.__name__}.{self._random.choice(list(hint)).name}"
        below = [each for each in hint.__subclasses__() if each.__module__ == hint.__module__]
        if depth >= _LEAVES_FROM:
            below = [each for each in below if hint not in _named_in(each)]
        return self.made(self._random.choice(below or [hint]), depth)


def hints(function: Callable[..., object], own: Mapping[str, object]) -> dict[str, Any]:
    """Return the annotations of a function's parameters, resolved."""
    found: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        hint = parameter.annotation
        if name in ("self", "_cls"):
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        try:
            found[name] = (
                eval(hint.replace("memoryview[int]", "memoryview"), dict(own)) if isinstance(hint, str) else hint
            )
        except (NameError, AttributeError, TypeError) as fault:  # a name that is imported for the check of types
            raise NotMadeError(f"{name}: {hint}") from fault
        if found[name] is None:
            found[name] = types.NoneType
    return found


def _constructor(owner: type) -> tuple[Callable[..., object], Mapping[str, object]]:
    constructor: Any = owner.__new__ if issubclass(owner, tuple) else owner.__init__
    if constructor is object.__init__:
        return lambda: None, {}
    return constructor, vars(sys.modules[owner.__module__])


def _named_in(owner: type) -> list[object]:
    constructor, own = _constructor(owner)
    named = list(hints(constructor, own).values())
    return [*named, *(each for hint in named for each in typing.get_args(hint))]


def is_protocol(owner: type) -> bool:
    """Return whether a class is an interface."""
    return typing.Protocol in owner.__bases__
