"""Members of a JSON object in a file of a pipeline, each read by name, type and range.

Only our pipelines write and read these files, so nothing is forgiven: a member that is missing, of another type or out
of range, and one that no reader asks for, is a ``StoreError`` that names the file, the member, what was expected and
what was found. What is read decides which files are moved, removed and sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, Final, NoReturn, TypeVar

import attrs

from rocketpy.errors import StoreError

T = TypeVar("T")

INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1
_SHOWN_CHARACTERS: Final = 100


@attrs.frozen
class JsonFields:
    """One object. ``what`` says what the file is, ``where`` which of its objects this is; empty for the whole."""

    members: dict[str, Any]
    path: str
    what: str
    where: str = ""

    def number(self, name: str, least: int = 0, most: int = INT64_MAX) -> int:
        """Return a whole number within bounds."""
        value = self._value(name)
        if type(value) is not int or not least <= value <= most:
            self.fail(name, f"a whole number from {least} to {most}", value)
        return value

    def share(self, name: str, index: int, value: object) -> float:
        """Return one of the numbers of a list, a part of a whole."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            self.fail(f"{name}[{index}]", "a number above 0, at most 1", value)
        return float(value)

    def count(self, name: str, index: int, value: object) -> int:
        """Return one of the numbers of a list, of 0 or more."""
        if type(value) is not int or not 0 <= value <= INT64_MAX:
            self.fail(f"{name}[{index}]", "a whole number of 0 or more", value)
        return value

    def text(self, name: str) -> str:
        """Return a text."""
        value = self._value(name)
        if not isinstance(value, str):
            self.fail(name, "a text", value)
        return value

    def name(self, name: str) -> str:
        """Return a text that is not empty."""
        return self.text(name) or self.fail(name, "a text that is not empty", "")

    def matching(self, name: str, pattern: re.Pattern[str], expected: str) -> str:
        """Return a text that a pattern matches as a whole."""
        return self._matched(name, self._value(name), pattern, expected)

    def time(self, name: str) -> str:
        """Return the text of a time with its zone, in ISO 8601."""
        text = self.text(name)
        try:
            has_zone = datetime.fromisoformat(text).tzinfo is not None
        except ValueError:
            has_zone = False
        return text if has_zone else self.fail(name, "a time like 2026-01-31T12:00:00+00:00", text)

    def texts(self, name: str, pattern: re.Pattern[str], expected: str) -> tuple[str, ...]:
        """Return a list of texts that a pattern matches."""
        return tuple(
            self._matched(f"{name}[{index}]", value, pattern, expected) for index, value in enumerate(self.items(name))
        )

    def items(self, name: str) -> list[Any]:
        """Return a list of anything."""
        value = self._value(name)
        if not isinstance(value, list):
            self.fail(name, "a list", value)
        return value

    def inner(self, name: str) -> JsonFields:
        """Return an object."""
        return self._object(name, self._value(name))

    def objects(self, name: str, read: Callable[[JsonFields], T]) -> tuple[T, ...]:
        """Return what is read of each object of a list."""
        return tuple(read(self._object(f"{name}[{index}]", value)) for index, value in enumerate(self.items(name)))

    def expect_only(self, names: Collection[str]) -> None:
        """Refuse a member that no reader asks for: it says something that would not be done."""
        for name in self.members:
            if name not in names:
                self.fail(name, f"only {', '.join(names)}", self.members[name])

    def fail(self, name: str, expected: str, found: object) -> NoReturn:
        """Refuse the file for one of its members."""
        place = f"{self.where}.{name}" if self.where else name
        raise StoreError(
            f"{place[:_SHOWN_CHARACTERS]}: expected {expected}, found {found!r:.{_SHOWN_CHARACTERS}}, in {self.what}",
            path=self.path,
        )

    def _value(self, name: str) -> Any:
        return self.members[name] if name in self.members else self.fail(name, "a value", None)

    def _object(self, name: str, value: object) -> JsonFields:
        if not isinstance(value, dict):
            self.fail(name, "an object", value)
        return JsonFields(value, self.path, self.what, f"{self.where}.{name}" if self.where else name)

    def _matched(self, name: str, value: object, pattern: re.Pattern[str], expected: str) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            self.fail(name, expected, value)
        return value


def read_fields(content: bytes, path: str, what: str) -> JsonFields:
    """Return the object that a file has; ``StoreError`` if it has none, or a member that comes twice."""
    try:
        members = json.loads(content, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"expected {what}, found something else: {error}", path=path) from error
    if not isinstance(members, dict):
        raise StoreError(f"expected {what}, found something else: {members!r:.{_SHOWN_CHARACTERS}}", path=path)
    return JsonFields(members, path, what)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"{name[:_SHOWN_CHARACTERS]!r} comes twice in one object")
        members[name] = value
    return members
