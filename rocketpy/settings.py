"""RocketMQ's properties files, read into attrs classes and written back.

A settings class is ``@attrs.frozen(kw_only=True)`` with one :func:`setting` per key: snake_case of the Java field, with
RocketMQ's default. The key in the file is the camelCase of the name. Rules: a wrong value is a
:class:`~rocketpy.errors.SettingsError` that names file, line, key, value and what was expected; an unknown key is a
warning with the nearest known name, because RocketMQ files carry keys we do not need; nothing is skipped silently.

This module knows no program and no key: the classes live where they are used.
"""

from __future__ import annotations

import enum
import functools
import math
import re
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar, Union, cast

import attrs

from rocketpy.errors import SettingsError
from rocketpy.properties_text import PropertyLine, decode_properties_text, format_property, read_properties

T = TypeVar("T")
Validator = Callable[[object, "attrs.Attribute[object]", object], None]

IN_FORCE = ".inForce"
"""Suffix of the key that shows the value in force while another one has been accepted for the next start."""

_DETAIL = "rocketpy.setting"
_KEY_SHOWN_MAX = 100
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_LINE = re.compile(r" line \d+: ")
_KEY = re.compile(r"[A-Za-z][\w.]*")
_QUOTED = re.compile(r"""(["']).+\1\Z""", re.DOTALL)
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
    """The arguments of :func:`setting` for one key."""

    unit: str
    expected: str
    key: str | None
    ignored: str | None
    important: bool
    fixed: bool
    live: bool


@attrs.frozen
class SettingRow:
    """One key of a settings class, with the texts for documentation and messages."""

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
class LoadedSettings:
    """The settings of one file: a value for each class asked for, in that order."""

    values: tuple[object, ...]
    warnings: tuple[str, ...]
    unknown: dict[str, str]  # keys of no class, kept for when the file is written again
    places: dict[str, str] = attrs.field(factory=dict)  # by key: the file and line that count, for :func:`located`

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
    :param fixed: takes effect only at start: no request may ever change it (paths, addresses, code).
    :param live: read by its users whenever it is needed, so that a change by request takes effect at once.
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
    warnings += _quoted(found, rows, file)
    places = {key: f"{file} line {line.line}" for key, line in found.items()} if file else {}
    return LoadedSettings(values=tuple(values), warnings=tuple(warnings), unknown=unknown, places=places)


def located(sentence: str, places: Mapping[str, str]) -> str:
    """Return a sentence about a setting with the file and line in front that set it.

    A check of several settings, or of the machine, comes after the file was read and knows only the key. The first key
    of the sentence that the file sets is the one; a sentence without such a key, or with its line, stays as it is.
    """
    if _LINE.search(sentence):
        return sentence
    place = next((places[word] for word in _KEY.findall(sentence) if word in places), None)
    return sentence if place is None else f"{place}: {sentence}"


def _quoted(found: Mapping[str, PropertyLine], rows: Mapping[str, SettingRow], file: str) -> list[str]:
    """Return warnings about values in quotes, which are part of the value; SettingsError for a path in quotes."""
    warnings = []
    for line in found.values():
        if line.key not in rows or not _QUOTED.match(line.value):
            continue
        if rows[line.key].fixed and line.value[1:2] in ("/", "~", "."):
            raise SettingsError(
                f"{file} line {line.line}: {line.key} = {line.value!r}: expected a path without quotes, they would be "
                "part of it"
            )
        warnings.append(f"{file} line {line.line}: the quotes of {line.key} are part of its value")  # maybe a password
    return warnings


def updated_settings(settings: T, changes: Mapping[str, str]) -> T:
    """Return a copy of the settings with the given keys changed; keys of other classes are skipped.

    Raises :class:`SettingsError` naming key, value and what was expected, also for a change of a ``fixed`` key.
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


def replace_live(settings: object, target: object) -> tuple[list[str], list[str]]:
    """Replace the ``live`` fields of a settings value in use by those of ``target``, in place.

    Holders of the value see the change at once; no other code modifies a frozen value. Fields without effect are
    replaced too. Returns the keys that have changed, and those that still differ until the next start.
    """
    now, then, fields = settings_values(settings), settings_values(target), _field_values(target)
    changed, left = [], []
    for row in setting_rows(settings.__class__):
        if now.get(row.key) == then.get(row.key):
            continue
        if row.live or row.ignored is not None:
            object.__setattr__(settings, row.name, fields[row.name])
            changed.append(row.key)
        else:
            left.append(row.key)
    return changed, left


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


def values_in_force(now: Sequence[object], accepted: Sequence[object]) -> dict[str, str]:
    """Return, under ``key.inForce``, the value in force of each setting that was accepted for the next start only."""
    in_force, then = settings_values(*now), settings_values(*accepted)
    keys = dict.fromkeys(row.key for each in now for row in setting_rows(each.__class__))
    return {key + IN_FORCE: in_force.get(key, "") for key in keys if in_force.get(key) != then.get(key)}


def with_values_in_force(values: Mapping[str, str], in_force: Mapping[str, str]) -> dict[str, str]:
    """Return accepted values, each followed by its value in force where :func:`values_in_force` has one."""
    shown: dict[str, str] = {}
    for key, value in values.items():
        shown[key] = value
        if key + IN_FORCE in in_force:
            shown[key + IN_FORCE] = in_force[key + IN_FORCE]
    return shown


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
    """Return a warning about an unknown key, with the nearest known one."""
    by_lower = {name.lower(): name for name in known}
    if len(key) > _KEY_SHOWN_MAX:  # comparing takes the square of the length
        return f"unknown key {key[:_KEY_SHOWN_MAX]}... has no effect"
    import difflib  # only a misspelt key needs it

    nearest = difflib.get_close_matches(key.lower(), by_lower, n=1, cutoff=0.6)
    hint = f"; did you mean {by_lower[nearest[0]]}?" if nearest else ""
    return f"unknown key {key} has no effect{hint}"


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
    back. Blanks at the end, which nobody sees, are part of no value: RocketMQ keeps them in paths and names.
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
    return text.rstrip()


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
