"""Conversion between body values and fastjson's text.

A body is an ``@attrs.frozen`` class named as in Java, whose attributes are the snake_case of Java's properties. What an
attribute looks like in JSON follows from its annotation:

===================== ==================================================================================
``str bool float``    as they are; read from any scalar that says the same
``Int32 Int64``       a number; read from text too, range checked
``JavaEnum[...]``     text in Python, the constant's name in JSON; read in any case and by ordinal too
``Sequence[X]``       a ``java.util.List``
``JavaSet[X]``        a ``Set`` or a Java array: the same but in the pretty form of files
``dict[K, V]``        an object; integer keys are bare, a key that is a body is an object
a body                an object: keys in alphabetical order, ``None`` left out
===================== ==================================================================================

The key is the camelCase of the attribute unless ``metadata=named("droped")`` says otherwise. Reading is as loose as
fastjson's: keys in any case and with ``_`` and ``-`` anywhere (``clientId`` fills ``clientID``), unknown keys ignored.
What has a default may be missing; without one it must be there.

A peer's unknown key is ignored without a word. For a file that people edit there are :class:`FileNotes`: a second walk
over what was read notes unknown keys, and every value that counts as another one.

Compatibility: an explicit ``null`` leaves the default; in Java it overwrites the property, and a server that gets it
answers with a NullPointerException. A constant that Java does not know is null there and the default here.

All goes through one :mod:`cattrs` converter of our own, so other users of cattrs and we do not meet.
"""

from __future__ import annotations

import functools
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import attrs

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.protocol.fastjson import FrozenBean, dumps, loads, loads_answer, loads_nested
from rocketpy.protocol.fastjson.file_notes import FileNotes, path_in
from rocketpy.protocol.headers.codec import IntegerRange
from rocketpy.protocol.value_methods import ValueMethods

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")
ItemT = TypeVar("ItemT")

_SET = "java.util.Set"
JavaSet: TypeAlias = Annotated[Sequence[ItemT], _SET]

_NAME = "json_name"
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_TRUE, _FALSE = ("true", "1"), ("false", "0")
_SHOWN_CHARACTERS_MAX = 64
_SHOWN_ITEMS_MAX = 16


@attrs.frozen
class JavaEnum(ValueMethods):
    """Marks text that is the name of a constant; ``constants`` in the order of their ordinals."""

    constants: tuple[str, ...]

    @classmethod
    def of(cls, enum: type[Enum]) -> JavaEnum:
        """Return the marker of a Python enum whose members are in Java's order."""
        return cls(tuple(enum.__members__))


def named(name: str) -> dict[str, object]:
    """Return the metadata of an attribute whose key in JSON is not its camelCase."""
    return {_NAME: name}


def encode_body(body: object, *, standard: bool = False) -> bytes:
    """Return the bytes of ``body`` as fastjson writes them.

    ``standard`` is the form of a route for a requester of version 401 or later: standard JSON in ASCII, keys in order.
    """
    return dumps(encode_value(body), standard=standard).encode()


def encode_pieces(body: object) -> Iterator[bytes]:
    """Return the bytes of :func:`encode_body` in pieces that cost little each, however many entries its tables have."""
    assert attrs.has(type(body)), type(body)
    return _pieces(body, type(body))


def encode_text(body: object) -> str:
    """Return the text of ``body``, for a header field."""
    return dumps(encode_value(body))


def encode_value(body: object) -> object:
    """Return ``body`` as dicts, lists and scalars, ready for :func:`rocketpy.protocol.fastjson.dumps`."""
    assert attrs.has(type(body)), type(body)
    value: object = _converter().unstructure(body)
    return value


def decode_body(data: bytes | str | None, body_class: type[T], *, is_bounded: bool = False) -> T:
    """Return the ``body_class`` value in ``data``; ``is_bounded`` as in :func:`~rocketpy.protocol.fastjson.loads`.

    Raises :class:`~rocketpy.errors.RemoteProtocolError` naming class and key, what was expected and what was found; no
    body at all is one too.
    """
    if not data:
        raise _no_body(body_class)
    return decode_value(loads(data, is_bounded=is_bounded), body_class)


def decode_peer_body(data: bytes | None, body_class: type[T], *, bytes_max: int | None = None) -> T:
    """Return the ``body_class`` value in an answer, see :func:`~rocketpy.protocol.fastjson.loads_answer`.

    For the answers of nameservers, brokers and clients, whatever they send; errors as in :func:`decode_body`. A full
    frame takes seconds: long answers are decoded off the event loop (:func:`rocketpy.runner.run_decoder`), or have a
    ``bytes_max``.
    """
    if not data:
        raise _no_body(body_class)
    if bytes_max is not None and len(data) > bytes_max:
        raise RemoteProtocolError(f"{body_class.__name__}: expected at most {bytes_max} bytes, found {len(data)}")
    return decode_value(loads_answer(data), body_class)


def decode_value(value: object, body_class: type[T], notes: FileNotes | None = None) -> T:
    """Return the ``body_class`` value that a parsed document holds; errors as in :func:`decode_body`.

    ``notes`` are given for a file: what has no meaning, or another one than it seems to have, is noted there.
    """
    try:
        body = _converter().structure(value, body_class)
    except _UnexpectedValueError as unexpected:
        raise RemoteProtocolError(f"{body_class.__name__}: {unexpected}") from None
    if notes is not None:
        _noter(typing.cast("Any", body_class))(value, notes, "")
    return body


def _no_body(body_class: type) -> RemoteProtocolError:
    return RemoteProtocolError(f"{body_class.__name__}: expected a body, found none")


class _UnexpectedValueError(Exception):
    """A value of the wrong type or range; the reader of the enclosing body adds the position."""

    def __init__(self, expected: str, found: object) -> None:
        super().__init__(f"expected {expected}, found {_shown(found)}")


def _shown(found: object) -> str:
    """Return the beginning of a value, which may be all of a frame."""
    if isinstance(found, dict | list | tuple):
        found = dict(islice(found.items(), _SHOWN_ITEMS_MAX)) if isinstance(found, dict) else found[:_SHOWN_ITEMS_MAX]
    shown = repr(found)
    return shown if len(shown) <= _SHOWN_CHARACTERS_MAX else shown[:_SHOWN_CHARACTERS_MAX] + "..."


_Reader = Callable[[Any, Any], Any]  # cattrs hands every hook the value and the type
_Writer = Callable[[Any], Any]
_ABSENT = object()


@attrs.frozen
class _Member(ValueMethods):
    attribute: str
    argument: str
    name: str
    annotation: Any
    is_required: bool


@functools.cache
def _members(body_class: type) -> list[_Member]:
    """Return the members of a body in the order in which they are written."""
    annotations = typing.get_type_hints(body_class, include_extras=True)
    members = [
        _Member(
            attribute=attribute.name,
            argument=attribute.alias or attribute.name,
            name=attribute.metadata.get(_NAME) or _camel_case(attribute.name),
            annotation=annotations[attribute.name],
            is_required=attribute.default is attrs.NOTHING,
        )
        for attribute in attrs.fields(body_class)
    ]
    return sorted(members, key=lambda member: member.name)


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def _loose(key: str) -> str:
    return key.replace("_", "").replace("-", "").lower()


# Reading.


def _bean_reader(body_class: type) -> _Reader:
    members = _members(body_class)
    by_name = {member.name: (member, _converter().get_structure_hook(member.annotation)) for member in members}
    by_loose_name = {_loose(name): entry for name, entry in by_name.items()}
    required = [member for member in members if member.is_required]

    def read(value: Any, _: Any) -> Any:
        if isinstance(value, str):
            value = loads_nested(value)  # a key that is an object may come as the text of that object
        if not isinstance(value, Mapping):
            raise _UnexpectedValueError("an object", value)
        arguments: dict[str, Any] = {}
        for key, item in value.items():
            entry = by_name.get(key) or (by_loose_name.get(_loose(key)) if isinstance(key, str) else None)
            if entry is None or item is None:
                continue
            member, read_member = entry
            try:
                result = read_member(item, member.annotation)
            except _UnexpectedValueError as unexpected:
                raise RemoteProtocolError(f"{body_class.__name__}.{member.name}: {unexpected}") from None
            if result is not _ABSENT:
                arguments[member.argument] = result
        for member in required:
            if member.argument not in arguments:
                raise RemoteProtocolError(f"{body_class.__name__}.{member.name}: expected a value, found nothing")
        return body_class(**arguments)

    return read


def _map_reader(annotation: Any) -> _Reader:
    key_type, value_type = typing.get_args(annotation)
    read_key, read_value = _converter().get_structure_hook(key_type), _converter().get_structure_hook(value_type)

    def read(value: Any, _: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _UnexpectedValueError("an object", value)
        return {
            read_key(key, key_type): read_value(item, value_type)
            for key, item in value.items()
            if key is not None and item is not None
        }

    return read


def _sequence_reader(annotation: Any) -> _Reader:
    item_type = _item_type(annotation)
    read_item = _converter().get_structure_hook(item_type)

    def read(value: Any, _: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise _UnexpectedValueError("an array", value)
        return [read_item(item, item_type) for item in value if item is not None]

    return read


def _integer_reader(annotation: Any) -> _Reader:
    limits = _marker(annotation, IntegerRange)
    assert limits is not None, annotation
    name, minimum, maximum = limits.name, limits.minimum, limits.maximum

    def read(value: Any, _: Any) -> Any:
        match value:
            case bool():
                raise _UnexpectedValueError(name, value)
            case int():
                number = value
            case float() if abs(value) <= maximum:
                number = int(value)
            case str() if _INTEGER.fullmatch(value):
                number = int(value)
            case _:
                raise _UnexpectedValueError(name, value)
        if not minimum <= number <= maximum:
            raise _UnexpectedValueError(name, value)
        return number

    return read


def _enum_reader(annotation: Any) -> _Reader:
    marker = _marker(annotation, JavaEnum)
    assert marker is not None, annotation
    constants = marker.constants
    by_name = {name.upper(): name for name in constants}

    def read(value: Any, _: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(constants):
            return constants[value]
        if isinstance(value, str):
            return by_name.get(value.upper(), _ABSENT)
        raise _UnexpectedValueError("one of " + ", ".join(constants), value)

    return read


def _read_text(value: Any, _: Any) -> str:
    return value if isinstance(value, str) else dumps(value)


def _read_bool(value: Any, _: Any) -> bool:
    text = _read_text(value, str).lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _UnexpectedValueError("true or false", value)


def _refuse_plain_integer(value: Any, _: Any) -> int:
    raise AssertionError("a body's integers are Int32 or Int64: Java's ranges are part of the form")


def _read_double(value: Any, _: Any) -> float:
    try:
        if not isinstance(value, bool) and isinstance(value, int | float | str):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise _UnexpectedValueError("a number", value)


# What reading leaves out, or takes for something else.

_Noter = Callable[[Any, FileNotes, str], None]
"""Notes what a reader has made of a value that it has read, which has a path in the file."""

LATER_KEYS: dict[str, dict[str, object]] = {
    "DataVersion": {"stateVersion": 0},
    "TopicConfig": {"attributes": {}},
    "SubscriptionGroupWrapper": {"forbiddenTable": {}},
    "SubscriptionGroupConfig": {
        "attributes": {},
        "consumeMessageOrderly": False,
        "consumeTimeoutMinute": 15,
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
        "groupSysFlag": 0,
        "subscriptionDataSet": [],
    },
}
"""Keys that RocketMQ 5 (5.3.3) writes into its files, by the body's name, with the values that change nothing."""


@functools.cache
def _noter(annotation: Any) -> _Noter:
    annotation = _without_none(annotation)
    if attrs.has(annotation):
        return _bean_noter(annotation)
    if _is_map(annotation):
        return _map_noter(annotation)
    if _is_sequence(annotation):
        return _sequence_noter(annotation)
    if _is_integer(annotation):
        return _note_integer
    if _is_enum(annotation):
        return _enum_noter(annotation)
    return _note_text if annotation is str else _note_nothing


def _bean_noter(body_class: type) -> _Noter:
    # A scalar of its own type needs no look, and no path: a table may have hundreds of thousands.
    by_name = {
        member.name: (member.name, _usual_type(member.annotation), _noter(member.annotation))
        for member in _members(body_class)
    }
    by_loose_name = {_loose(name): entry for name, entry in by_name.items()}
    later_keys = LATER_KEYS.get(body_class.__name__, {})

    def note(value: Any, notes: FileNotes, path: str) -> None:
        if isinstance(value, str):
            value = loads_nested(value)
        respelled: set[str] = set()
        for key, item in value.items():
            entry = by_name.get(key)
            if entry is None and isinstance(key, str):
                entry = by_loose_name.get(_loose(key))
                if entry is not None:
                    if entry[0] in value or entry[0] in respelled:
                        notes.repeated_key(key)
                    respelled.add(entry[0])
            if entry is not None:
                _, usual_type, note_member = entry
                if item is None:
                    notes.value(path_in(path, key), None, "a value", "it counts as left out")
                elif type(item) is not usual_type:
                    note_member(item, notes, path_in(path, key))
            elif key not in later_keys:
                notes.unknown_key(path_in(path, key))
            elif item is not None and item != later_keys[key]:
                notes.later_key(path_in(path, key))

    return note


def _usual_type(annotation: Any) -> type | None:
    if annotation in (str, bool):
        return typing.cast("type", annotation)
    return int if _is_integer(annotation) else None


def _map_noter(annotation: Any) -> _Noter:
    key_type, value_type = typing.get_args(annotation)
    note_key, note_value = _noter(key_type), _noter(value_type)

    def note(value: Any, notes: FileNotes, path: str) -> None:
        for key, item in value.items():
            if item is None or key is None:
                notes.value(path_in(path, key), item, "a key and a value", "they are left out")
                continue
            if attrs.has(key_type):
                note_key(key, notes, path)
            note_value(item, notes, path_in(path, dict(key) if isinstance(key, FrozenBean) else key))

    return note


def _sequence_noter(annotation: Any) -> _Noter:
    note_item = _noter(_item_type(annotation))

    def note(value: Any, notes: FileNotes, path: str) -> None:
        for index, item in enumerate(value):
            if item is None:
                notes.value(f"{path}[{index}]", None, "a value", "it is left out")
            else:
                note_item(item, notes, f"{path}[{index}]")

    return note


def _enum_noter(annotation: Any) -> _Noter:
    marker = _marker(annotation, JavaEnum)
    assert marker is not None, annotation
    constants = marker.constants

    def note(value: Any, notes: FileNotes, path: str) -> None:
        if isinstance(value, str) and value.upper() not in constants:
            notes.value(path, value, " or ".join(constants), "it counts as left out")

    return note


def _note_integer(value: Any, notes: FileNotes, path: str) -> None:
    if isinstance(value, float) and value != int(value):
        notes.value(path, value, "a whole number", f"{int(value)} counts")


def _note_text(value: Any, notes: FileNotes, path: str) -> None:
    if not isinstance(value, str):
        notes.value(path, value, "a text", "it counts as the text of that")


def _note_nothing(value: Any, notes: FileNotes, path: str) -> None:
    pass


# Writing.


def _bean_writer(body_class: type) -> _Writer:
    plan = [
        (member.name, member.attribute, _converter().get_unstructure_hook(member.annotation))
        for member in _members(body_class)
    ]

    def write(body: Any) -> Any:
        members = {}
        for name, attribute, write_member in plan:
            value = getattr(body, attribute)
            if value is not None:
                try:
                    members[name] = write_member(value)
                except (TypeError, AttributeError) as error:
                    raise LocalProtocolError(f"{body_class.__name__}.{name}: cannot write {value!r}") from error
        return members

    return write


def _map_writer(annotation: Any) -> _Writer:
    key_type, value_type = typing.get_args(annotation)
    write_key, write_value = _converter().get_unstructure_hook(key_type), _converter().get_unstructure_hook(value_type)
    if attrs.has(key_type):
        return lambda value: {FrozenBean(write_key(key)): write_value(item) for key, item in value.items()}
    return lambda value: {write_key(key): write_value(item) for key, item in value.items()}


def _sequence_writer(annotation: Any) -> _Writer:
    write_item = _converter().get_unstructure_hook(_item_type(annotation))
    if _marker(annotation, str) == _SET:
        return lambda value: tuple(write_item(item) for item in value)
    return lambda value: [write_item(item) for item in value]


PIECE_ITEMS_MAX = 1000


def _pieces(value: Any, annotation: Any) -> Iterator[bytes]:
    if _is_small(value, annotation):
        yield dumps(_converter().get_unstructure_hook(annotation)(value)).encode()
    elif attrs.has(annotation):
        members = [(each, getattr(value, each.attribute)) for each in _members(annotation)]
        named_items = (
            (_key(each.name, str), item, _without_none(each.annotation)) for each, item in members if item is not None
        )
        yield from _joined(b"{", named_items, b"}")
    elif _is_map(annotation):
        key_type, value_type = typing.get_args(annotation)
        keyed = ((_key(key, key_type), item, value_type) for key, item in value.items())
        yield from _joined(b"{", keyed, b"}")
    else:
        item_type = _item_type(annotation)
        yield from _joined(b"[", ((b"", item, item_type) for item in value), b"]")


def _joined(begin: bytes, entries: Iterable[tuple[bytes, Any, Any]], end: bytes) -> Iterator[bytes]:
    for key, value, annotation in entries:
        pieces = _pieces(value, annotation)
        yield begin + key + next(pieces)
        yield from pieces
        begin = b","
    yield end if begin == b"," else begin + end


def _is_small(value: Any, annotation: Any) -> bool:
    """Whether a value is a single piece: a scalar, a short collection of scalars, or a body of such."""
    if attrs.has(annotation):
        return all(
            _is_small(item, _without_none(each.annotation))
            for each in _members(annotation)
            if (item := getattr(value, each.attribute)) is not None
        )
    if _is_map(annotation):
        return len(value) <= PIECE_ITEMS_MAX and not _is_collection(typing.get_args(annotation)[1])
    if _is_sequence(annotation):
        return len(value) <= PIECE_ITEMS_MAX and not _is_collection(_item_type(annotation))
    return True


def _is_collection(annotation: Any) -> bool:
    return attrs.has(annotation) or _is_map(annotation) or _is_sequence(annotation)


def _key(key: Any, key_type: Any) -> bytes:
    if attrs.has(key_type):
        return encode_body(key) + b":"
    return (str(key) if isinstance(key, int) else dumps(key)).encode() + b":"


def _scalar_writer(_: Any) -> _Writer:
    return lambda value: value


# What annotations say.


def _marker(annotation: Any, marker_class: type[T]) -> T | None:
    if typing.get_origin(annotation) is not Annotated:
        return None
    return next((each for each in annotation.__metadata__ if isinstance(each, marker_class)), None)


def _item_type(annotation: Any) -> Any:
    plain = annotation.__origin__ if typing.get_origin(annotation) is Annotated else annotation
    return typing.get_args(plain)[0]


def _is_sequence(annotation: Any) -> bool:
    return typing.get_origin(annotation) is Sequence or _marker(annotation, str) == _SET


def _is_map(annotation: Any) -> bool:
    return typing.get_origin(annotation) is dict


def _is_optional(annotation: Any) -> bool:
    return type(None) in typing.get_args(annotation)


def _without_none(annotation: Any) -> Any:
    if not _is_optional(annotation):
        return annotation
    (only,) = (each for each in typing.get_args(annotation) if each is not type(None))
    return only


def _is_integer(annotation: Any) -> bool:
    return _marker(annotation, IntegerRange) is not None


def _is_enum(annotation: Any) -> bool:
    return _marker(annotation, JavaEnum) is not None


@functools.cache
def _converter() -> Converter:
    """Return the converter, made with the first body: a program that only imports the client does not wait for it."""
    from cattrs import Converter

    converter = Converter(detailed_validation=False)
    for predicate, reader, writer in (
        (attrs.has, _bean_reader, _bean_writer),
        (_is_map, _map_reader, _map_writer),
        (_is_sequence, _sequence_reader, _sequence_writer),
        (_is_integer, _integer_reader, _scalar_writer),
        (_is_enum, _enum_reader, _scalar_writer),
    ):
        converter.register_structure_hook_factory(predicate, reader)
        converter.register_unstructure_hook_factory(predicate, writer)
    converter.register_structure_hook(str, _read_text)
    converter.register_structure_hook(bool, _read_bool)
    converter.register_structure_hook(int, _refuse_plain_integer)
    converter.register_structure_hook(float, _read_double)
    converter.register_unstructure_hook(float, float)
    return converter
