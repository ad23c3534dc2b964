"""Parser of the JSON dialect of fastjson 1.2.69, in which RocketMQ's bodies, files and header texts are written.

Beyond standard JSON it accepts the extensions of fastjson that RocketMQ's peers send: map keys that are bare numbers,
``null``, identifiers or whole objects; single quotes; runs of commas and a trailing one; ``\\xHH`` and octal-looking
escapes; raw control characters in strings; a type letter after a number (``5L``); ``undefined``. Of a repeated key the
last value counts. It does not know ``$ref`` (:mod:`rocketpy.protocol.fastjson.references`) or the meaning of any key.

Rule: linear time for any input. Nesting beyond :data:`DEPTH_MAX` and any other text outside the dialect is a
:class:`~rocketpy.errors.RemoteProtocolError` that names the position. Keys are chosen so that no input can make them
collide in a dict: the hash of a text is random per process, an integer key is an int64 (the hash of a longer one is its
remainder, so millions may share it), and a :class:`FrozenBean` hashes as a text.

Compatibility: fastjson also accepts arrays, fractions and integers beyond int64 as keys; RocketMQ never writes them,
and here they are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rocketpy.errors import RemoteProtocolError

DEPTH_MAX = 128
"""Bound of nested arrays and objects. RocketMQ's deepest body has 7 levels; fastjson ends in a StackOverflowError."""

_WHITESPACE = re.compile(r"[ \t\r\n\f\b]*")
_COMMAS = re.compile(r"[ \t\r\n\f\b,]*")
_NUMBER = re.compile(r"(-?[0-9]+)(\.[0-9]*)?([eE][+-]?[0-9]+)?([LSBFDlsbfd](?![A-Za-z0-9_]))?")
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$.\-@#%]*")
_PLAIN_CHARACTERS = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")
_HEX_DIGITS = {"x": re.compile(r"[0-9A-Fa-f]{2}"), "u": re.compile(r"[0-9A-Fa-f]{4}")}
_ESCAPES = dict(zip("btnvfFr\"'/\\01234567", "\b\t\n\v\f\f\r\"'/\\\0\1\2\3\4\5\6\7", strict=True))
_LITERALS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "undefined": None}
_SHOWN_CHARACTERS_MAX = 20
_NUMBER_SIZE_MAX = 1000
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class FrozenBean(Mapping[str, object]):
    """An object that is a map key, as MessageQueue is: hashable, equal to any with the same members in any order."""

    __slots__ = ("_hash", "_members")

    def __init__(self, members: Mapping[str, object]) -> None:
        self._members = {key: _frozen(value) for key, value in members.items()}
        # The hash of a text: that of a number is predictable, so members could be chosen that make all beans collide.
        texts = [f"{_hashed_text(key)}:{_hashed_text(value)}" for key, value in self._members.items()]
        self._hash = hash(",".join(texts if len(texts) == 1 else sorted(texts)))

    def __getitem__(self, key: str) -> object:
        return self._members[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrozenBean) and self._members == other._members

    def __repr__(self) -> str:
        return f"FrozenBean({self._members!r})"


def read_document(text: str) -> object:
    """Return the value that ``text`` holds: dicts, lists, text, numbers, booleans and ``None``.

    Keys are text, integers where they are bare numbers, ``None`` where they are a bare ``null``, and
    :class:`FrozenBean` where they are objects. Text without anything but spaces is ``None``, as in fastjson.
    """
    if text.startswith("\ufeff"):
        text = text[1:]
    position = _skip_whitespace(text, 0)
    if position == len(text):
        return None
    value, position = _read_value(text, position, 1)
    position = _skip_whitespace(text, position)
    if position != len(text):
        raise _unexpected(text, position, "nothing after the document")
    return value


def joined_surrogates(text: str) -> str:
    """Return ``text`` with surrogate pairs joined and lone halves replaced by ``?``, as Java's UTF-8 encoder does."""
    return _SURROGATES.sub(_join_surrogates, text)


def _frozen(value: object) -> object:
    if isinstance(value, Mapping):
        return value if isinstance(value, FrozenBean) else FrozenBean(value)
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in value)
    return value


def _hashed_text(value: object) -> str:
    """Return a text that is the same for equal values, and the shorter for a bean: its hash stands for it."""
    if isinstance(value, FrozenBean):
        return f"{{{hash(value)}}}"
    if isinstance(value, tuple):
        return f"({','.join(map(_hashed_text, value))})"
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return repr(int(value))  # True, 1 and 1.0 are equal
    return repr(value)


def _read_value(text: str, position: int, depth: int) -> tuple[object, int]:
    """Read the value that begins at ``position``; ``depth`` is the level it would nest at."""
    character = text[position : position + 1]
    if character in ('"', "'") and character:
        return _read_string(text, position)
    if character in ("{", "[") and depth > DEPTH_MAX:
        raise RemoteProtocolError(f"JSON: expected at most {DEPTH_MAX} levels, found more at character {position}")
    if character == "{":
        return _read_object(text, position + 1, depth)
    if character == "[":
        return _read_array(text, position + 1, depth)
    number = _NUMBER.match(text, position)
    if number:
        return _number(number), number.end()
    identifier = _IDENTIFIER.match(text, position)
    if identifier and identifier.group() in _LITERALS:
        return _LITERALS[identifier.group()], identifier.end()
    raise _unexpected(text, position, "a value")


def _read_object(text: str, position: int, depth: int) -> tuple[dict[object, object], int]:
    members: dict[object, object] = {}
    while True:
        position = _skip_commas(text, position)
        if text.startswith("}", position):
            return members, position + 1
        key, position = _read_key(text, position, depth)
        position = _skip_whitespace(text, position)
        if not text.startswith(":", position):
            raise _unexpected(text, position, "':'")
        members[key], position = _read_value(text, _skip_whitespace(text, position + 1), depth + 1)
        position = _skip_whitespace(text, position)
        if not text.startswith((",", "}"), position):
            raise _unexpected(text, position, "',' or '}'")


def _read_key(text: str, position: int, depth: int) -> tuple[object, int]:
    number = _NUMBER.match(text, position)
    if number:
        return _integer_key(number), number.end()
    identifier = _IDENTIFIER.match(text, position)
    if identifier:
        name = identifier.group()
        return None if name == "null" else name, identifier.end()
    if not text.startswith(('"', "'", "{"), position):
        raise _unexpected(text, position, "a key or '}'")
    key, position = _read_value(text, position, depth + 1)
    return _frozen(key), position


def _read_array(text: str, position: int, depth: int) -> tuple[list[object], int]:
    items: list[object] = []
    while True:
        position = _skip_commas(text, position)
        if text.startswith("]", position):
            return items, position + 1
        item, position = _read_value(text, position, depth + 1)
        items.append(item)
        position = _skip_whitespace(text, position)
        if not text.startswith((",", "]"), position):
            raise _unexpected(text, position, "',' or ']'")


def _read_string(text: str, position: int) -> tuple[str, int]:
    quote = text[position]
    plain = _PLAIN_CHARACTERS[quote]
    start, position = position, position + 1
    parts: list[str] = []
    has_unicode_escapes = False
    while True:
        run = plain.match(text, position)
        assert run is not None, "the expression matches the empty text too"
        parts.append(run.group())
        position = run.end()
        if position >= len(text):
            raise RemoteProtocolError(f"JSON: expected {quote} to end the string that begins at character {start}")
        if text[position] == quote:
            break
        has_unicode_escapes |= text.startswith("u", position + 1)
        character, position = _read_escape(text, position + 1)
        parts.append(character)
    content = parts[0] if len(parts) == 1 else "".join(parts)
    return joined_surrogates(content) if has_unicode_escapes else content, position + 1


def _read_escape(text: str, position: int) -> tuple[str, int]:
    """Read what follows the backslash before ``position``."""
    letter = text[position : position + 1]
    if letter in ("x", "u"):
        digits = _HEX_DIGITS[letter].match(text, position + 1)
        if not digits:
            raise _unexpected(text, position + 1, f"hexadecimal digits after \\{letter}")
        return chr(int(digits.group(), 16)), digits.end()
    if letter not in _ESCAPES:
        raise _unexpected(text, position, "an escape")
    return _ESCAPES[letter], position + 1


def _integer_key(match: re.Match[str]) -> int:
    key = _number(match)
    if not isinstance(key, int) or not _INT64_MIN <= key <= _INT64_MAX:
        found = match.group()[:_SHOWN_CHARACTERS_MAX]
        raise RemoteProtocolError(f"JSON: expected an int64 as a bare key, found {found} at character {match.start()}")
    return key


def _number(match: re.Match[str]) -> int | float:
    integer, fraction, exponent, suffix = match.groups()
    if not fraction and not exponent and suffix not in ("F", "D", "f", "d"):
        # The longest integer that Java reads has 19 digits; Python takes quadratic time for thousands of them.
        digit_count = len(integer.lstrip("-"))
        if digit_count > 40:
            raise RemoteProtocolError(f"JSON: expected a number, found {digit_count} digits at {match.start()}")
        return int(integer)
    if match.end() - match.start() > _NUMBER_SIZE_MAX:
        size = match.end() - match.start()
        raise RemoteProtocolError(f"JSON: expected a number, found {size} characters of it at {match.start()}")
    return float(f"{integer}{fraction or ''}{exponent or ''}")


def _join_surrogates(match: re.Match[str]) -> str:
    halves = match.group()
    return "?" if len(halves) == 1 else halves.encode("utf-16", "surrogatepass").decode("utf-16")


def _skip_whitespace(text: str, position: int) -> int:
    match = _WHITESPACE.match(text, position)
    assert match is not None, "the expression matches the empty text too"
    return match.end()


def _skip_commas(text: str, position: int) -> int:
    match = _COMMAS.match(text, position)
    assert match is not None, "the expression matches the empty text too"
    return match.end()


def _unexpected(text: str, position: int, expected: str) -> RemoteProtocolError:
    found = repr(text[position : position + _SHOWN_CHARACTERS_MAX]) if position < len(text) else "the end"
    return RemoteProtocolError(f"JSON: expected {expected}, found {found} at character {position}")
