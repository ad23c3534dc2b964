"""Fields of header classes as Java declares them, and what each class is held to.

A class is described by its required fields, a semicolon, and its optional ones: ``long offset, group; topic``. A field
has the name of our attribute and Java's type, which is ``String`` where none is given. Its name on the wire is the
camelCase of it unless another follows a colon; where its values are few, one of them follows an equals sign.
"""

from __future__ import annotations

import attrs
import pytest

from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.headers.codec import read_header, write_header


@attrs.frozen
class Field:
    """A field, with a value that no other field of its class has."""

    attribute: str
    wire_name: str
    value: object
    text: str


def fields_of(declared: str) -> list[Field]:
    """Return the fields of a list like ``long offset, group``."""
    return [_field(number, each) for number, each in enumerate(filter(None, declared.strip().split(", ")))]


def _field(number: int, declared: str) -> Field:
    java_type, _, names = declared.rpartition(" ")
    names, _, chosen = names.partition("=")
    attribute, _, wire_name = names.partition(":")
    first, *others = attribute.split("_")
    values = {"int": number + 1, "long": (1 << 40) + number, "boolean": True, "": attribute.replace("_", " ")}
    value = values[java_type]
    if chosen:
        value = type(value)(chosen)
    text = str(value).lower() if value is True else str(value)
    return Field(attribute, wire_name or first + "".join(map(str.title, others)), value, text)


def header_of(header_class: type, declared: str) -> tuple[object, dict[str, str]]:
    """Return a header with a value in each field, and the text fields that carry it."""
    fields = fields_of(declared.replace(";", ",").removeprefix(","))
    assert {each.attribute for each in fields} == {each.name for each in attrs.fields(header_class)}
    header = header_class(**{each.attribute: each.value for each in fields})
    return header, {each.wire_name: each.text for each in fields}


def check_fields(header_class: type, declared: str) -> None:
    """Check that a class has these fields and no others, reads and writes them, and needs the required ones."""
    header, texts = header_of(header_class, declared)
    assert write_header(header) == texts
    assert read_header(texts, header_class) == header
    assert read_header(texts | {"AccessKey": "peers add fields"}, header_class) == header
    required = {each.wire_name for each in fields_of(declared.partition(";")[0])}
    for name in texts:
        rest = {key: text for key, text in texts.items() if key != name}
        if name not in required:
            read_header(rest, header_class)
            continue
        with pytest.raises(RequestError) as refusal:
            read_header(rest, header_class)
        assert refusal.value.response_code == ResponseCode.SYSTEM_ERROR
        assert refusal.value.remark.startswith(f"{header_class.__name__}.{name}: expected ")
        assert refusal.value.remark.endswith(", found nothing")
