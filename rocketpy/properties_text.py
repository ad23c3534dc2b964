"""Syntax of ``java.util.Properties``: parse, write, and edit a text in place. Pure; it knows no key.

``#`` and ``!`` begin a comment, ``=``, ``:`` or white space separate key and value, a backslash at the end of a line
continues it, ``\\t \\n \\r \\f \\uXXXX`` are escapes, the last of equal keys counts.

Compatibility: files are read as UTF-8 and only if that fails as ISO 8859-1, which Java always uses; what we write is
ASCII, the same in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import attrs

from rocketpy.errors import SettingsError


@attrs.frozen
class PropertyLine:
    """One key with its value, and the lines it fills in the file (counted from 1, both included)."""

    key: str
    value: str
    line: int
    last_line: int


def decode_properties_text(content: bytes) -> str:
    """Decode the bytes of a properties file: UTF-8 (with or without a byte order mark), else ISO 8859-1."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("iso-8859-1")


def read_properties(text: str, file: str = "") -> Iterator[PropertyLine]:
    """Yield each key with its value as ``java.util.Properties`` reads them, equal keys again and again.

    Raises :class:`SettingsError` for a ``\\u`` that is not followed by four hexadecimal digits.
    """
    for logical, first, last in _logical_lines(text):
        key, value = _split(logical)
        try:
            yield PropertyLine(_unescape(key), _unescape(value), first, last)
        except ValueError as error:
            raise SettingsError(f"{file} line {first}: {error}") from error


def format_property(key: str, value: str) -> str:
    """Return one ``key=value`` line in ASCII that reads back as the same key and value.

    Compatibility: Java writes values without escapes, so there a backslash or a line feed does not survive.
    """
    escaped_key = re.sub(r"[ =:]|^[#!]", lambda match: "\\" + match.group(), _escape(key))
    escaped = _escape(value)
    return f"{escaped_key}=\\{escaped}" if escaped.startswith(" ") else f"{escaped_key}={escaped}"


def format_properties(values: Mapping[str, str]) -> str:
    """Return properties text with one line per key."""
    return "".join(format_property(key, value) + "\n" for key, value in values.items())


def rewritten_properties(text: str, changes: Mapping[str, str]) -> str:
    """Return properties text with some values changed and everything else, comments above all, as it was.

    A missing key is appended; of a repeated key only the last line is kept.
    """
    lines = re.split(r"\r\n|\r|\n", text)
    if lines[-1] == "":
        lines.pop()
    remaining = dict(changes)
    for property_line in reversed(list(read_properties(text))):
        if property_line.key in changes:
            value = remaining.pop(property_line.key, None)
            replacement = [] if value is None else [format_property(property_line.key, value)]
            lines[property_line.line - 1 : property_line.last_line] = replacement
    if remaining and lines and (len(lines[-1]) - len(lines[-1].rstrip("\\"))) % 2:
        lines.append("")  # the text ends inside a continued line, which must not go on with what is appended
    lines.extend(format_property(key, value) for key, value in remaining.items())
    return "".join(line + "\n" for line in lines)


def _logical_lines(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield (text without leading blanks, first line, last line) of each line that is neither blank nor a comment."""
    pending: list[str] = []
    first = 0
    number = 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        stripped = raw.lstrip(" \t\f")
        if not pending and (not stripped or stripped[0] in "#!"):
            continue
        if not pending:
            first = number
        backslashes = len(stripped) - len(stripped.rstrip("\\"))
        if backslashes % 2:
            pending.append(stripped[:-1])
            continue
        yield "".join([*pending, stripped]), first, number
        pending = []
    if any(pending):  # the text ends inside a continued line
        yield "".join(pending), first, number


def _split(logical: str) -> tuple[str, str]:
    """Split at the first separator that is not escaped: blanks, at most one of ``=`` and ``:``, blanks."""
    position = 0
    while position < len(logical) and logical[position] not in "=: \t\f":
        position += 2 if logical[position] == "\\" else 1
    key, rest = logical[:position], logical[position:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return key, rest


_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text

    def unescaped(match: re.Match[str]) -> str:
        character = match.group(1)
        if character[:1] != "u":
            return _ESCAPED.get(character, character)
        if len(character) != 5:
            raise ValueError("expected four hexadecimal digits after \\u")
        return chr(int(character[1:], 16))

    units = re.sub(r"\\(u[0-9a-fA-F]{4}|.|\Z)", unescaped, text, flags=re.DOTALL)
    # Two \u escapes may be the halves of one character beyond the basic plane.
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _escape(text: str) -> str:
    def escaped(match: re.Match[str]) -> str:
        character = match.group()
        if character in _ESCAPES:
            return _ESCAPES[character]
        units = character.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at] << 8 | units[at + 1]:04X}" for at in range(0, len(units), 2))

    return re.sub(r"[^ -\[\]-~]", escaped, text)
