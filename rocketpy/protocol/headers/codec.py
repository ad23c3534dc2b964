"""Turns header values into the text fields of a command (``extFields``) and back.

A header is an ``@attrs.frozen`` class named as in Java whose attributes are the snake_case of Java's fields. What an
attribute looks like on the wire follows from its annotation:

==================  ==============================================================================
``str``             as it is
``Int32 Int64``     decimal text, range checked both ways
``bool``            ``true`` or ``false``; read as Java does: ``true`` in any case, all else false
``X | None``        left out when ``None``
==================  ==============================================================================

The wire name is the camelCase of the attribute unless ``metadata=wire("name")`` says otherwise. An attribute without
a default must be present; one with a default may be missing. (RocketMQ's ``CFNotNull`` is only logged there, so a
field that its servers never look at has a default here.) Fields we do not know are ignored: peers add their own,
signatures for one.

The first use of a class compiles its plan. Plans are kept for good; there are as many as there are header classes.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Collection
from typing import Annotated, Protocol, TypeVar

import attrs

from rocketpy.errors import LocalProtocolError, RequestError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.value_methods import ValueMethods

HeaderT = TypeVar("HeaderT")


@attrs.frozen
class IntegerRange(ValueMethods):
    """The bounds that an integer keeps on the wire."""

    name: str
    minimum: int
    maximum: int


INT32 = IntegerRange("int32", -(2**31), 2**31 - 1)
INT64 = IntegerRange("int64", -(2**63), 2**63 - 1)
Int32 = Annotated[int, INT32]
Int64 = Annotated[int, INT64]

_WIRE_NAME = "wire_name"
_CHOICES = "choices"
_FOUND_CHARACTERS_MAX = 64
# Java's parseInt takes a sign and leading zeros; Python's int() would also take spaces and underscores.
_INTEGER = re.compile(r"[+-]?0{0,64}[0-9]{1,19}")


class CarriesFields(Protocol):
    """A command, as the source of a header's fields."""

    ext_fields: dict[str, str] | None


def wire(name: str | None = None, *, choices: Collection[int | str] | None = None) -> dict[str, object]:
    """Return the metadata of an attribute whose wire name is not its camelCase, or whose values are few."""
    metadata: dict[str, object] = {}
    if name is not None:
        metadata[_WIRE_NAME] = name
    if choices is not None:
        metadata[_CHOICES] = tuple(choices)
    return metadata


def read_header(source: CarriesFields | dict[str, str] | None, header_class: type[HeaderT]) -> HeaderT:
    """Return the ``header_class`` value that a command (or its ext fields) carries.

    Raises :class:`~rocketpy.errors.RequestError` with SYSTEM_ERROR, naming class, field, what was expected and what
    was found, when a field is missing or does not parse. Compatibility: RocketMQ answers the same code, with the text
    of the NullPointerException that follows; a malformed number in an optional field it takes for absent.
    """
    plan = _PLANS.get(header_class) or _compiled(header_class)
    fields = source if source is None or isinstance(source, dict) else source.ext_fields
    if fields is None:
        fields = {}
    values: dict[str, typing.Any] = {}  # checked against the annotations by the plan, field by field
    for field in plan:
        text = fields.get(field.wire_name)
        if text is not None:
            values[field.argument] = text if field.parse is None else field.parse(text)
        elif field.required:
            raise _refusal(header_class, field.wire_name, field.expected, "nothing")
    return header_class(**values)


def write_header(header: object) -> dict[str, str]:
    """Return the text fields of ``header``, without those that are ``None``, in the order of the class.

    Raises :class:`~rocketpy.errors.LocalProtocolError` when a value does not fit its type on the wire.
    """
    header_class = type(header)
    plan = _PLANS.get(header_class) or _compiled(header_class)
    fields: dict[str, str] = {}
    for field in plan:
        value = getattr(header, field.attribute)
        if value is not None:
            fields[field.wire_name] = field.format(value)
    return fields


def wire_names(header_class: type) -> tuple[str, ...]:
    """Return the names of the fields of ``header_class`` on the wire, in the order of the class."""
    return tuple(field.wire_name for field in _PLANS.get(header_class) or _compiled(header_class))


@attrs.frozen
class _Field(ValueMethods):
    attribute: str
    argument: str
    wire_name: str
    required: bool
    expected: str
    parse: Callable[[str], object] | None  # None: the text is the value
    format: Callable[[object], str]


_PLANS: dict[type, tuple[_Field, ...]] = {}


def _compiled(header_class: type) -> tuple[_Field, ...]:
    """Compile and keep the plan of a header class."""
    assert attrs.has(header_class), header_class
    annotations = typing.get_type_hints(header_class, include_extras=True)
    plan = tuple(
        _compiled_field(header_class, attribute, annotations[attribute.name])
        for attribute in attrs.fields(header_class)
    )
    _PLANS[header_class] = plan
    return plan


def _compiled_field(header_class: type, attribute: attrs.Attribute[object], annotation: object) -> _Field:
    wire_name = attribute.metadata.get(_WIRE_NAME) or _camel_case(attribute.name)
    choices: tuple[object, ...] | None = attribute.metadata.get(_CHOICES)
    kinds = [kind for kind in typing.get_args(annotation) if kind is not type(None)] if _is_optional(annotation) else []
    kind = kinds[0] if kinds else annotation
    limits = typing.get_args(kind)[1] if typing.get_origin(kind) is Annotated else None
    parse: Callable[[str], object] | None
    if kind is str:
        parse, expected = None, "text"
    elif kind is bool:
        parse, expected = _parse_bool, "true or false"
    else:
        assert isinstance(limits, IntegerRange), f"{header_class.__name__}.{attribute.name}: {annotation}"
        parse, expected = _integer_parser(header_class, wire_name, limits), limits.name
    if choices is not None:
        expected = "one of " + ", ".join(map(str, choices))
        parse = _choice_parser(header_class, wire_name, parse, choices, expected)
    return _Field(
        attribute=attribute.name,
        argument=attribute.alias or attribute.name,
        wire_name=wire_name,
        required=attribute.default is attrs.NOTHING,
        expected=expected,
        parse=parse,
        format=_formatter(header_class, wire_name, kind, limits, choices),
    )


def _is_optional(annotation: object) -> bool:
    return type(None) in typing.get_args(annotation)


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def _parse_bool(text: str) -> bool:
    return text == "true" or text.lower() == "true"


def _integer_parser(header_class: type, wire_name: str, limits: IntegerRange) -> Callable[[str], int]:
    certain_digits = len(str(limits.maximum)) - 1

    def parse(text: str) -> int:
        if len(text) <= certain_digits and text.isascii() and text.isdecimal():
            return int(text)
        if _INTEGER.fullmatch(text) is None:
            raise _refusal(header_class, wire_name, limits.name, text)
        value = int(text)
        if not limits.minimum <= value <= limits.maximum:
            raise _refusal(header_class, wire_name, limits.name, text)
        return value

    return parse


def _choice_parser(
    header_class: type,
    wire_name: str,
    parse_kind: Callable[[str], object] | None,
    choices: tuple[object, ...],
    expected: str,
) -> Callable[[str], object]:
    def parse(text: str) -> object:
        value = text if parse_kind is None else parse_kind(text)
        if value not in choices:
            raise _refusal(header_class, wire_name, expected, text)
        return value

    return parse


def _formatter(
    header_class: type, wire_name: str, kind: object, limits: IntegerRange | None, choices: tuple[object, ...] | None
) -> Callable[[object], str]:
    where = f"{header_class.__name__}.{wire_name}"

    def format_text(value: object) -> str:
        if not isinstance(value, str):
            raise LocalProtocolError(f"{where}: expected text, found {value!r}")
        if choices is not None and value not in choices:
            raise LocalProtocolError(f"{where}: expected one of {', '.join(map(str, choices))}, found {value!r}")
        return value

    def format_bool(value: object) -> str:
        return "true" if value else "false"

    def format_integer(value: object) -> str:
        if not isinstance(value, int) or not limits or not limits.minimum <= value <= limits.maximum:
            raise LocalProtocolError(f"{where}: expected {limits.name if limits else 'a number'}, found {value!r}")
        if choices is not None and value not in choices:
            raise LocalProtocolError(f"{where}: expected one of {', '.join(map(str, choices))}, found {value!r}")
        return str(int(value))

    if kind is str:
        return format_text
    return format_bool if kind is bool else format_integer


def _refusal(header_class: type, wire_name: str, expected: str, found: str) -> RequestError:
    shown = found if len(found) <= _FOUND_CHARACTERS_MAX else found[:_FOUND_CHARACTERS_MAX] + "..."
    return RequestError(
        ResponseCode.SYSTEM_ERROR, f"{header_class.__name__}.{wire_name}: expected {expected}, found {shown}"
    )
