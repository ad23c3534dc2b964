"""The JSON form of a command's header, as RocketMQ's fastjson reads and writes it.

Written: ``{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":0,"remark":"r",
"serializeTypeCurrentRPC":"JSON","version":409}``: keys in this order, no spaces, nothing for what is ``None``.
(RocketMQ writes ext fields in the order of a Java HashMap, which carries no meaning; here it is the order of the dict.)

Read in two steps that agree: a header as every RocketMQ client writes it goes through ``msgspec`` into a typed struct;
whatever that refuses goes through the fastjson dialect and the conversions that fastjson does: numbers as text and
text as numbers, key names in any case, a language by its ordinal, ext fields that are numbers, booleans or null. What
fastjson refuses costs the peer its connection and is a :class:`~rocketpy.errors.RemoteProtocolError` here.

Rule: a header is flat. It is read before anything is known of its sender, so it has one object of scalars, with one
more in ``extFields``, of at most :data:`EXT_FIELDS_MAX` entries; every key is text, ``$ref`` is a key like any other,
and what is no standard JSON may have :data:`DIALECT_SIZE_MAX` characters.

Compatibility: fastjson takes nested values, references and keys that are numbers or objects in headers too, which no
client writes. A header without ``opaque`` gets 0 (RocketMQ takes the next number of its own counter).
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.protocol.codes import LanguageCode, SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.fastjson import dumps
from rocketpy.protocol.fastjson.reader import read_document

INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1

EXT_FIELDS_MAX = 1000
"""Bound of the ext fields of a header. RocketMQ's own have at most 20."""

DIALECT_SIZE_MAX = 16_384
"""Bound, in characters, of a header that is not standard JSON; its reader takes a microsecond per character."""

_Int32 = Annotated[int, msgspec.Meta(ge=INT32_MIN, le=INT32_MAX)]


class _Header(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A header in the form that needs no tolerance; the names are the keys of the wire."""

    code: _Int32 = 0
    language: str | None = "JAVA"
    version: _Int32 = 0
    opaque: _Int32 = 0
    flag: _Int32 = 0
    remark: str | None = None
    extFields: dict[str, str] | None = None  # noqa: N815
    serializeTypeCurrentRPC: str | None = None  # noqa: N815


_HEADER_DECODER = msgspec.json.Decoder(_Header)

_Scalar = str | int | float | bool | None
_FLAT_DECODER = msgspec.json.Decoder(dict[str, _Scalar | dict[str, _Scalar]])

_LANGUAGES: dict[str, LanguageCode] = {language.name: language for language in LanguageCode}
_LANGUAGES_BY_ORDINAL: dict[int, LanguageCode] = {int(language): language for language in LanguageCode}
_LANGUAGE_NAMES: dict[int, str] = {int(language): language.name for language in LanguageCode}

_INTEGER_KEYS = ("code", "version", "opaque", "flag")
_KEYS = {name.lower(): name for name in _Header.__struct_fields__}
_INTEGER_TEXT = re.compile(r"[+-]?0*[0-9]{1,10}")

# What fastjson escapes; everything else, "/" and other scripts included, goes out as it is. Quotes, backslashes and the
# two separators of properties are frequent and have a faster way than this expression.
_RARELY_ESCAPED = re.compile(r"[\x00\x03-\x1f\x7f-\x9f\u2028\u2029]")
_SHORT_ESCAPES = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def decode_json_header(header: bytes, body: bytes | None) -> RemotingCommand:
    """Return the command of a JSON header; :class:`~rocketpy.errors.RemoteProtocolError` when fastjson refuses it."""
    try:
        fields = _HEADER_DECODER.decode(header)
    except (msgspec.DecodeError, UnicodeDecodeError):  # ValidationError is a DecodeError
        fields = _tolerant_header(header)
    language = fields.language
    ext_fields = fields.extFields
    if ext_fields is not None and len(ext_fields) > EXT_FIELDS_MAX:
        raise _too_many_ext_fields(len(ext_fields))
    return RemotingCommand(
        fields.code,
        ext_fields,
        body,
        fields.remark,
        fields.opaque,
        fields.flag,
        None if language is None else _LANGUAGES.get(language) or _LANGUAGES.get(language.upper()),
        fields.version,
        SerializeType.JSON,
    )


def encode_json_header(command: RemotingCommand) -> bytes:
    """Return the JSON header of ``command``, byte for byte as fastjson would write it.

    Raises :class:`~rocketpy.errors.LocalProtocolError` for a number beyond int32.
    """
    code, flag, opaque, version = command.code, command.flag, command.opaque, command.version
    if not (INT32_MIN <= code <= INT32_MAX and INT32_MIN <= opaque <= INT32_MAX) or not (
        INT32_MIN <= flag <= INT32_MAX and INT32_MIN <= version <= INT32_MAX
    ):
        raise LocalProtocolError(
            f"JSON header: expected int32, found code {code}, flag {flag}, opaque {opaque}, version {version}"
        )
    ext_fields = "" if command.ext_fields is None else f'"extFields":{_fields_text(command.ext_fields)},'
    language = "" if command.language is None else f'"language":"{_LANGUAGE_NAMES[command.language]}",'
    remark = "" if command.remark is None else f'"remark":"{escaped(command.remark)}",'
    return (
        f'{{"code":{code},{ext_fields}"flag":{flag},{language}"opaque":{opaque},{remark}'
        f'"serializeTypeCurrentRPC":"JSON","version":{version}}}'
    ).encode("utf-8", "replace")


def _fields_text(fields: dict[str, str]) -> str:
    if not fields:
        return "{}"
    if _is_plain("".join((*fields, *fields.values()))):
        return '{"' + '","'.join([f'{key}":"{value}' for key, value in fields.items()]) + '"}'
    return '{"' + '","'.join([f'{escaped(key)}":"{escaped(value)}' for key, value in fields.items()]) + '"}'


def _is_plain(text: str) -> bool:
    """Whether nothing in ``text`` is escaped; a few characters that Python calls unprintable are not either."""
    return text.isprintable() and '"' not in text and "\\" not in text


def escaped(text: str) -> str:
    """Return a text as it stands between quotes in a header."""
    if _is_plain(text):
        return text
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\x01", "\\u0001").replace("\x02", "\\u0002")
    return _RARELY_ESCAPED.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    return _SHORT_ESCAPES.get(character) or f"\\u{ord(character):04X}"


def _tolerant_header(header: bytes) -> _Header:
    """Read the header as fastjson does; of a repeated key the last one counts."""
    document = _flat_document(header)
    result = _Header()
    for key, value in document.items():
        name = _known_key(key)
        if name in _INTEGER_KEYS:
            setattr(result, name, _int32(name, value))
        elif name == "language":
            result.language = _language_name(value)
        elif name == "remark":
            result.remark = None if value is None else _text(value)
        elif name == "extFields":
            result.extFields = _ext_fields(value)
    return result


def _flat_document(header: bytes) -> dict[str, object]:
    """Return the members of a header, none of which but ``extFields`` is an object."""
    document = _standard_document(header)
    if document is None:
        text = header.decode("utf-8", "replace")
        document = _standard_document(text) if "\ufffd" in text else None
        if document is None and len(text) > DIALECT_SIZE_MAX:
            raise RemoteProtocolError(
                f"JSON header: expected a flat object in standard JSON, for it has more than {DIALECT_SIZE_MAX} "
                f"characters, found something else in {len(text)} of them"
            )
        document = read_document(text) if document is None else document
    if not isinstance(document, dict):
        raise RemoteProtocolError(f"JSON header: expected an object, found {_shown(document)}")
    if len(document) > EXT_FIELDS_MAX:
        raise RemoteProtocolError(f"JSON header: expected at most {EXT_FIELDS_MAX} keys, found {len(document)}")
    for key, value in document.items():
        if not isinstance(key, str):
            raise _not_flat("a key that is text", key)
        is_object = isinstance(value, dict) and _known_key(key) == "extFields"
        if is_object and len(value) > EXT_FIELDS_MAX:
            raise _too_many_ext_fields(len(value))
        for inner_key, inner in value.items() if is_object else ((key, value),):
            if not isinstance(inner_key, str):
                raise _not_flat("a key that is text in extFields", inner_key)
            if isinstance(inner, dict | list):
                raise _not_flat(f"a text, number, boolean or null for {_shown(inner_key)}", inner)
    return document


def _standard_document(text: bytes | str) -> object:
    try:
        return _FLAT_DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return None


def _known_key(key: str) -> str | None:
    return _KEYS.get(key) or _KEYS.get(key.replace("_", "").replace("-", "").lower())


def _not_flat(expected: str, found: object) -> RemoteProtocolError:
    kind = "an object" if isinstance(found, dict) else "an array" if isinstance(found, list) else _shown(found)
    return RemoteProtocolError(f"JSON header: expected {expected}, found {kind}")


def _too_many_ext_fields(found: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"JSON header: expected at most {EXT_FIELDS_MAX} entries of extFields, found {found}")


def _int32(name: str, value: object) -> int:
    """Convert as fastjson does: null is the default, text is parsed, a fraction is cut off."""
    match value:
        case None | "" | "null":
            return 0
        case int():
            number = int(value)
        case str() if _INTEGER_TEXT.fullmatch(value):
            number = int(value)
        case float() if INT32_MIN - 1 < value < INT32_MAX + 1:
            number = int(value)
        case _:
            raise RemoteProtocolError(f"JSON header: expected an int32 for {name}, found {_shown(value)}")
    if not INT32_MIN <= number <= INT32_MAX:
        raise RemoteProtocolError(f"JSON header: expected an int32 for {name}, found {_shown(value)}")
    return number


def _language_name(value: object) -> str | None:
    """Return a language's name; one we do not know stays as it is, an ordinal out of range costs the connection."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value not in _LANGUAGES_BY_ORDINAL:
            raise RemoteProtocolError(f"JSON header: expected a language, found ordinal {_shown(value)}")
        return _LANGUAGES_BY_ORDINAL[value].name
    if value is None or isinstance(value, str):
        return value
    raise RemoteProtocolError(f"JSON header: expected a language, found {_shown(value)}")


def _ext_fields(value: object) -> dict[str, str] | None:
    """Return the ext fields as text; a null among them is left out, which is how RocketMQ would write it again."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise RemoteProtocolError(f"JSON header: expected an object for extFields, found {_shown(value)}")
    return {_text(key): _text(item) for key, item in value.items() if item is not None}


def _text(value: object) -> str:
    """Return what Java's toString makes of a value; reading leaves no half of a surrogate pair in a text."""
    return value if isinstance(value, str) else dumps(value)


def _shown(value: object) -> str:
    text = repr(value if not isinstance(value, str) else value[:65])
    return text if len(text) <= 64 else text[:64] + "..."
