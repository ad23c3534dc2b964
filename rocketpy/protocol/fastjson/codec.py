"""JSON as fastjson 1.2.69 writes and reads it: bodies, configuration files and texts inside headers.

Values are dicts, lists, text, numbers, booleans and ``None``. Two things are not standard JSON. Map keys that are
integers are written bare, ``{0:7}``, and a key that is an object is written as one,
``{{"brokerName":"b","queueId":0,"topic":"T"}:7}``; in Python they are ``int`` and :class:`FrozenBean` keys. And in the
*pretty* form fastjson lays out each Java type in its own way, so here a ``list`` stands for a ``java.util.List`` (one
item per line) and a ``tuple`` for a ``Set`` or a Java array (no line breaks of its own).

Rule: for a given order of keys the output is byte for byte fastjson's. Beans have alphabetical keys; the order of a
Java map is an accident and is the caller's here. What a value means is for :mod:`rocketpy.protocol.bodies`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal

import attrs
import msgspec

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.protocol.fastjson.reader import DEPTH_MAX, FrozenBean, joined_surrogates, read_document
from rocketpy.protocol.fastjson.references import resolve_references

__all__ = ["DEPTH_MAX", "FrozenBean", "dumps", "loads", "loads_answer", "loads_integer_keys", "loads_nested"]

_SHORT_ESCAPES = {"\\": "\\\\", '"': '\\"', "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
# SerializerFeature.BrowserCompatible: everything beyond ASCII and the slash too. Written as what needs no escape: the
# ranges of the others reach to U+10FFFF, and compiling them takes milliseconds of each start.
_ESCAPED_FOR_BROWSERS = re.compile(r"[^ !#-.0-\[\]-~]")


_INTEGER_KEY = re.compile(rb"([{,]\s*)(-?[0-9]{1,20})(?=\s*:)")
# A key that is a flat object, as MessageQueue is; the quantifiers are possessive, so no text is read twice.
_OBJECT_KEY = re.compile(
    rb"""([{,]\s*+)(\{(?:[^{}"\\]|"(?:[^"\\]|\\.)*+")*+\})(?=\s*+:)""",
    re.DOTALL,
)

BODY_DIALECT_SIZE_MAX = 32_768
BODY_REFERENCES_SIZE_MAX = 131_072
"""Bounds for ``is_bounded`` of :func:`loads`: about 20 ms of work each."""

ANSWER_VALUES_MAX = 2_000_000
ANSWER_CONTAINERS_MAX = 500_000
"""Bounds of an answer: values, counted by commas and brackets, and the arrays and objects among them. As many as 16 MiB
of a broker's offsets have; without them a frame of empty arrays becomes half a gigabyte."""

_MEMBERS_AND_CONTAINERS = b",[{"
_CONTAINERS = b"[{"


def loads(text: str | bytes, *, references: bool = True, is_bounded: bool = False) -> object:
    """Return the value that ``text`` holds, references resolved; empty text is ``None`` as in fastjson.

    Standard JSON goes through ``msgspec``; whatever that refuses goes through the dialect's own reader, and both give
    the same value. Raises :class:`~rocketpy.errors.RemoteProtocolError` with the position when neither can read it.
    Bytes that are not UTF-8 become U+FFFD, as in Java.

    :param references: False for a text in which ``$ref`` is a key like any other, as in our own files.
    :param is_bounded: True for a text of a peer that is read on the event loop. The dialect's reader is a hundred times
        slower than ``msgspec``: it then reads at most :data:`BODY_DIALECT_SIZE_MAX` characters, and references are
        resolved in at most :data:`BODY_REFERENCES_SIZE_MAX`. No client writes the dialect; Java's may write references.
    """
    document = _standard_document(text)
    if document is _REFUSED and isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
        if "\ufffd" in text:
            document = _standard_document(text)  # it may have been refused for a byte that is not UTF-8
    if document is _REFUSED:
        assert isinstance(text, str)
        if is_bounded and len(text) > BODY_DIALECT_SIZE_MAX:
            raise RemoteProtocolError(
                f"JSON: expected standard JSON in more than {BODY_DIALECT_SIZE_MAX} characters, "
                f"found something else in {len(text)}"
            )
        document = read_document(text)
    if not references:
        return document
    marker: str | bytes = b"$ref" if isinstance(text, bytes) else "$ref"
    # An escaped spelling of "$ref" is nothing that a serializer writes.
    if marker not in text:  # type: ignore[operator]
        return document
    if is_bounded and len(text) > BODY_REFERENCES_SIZE_MAX:
        raise RemoteProtocolError(
            f"JSON: expected no references in more than {BODY_REFERENCES_SIZE_MAX} characters, found {len(text)}"
        )
    return resolve_references(document)


def loads_integer_keys(text: bytes) -> object:
    """Return the value of a text whose maps may have bare integer keys, which are text in the value, on the event loop.

    It costs little more than standard JSON, where the dialect's own reader takes seconds for a full frame. Any other
    text is read by :func:`loads`, bounded and without references.
    """
    _check_counts(text)
    # What looks like a key inside a text is quoted too. That ends the text before a digit, and the document is refused.
    document = _standard_document(_INTEGER_KEY.sub(rb'\1"\2"', text))
    return loads(text, references=False, is_bounded=True) if document is _REFUSED else document


def loads_answer(text: bytes) -> object:
    """Return the value of an answer in one of the forms in which Java's brokers and clients write them.

    Their maps have bare integers and flat objects as keys, which are text in the value of a long answer. Beyond
    :data:`BODY_DIALECT_SIZE_MAX` nothing else of the dialect is read, and no references beyond
    :data:`BODY_REFERENCES_SIZE_MAX`. Raises :class:`~rocketpy.errors.RemoteProtocolError`, also for more values than
    :data:`ANSWER_VALUES_MAX` and :data:`ANSWER_CONTAINERS_MAX`.
    """
    _check_counts(text)
    has_references = b"$ref" in text and len(text) <= BODY_REFERENCES_SIZE_MAX
    if len(text) <= BODY_DIALECT_SIZE_MAX or has_references:
        return loads(text)
    document = _standard_document(text)
    if document is _REFUSED:
        # As with integers: quotes inside a text end it before a brace, and the document is refused.
        quoted = _OBJECT_KEY.sub(_quoted_key, _INTEGER_KEY.sub(rb'\1"\2"', text))
        document = _standard_document(quoted)
    return loads(text, references=False, is_bounded=True) if document is _REFUSED else document


def loads_nested(text: str) -> object:
    """Return the value of a text within a document, which must be standard JSON: there may be many in one document."""
    document = _standard_document(text)
    if document is _REFUSED:
        raise RemoteProtocolError(f"JSON: expected an object, or the text of one, found {text[:_SHOWN_MAX]!r}")
    return document


def _check_counts(text: bytes) -> None:
    for what, characters, count_max in (
        ("values", _MEMBERS_AND_CONTAINERS, ANSWER_VALUES_MAX),
        ("arrays and objects", _CONTAINERS, ANSWER_CONTAINERS_MAX),
    ):
        if len(text) <= count_max:
            continue
        count = len(text) - len(text.translate(None, characters))
        if count > count_max:
            raise RemoteProtocolError(f"JSON: expected at most {count_max} {what}, found {count} in {len(text)} bytes")


def _quoted_key(match: re.Match[bytes]) -> bytes:
    before, key = match.groups()
    return before + b'"' + key.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def dumps(value: object, *, pretty: bool = False, standard: bool = False) -> str:
    """Return the text of ``value``.

    ``pretty`` is the form of RocketMQ's files: tabs, integer-keyed maps on one line. ``standard`` is the form of
    routes for newer clients (``BrowserCompatible`` with ``MapSortField``): every key quoted and in order, nothing
    beyond ASCII. A lone half of a surrogate pair becomes ``?``, as when Java encodes the text. Raises
    :class:`~rocketpy.errors.LocalProtocolError` for a value that JSON has no form for.
    """
    writer = _Writer(pretty=pretty, standard=standard)
    writer.write(value, 0)
    return "".join(writer.parts)


_SHOWN_MAX = 64
_REFUSED = object()
_DECODER = msgspec.json.Decoder()


def _standard_document(text: str | bytes) -> object:
    """Return the value of standard JSON, or ``_REFUSED`` when only the dialect's reader can judge."""
    try:
        document: object = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _REFUSED
    openers = text.count(b"{") + text.count(b"[") if isinstance(text, bytes) else text.count("{") + text.count("[")
    if openers > DEPTH_MAX and is_deeper(document, DEPTH_MAX):
        return _REFUSED  # the reader says at which character
    return document


def is_deeper(value: object, levels: int) -> bool:
    """Whether arrays and objects are nested in more levels."""
    if isinstance(value, dict):
        return levels == 0 or any(is_deeper(item, levels - 1) for item in value.values())
    if isinstance(value, list):
        return levels == 0 or any(is_deeper(item, levels - 1) for item in value)
    return False


@attrs.define(eq=False)
class _Writer:
    """Collects the parts of one document; the rules of the pretty form are fastjson's, serializer by serializer."""

    _pretty: bool = attrs.field(kw_only=True)
    _standard: bool = attrs.field(kw_only=True)
    parts: list[str] = attrs.field(factory=list)

    def write(self, value: object, level: int) -> None:
        """Write ``value``; ``level`` is how many tabs its own lines begin with."""
        match value:
            case None:
                self.parts.append("null")
            case bool():
                self.parts.append("true" if value else "false")
            case str():
                self.parts.append(self._quoted(value))
            case int():
                self.parts.append(int.__repr__(value))
            case float():
                self.parts.append(_double_text(value))
            case Mapping():
                self._write_members(value, level)
            case list():
                self._write_list(value, level)
            case tuple():
                self._write_set(value, level)
            case _:
                raise LocalProtocolError(f"JSON: expected a value that JSON can express, found {type(value).__name__}")

    def _write_members(self, members: Mapping[object, object], level: int) -> None:
        parts, inner = self.parts, level + 1
        entries = sorted(members.items(), key=_java_order) if self._standard else members.items()
        parts.append("{")
        for index, (key, value) in enumerate(entries):
            if index:
                parts.append(",")
            if isinstance(key, str):
                self._write_line_break(inner)
                parts.append(self._quoted(key))
            elif self._standard:
                parts.append(self._quoted(dumps(key)))
            else:
                self.write(key, inner)
            parts.append(":")
            self.write(value, inner)
        if members:
            self._write_line_break(level)
        parts.append("}")

    def _write_list(self, items: list[object], level: int) -> None:
        self.parts.append("[")
        for index, item in enumerate(items):
            if index:
                self.parts.append(",")
            self._write_line_break(level + 1)
            self.write(item, level + 1)
        if items:
            self._write_line_break(level)
        self.parts.append("]")

    def _write_set(self, items: tuple[object, ...], level: int) -> None:
        self.parts.append("[")
        for index, item in enumerate(items):
            if index:
                self.parts.append(",")
            self.write(item, level)
        self.parts.append("]")

    def _write_line_break(self, level: int) -> None:
        if self._pretty:
            self.parts.append("\n" + "\t" * level)

    def _quoted(self, text: str) -> str:
        is_plain = text.isascii() and text.isprintable() and '"' not in text and "\\" not in text
        if is_plain and not (self._standard and "/" in text):
            return f'"{text}"'
        if self._standard:
            return f'"{_ESCAPED_FOR_BROWSERS.sub(_escape, joined_surrogates(text))}"'
        return f'"{joined_surrogates(text).translate(_ESCAPES)}"'


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    if character == "/":
        return "\\/"
    if ord(character) > 0xFFFF:
        units = character.encode("utf-16-be").hex().upper()
        return f"\\u{units[:4]}\\u{units[4:]}"
    return _SHORT_ESCAPES.get(character) or f"\\u{ord(character):04X}"


# The same for the form that is not for browsers: a text of control characters would call the function for each.
_ESCAPES = {
    point: _SHORT_ESCAPES.get(chr(point)) or f"\\u{point:04X}"
    for point in (*range(0x20), *map(ord, '"\\'), *range(0x7F, 0xA0), 0x2028, 0x2029)
}


def _java_order(entry: tuple[object, object]) -> tuple[int, bytes]:
    """The order of a Java TreeMap: integers by value, text by UTF-16 units."""
    key = entry[0]
    return (key, b"") if isinstance(key, int) else (0, str(key).encode("utf-16-be", "surrogatepass"))


def _double_text(value: float) -> str:
    """Return what Java's ``Double.toString`` gives; fastjson writes ``null`` for what is not a number."""
    if not math.isfinite(value):
        return "null"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)  # between these bounds Python has no exponent either
    decimal = Decimal(repr(value))
    digits = "".join(map(str, decimal.as_tuple().digits)).rstrip("0")
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{decimal.adjusted()}"
