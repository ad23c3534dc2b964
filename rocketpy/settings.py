"""RocketMQ's properties files, read into attrs classes and written back.

A settings class is ``@attrs.frozen(kw_only=True)`` with one :func:`setting` per key: snake_case of the Java field, with
RocketMQ's default. The key in the file is the camelCase of the name. Rules: a wrong value is a
:class:`~rocketpy.errors.SettingsError` that names file, line, key, value and what was expected; an unknown key is a
warning with the nearest known name, because RocketMQ files carry keys we do not need; nothing is skipped silently.

The syntax is that of ``java.util.Properties``: ``#`` and ``!`` begin a comment, ``=``, ``:`` or white space separate
key and value, a backslash at the end of a line continues it, ``\\t \\n \\r \\f \\uXXXX`` are escapes, the last of
equal keys counts. Compatibility: files are read as UTF-8 and only if that fails as ISO 8859-1, which Java always uses;
what we write is ASCII, the same in both.

This module knows no program and no key: the classes live where they are used.
"""

from __future__ import annotations

import difflib
import enum
import functools
import math
import re
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar, Union, cast

import attrs

from rocketpy.errors import SettingsError

T = TypeVar("T")
Validator = Callable[[object, "attrs.Attribute[object]", object], None]

_DETAIL = "rocketpy.setting"
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}\Z", re.ASCII)


@attrs.frozen
class Between:
    """Validates that a number lies in ``[low, high]``, and says so in words.

    >>> Between(0, 65535).expected
    'an integer from 0 to 65535'
    """

    low: float
    high: float | None = None

    @property
    def expected(self) -> str:
        """The range in words, for messages and the conf files."""
        noun = "an integer" if isinstance(self.low, int) else "a number"
        return f"{noun} from {self.low} to {self.high}" if self.high is not None else f"{noun}, at least {self.low}"

    def __call__(self, instance: object, attribute: attrs.Attribute[object], value: object) -> None:
        """Raise ``ValueError`` unless the value is in the range (attrs calls this on creation)."""
        number = cast(float, value)
        if not (self.low <= number and (self.high is None or number <= self.high)):
            raise ValueError(f"{attribute.name} is {value!r}, expected {self.expected}")


@attrs.frozen(init=False)
class OneOf:
    """Validates that a text is one of a few words, and says which.

    >>> OneOf("disabled", "permissive", "enforcing").expected
    'disabled, permissive or enforcing'
    """

    words: tuple[str, ...]
    ignore_case: bool

    def __init__(self, *words: str, ignore_case: bool = False) -> None:
        self.__attrs_init__(words, ignore_case)

    @property
    def expected(self) -> str:
        """The words, for messages and the conf files."""
        return f"{', '.join(self.words[:-1])} or {self.words[-1]}"

    def __call__(self, instance: object, attribute: attrs.Attribute[object], value: object) -> None:
        """Raise ``ValueError`` unless the value is one of the words (attrs calls this on creation)."""
        text = str(value).lower() if self.ignore_case else value
        if text not in self.words:
            raise ValueError(f"{attribute.name} is {value!r}, expected {self.expected}")


@attrs.frozen
class _Detail:
    """What :func:`setting` was told about one key."""

    unit: str
    expected: str
    key: str | None
    ignored: str | None
    important: bool
    fixed: bool
    live: bool


@attrs.frozen
class SettingRow:
    """One key of a settings class: what documentation and messages say of it."""

    name: str
    key: str
    value_type: object
    default: object  # the value itself; a factory has been called
    unit: str
    expected: str  # what a right value looks like, in words
    ignored: str | None  # why the key is accepted without effect
    important: bool  # printed by -m
    fixed: bool  # counts only where the program is started
    live: bool  # a change by request counts at once, not with the next start only


@attrs.frozen
class PropertyLine:
    """One key with its value, and the lines it fills in the file (counted from 1, both included)."""

    key: str
    value: str
    line: int
    last_line: int


@attrs.frozen
class LoadedSettings:
    """The settings of one file: a value for each class asked for, in that order."""

    values: tuple[object, ...]
    warnings: tuple[str, ...]
    unknown: dict[str, str]  # keys of no class, kept for the day the file is written again

    def of(self, settings_class: type[T]) -> T:
        """Return the value of one of the classes that were asked for."""
        for value in self.values:
            if isinstance(value, settings_class):
                return value
        raise KeyError(settings_class.__name__)


def setting(
    default: T,
    *,
    unit: str = "",
    expected: str = "",
    key: str | None = None,
    ignored: str | None = None,
    important: bool = False,
    fixed: bool = False,
    live: bool = False,
    validator: Validator | list[Validator] | None = None,
) -> T:
    """Declare one key of a settings class.

    :param default: RocketMQ's default, or ``attrs.Factory`` of one.
    :param unit: the unit of a number (``ms``, ``bytes``), for the conf files.
    :param expected: a right value in words; worked out from type and validator if left out.
    :param key: the key in the file if it is not the camelCase of the name.
    :param ignored: for a key of RocketMQ that has no effect here: why.
    :param important: one of the few that ``-m`` prints.
    :param fixed: counts only where the program is started: no request may ever change it (paths, addresses, code).
    :param live: whoever uses it reads it when it is needed, so that a change by request counts at once.
    :param validator: an attrs validator; :class:`Between` and :class:`OneOf` bring their own words.
    """
    if not expected and isinstance(validator, Between | OneOf):
        expected = validator.expected
    assert not (fixed and live), "what no request may change cannot be changed while the program runs"
    detail = _Detail(
        unit=unit, expected=expected, key=key, ignored=ignored, important=important, fixed=fixed, live=live
    )
    checks = cast("attrs.validators._ValidatorType[object] | None", validator)  # type: ignore[name-defined]
    field = attrs.field(default=default, validator=checks, metadata={_DETAIL: detail})
    return field


def setting_rows(settings_class: type) -> tuple[SettingRow, ...]:
    """Describe every key of a settings class, in the order of declaration."""
    return _cached_rows(settings_class)


@functools.cache
def _cached_rows(settings_class: Hashable) -> tuple[SettingRow, ...]:
    assert isinstance(settings_class, type)
    hints = typing.get_type_hints(settings_class)
    rows = []
    for field in attrs.fields(settings_class):
        detail: _Detail = field.metadata.get(_DETAIL) or _Detail("", "", None, None, False, False, False)
        default = field.default.factory() if isinstance(field.default, attrs.Factory) else field.default  # type: ignore[arg-type]
        value_type = hints[field.name]
        rows.append(
            SettingRow(
                name=field.name,
                key=detail.key or camel_case(field.name),
                value_type=value_type,
                default=default,
                unit=detail.unit,
                expected=detail.expected or _expected_of(value_type),
                ignored=detail.ignored,
                important=detail.important,
                fixed=detail.fixed,
                live=detail.live,
            )
        )
    return tuple(rows)


def camel_case(name: str) -> str:
    """Turn a snake_case name into RocketMQ's spelling: ``listen_port`` is ``listenPort``."""
    head, *tail = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in tail)


def load_settings(path: str | None, *classes: object) -> LoadedSettings:
    """Read a properties file; without a path everything has its default.

    Each of ``classes`` is a settings class, or a value of one whose fields are then the defaults: a nameserver passes
    ``NettyServerConfig(listen_port=9876)``. Raises :class:`SettingsError` if the file cannot be read or a value is
    wrong.
    """
    if path is None:
        return settings_from_text("", "", *classes)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    return settings_from_text(decode_properties_text(content), path, *classes)


def decode_properties_text(content: bytes) -> str:
    """Decode the bytes of a properties file: UTF-8 (with or without a byte order mark), else ISO 8859-1."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("iso-8859-1")


def settings_from_text(text: str, file: str, *classes: object) -> LoadedSettings:
    """Read properties text; ``file`` is only named in messages. A key may belong to several classes."""
    defaults = [each() if isinstance(each, type) else each for each in classes]
    rows = {row.key: row for each in defaults for row in setting_rows(each.__class__)}
    found: dict[str, PropertyLine] = {}
    warnings: list[str] = []
    unknown: dict[str, str] = {}
    for line in read_properties(text, file):
        if line.key in found:
            warnings.append(
                f"{file} line {line.line}: {line.key} was set in line {found[line.key].line} already, this one counts"
            )
        found[line.key] = line
    for line in sorted(found.values(), key=lambda each: each.line):
        if line.key not in rows:
            warnings.append(f"{file} line {line.line}: {unknown_key(line.key, rows)}")
            unknown[line.key] = line.value
    values: list[object] = [_build(each, found, file) for each in defaults]
    return LoadedSettings(values=tuple(values), warnings=tuple(warnings), unknown=unknown)


def updated_settings(settings: T, changes: Mapping[str, str]) -> T:
    """Return the settings with the given keys changed; keys of other classes are passed over.

    Raises :class:`SettingsError` naming key, value and what was expected, also for a key that counts only where the
    program is started unless it keeps its value; the settings given are left as they are.
    """
    values: dict[str, object] = {}
    now = settings_values(settings)
    for row in setting_rows(settings.__class__):
        if row.key in changes:
            if row.fixed:
                if changes[row.key] == now.get(row.key, ""):
                    continue
                raise SettingsError(f"{row.key} = {changes[row.key]!r}: expected no change, only the start sets it")
            try:
                values[row.name] = _convert(row.value_type, changes[row.key])
                _check(settings.__class__, row.name, values[row.name])
            except ValueError as error:
                raise SettingsError(f"{row.key} = {changes[row.key]!r}: expected {row.expected}") from error
    try:
        return attrs.evolve(settings, **values)  # type: ignore[misc]
    except ValueError as error:  # a rule over several keys
        raise SettingsError(str(error)) from error


def settings_values(*settings: object, important_only: bool = False) -> dict[str, str]:
    """Return key and text of each setting; one that is None is left out, of equal keys the first counts."""
    values: dict[str, str] = {}
    for each in settings:
        fields = _field_values(each)
        for row in setting_rows(each.__class__):
            value = fields[row.name]
            if value is not None and (row.important or not important_only):
                values.setdefault(row.key, _text(value))
    return values


def format_settings(*settings: object, important_only: bool = False) -> list[str]:
    """Return ``key=value`` lines that can be read back; None becomes an empty text, as Java prints it."""
    lines: dict[str, str] = {}
    for each in settings:
        fields = _field_values(each)
        for row in setting_rows(each.__class__):
            if row.important or not important_only:
                value = fields[row.name]
                lines.setdefault(row.key, format_property(row.key, "" if value is None else _text(value)))
    return list(lines.values())


def unknown_key(key: str, known: Iterable[str]) -> str:
    """Say that a key has no effect, and which of the known ones may be meant."""
    by_lower = {name.lower(): name for name in known}
    nearest = difflib.get_close_matches(key.lower(), by_lower, n=1, cutoff=0.6)
    hint = f"; did you mean {by_lower[nearest[0]]}?" if nearest else ""
    return f"unknown key {key} has no effect{hint}"


# -- properties text ------------------------------------------------------------------------------------------------


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

    A key that the text does not have is appended; one that it has several times keeps its last place only.
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


# -- values ---------------------------------------------------------------------------------------------------------


def _build(defaults: object, found: Mapping[str, PropertyLine], file: str) -> object:
    """Create one settings value, key by key in file order so that the first wrong line is the one reported."""
    settings_class = defaults.__class__
    rows = [row for row in setting_rows(settings_class) if row.key in found]
    values: dict[str, object] = {}
    for row in sorted(rows, key=lambda each: found[each.key].line):
        line = found[row.key]
        try:
            values[row.name] = _convert(row.value_type, line.value)
            _check(settings_class, row.name, values[row.name])
        except ValueError as error:
            raise SettingsError(
                f"{file} line {line.line}: {row.key} = {line.value!r}: expected {row.expected}"
            ) from error
    try:
        return attrs.evolve(defaults, **values)  # type: ignore[misc]
    except ValueError as error:  # a rule over several keys, checked in __attrs_post_init__
        raise SettingsError(f"{file}: {error}") from error


def _check(settings_class: type, name: str, value: object) -> None:
    """Run the validator of one field alone, so that a failure belongs to one line."""
    field = attrs.fields_dict(settings_class)[name]
    if field.validator is not None:
        field.validator(None, field, value)


def _convert(value_type: object, text: str) -> object:
    """Turn text into a value of the annotated type; ``ValueError`` if it is none.

    Empty text is None where the annotation allows it, but for texts: so ``key=``, which is how None is printed, reads
    back.
    """
    kind = _plain_type(value_type)
    if kind is not str and kind is not value_type and not text.strip():
        return None
    if kind is bool:
        lowered = text.strip().lower()
        if lowered not in ("true", "false"):
            raise ValueError(text)
        return lowered == "true"
    if kind is int:
        if not _INTEGER.match(text.strip()) or not _INT64_MIN <= int(text) <= _INT64_MAX:
            raise ValueError(text)
        return int(text)
    if kind is float:
        number = float(text)
        if not math.isfinite(number) or "_" in text:
            raise ValueError(text)
        return number
    if issubclass(kind, enum.Enum):
        try:
            return kind[text.strip()]
        except KeyError as error:
            raise ValueError(text) from error
    assert kind is str, f"a setting cannot be a {kind.__name__}"
    return text


def _plain_type(value_type: object) -> type:
    """Strip ``| None`` from an annotation."""
    if isinstance(value_type, types.UnionType) or typing.get_origin(value_type) is Union:
        (value_type,) = (each for each in typing.get_args(value_type) if each is not types.NoneType)
    assert isinstance(value_type, type)
    return value_type


def _expected_of(value_type: object) -> str:
    kind = _plain_type(value_type)
    if issubclass(kind, enum.Enum):
        return "one of " + ", ".join(kind.__members__)
    return {bool: "true or false", int: "an integer", float: "a number"}.get(kind, "text")


def _field_values(settings: object) -> dict[str, object]:
    return attrs.asdict(cast(attrs.AttrsInstance, settings), recurse=False)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.name if isinstance(value, enum.Enum) else str(value)
