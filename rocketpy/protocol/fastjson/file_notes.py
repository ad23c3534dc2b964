"""What a reader of a file did not take as it stands, for the log of the program that reads it.

A peer's unknown key is a newer peer's, and is ignored. In a file that people edit it is a typing error, and a value
that counts as another one is a decision that nobody has made. Rule: what a reader leaves out, or takes for something
else, has a line. The reader notes it where it decides, with the path in the file; the program that knows the file's
name writes the lines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

SHOWN_MAX = 10
"""Keys and values that are named; a file may have a hundred thousand of them."""

_SHOWN_CHARACTERS_MAX = 100
_PATH_CHARACTERS_MAX = 200


class FileNotes:
    """Notes about one file, bounded in number and length."""

    def __init__(self) -> None:
        self._repeated: dict[str, None] = {}
        self._unknown: list[str] = []
        self._unknown_count = 0
        self._later: list[str] = []
        self._later_count = 0
        self._values: list[str] = []
        self._value_count = 0

    def repeated_key(self, key: str) -> None:
        """Note a key that an object has twice, of which the last value counts."""
        if len(self._repeated) < SHOWN_MAX:
            self._repeated[key[:_SHOWN_CHARACTERS_MAX]] = None

    def unknown_key(self, path: str) -> None:
        """Note a key that means nothing here, and that goes with the next write of the file."""
        self._unknown_count += 1
        if len(self._unknown) < SHOWN_MAX:
            self._unknown.append(path[:_PATH_CHARACTERS_MAX])

    def unknown_keys(self, keys: Iterable[object], known: Collection[str], path: str = "") -> None:
        """Note those keys of an object that are not known."""
        for key in keys:
            if key not in known:
                self.unknown_key(path_in(path, key))

    def later_key(self, path: str) -> None:
        """Note a setting that a later RocketMQ has written, and that this version does not have."""
        self._later_count += 1
        if len(self._later) < SHOWN_MAX:
            self._later.append(path[:_PATH_CHARACTERS_MAX])

    def value(self, path: str, found: object, expected: str, what_counts: str) -> None:
        """Note a value that is not taken as it stands; ``what_counts`` is a clause, as in ``0 counts``."""
        self._value_count += 1
        if len(self._values) < SHOWN_MAX:
            shown = f"{found!r:.{_SHOWN_CHARACTERS_MAX}}"
            self._values.append(f"{path[:_PATH_CHARACTERS_MAX]}: expected {expected}, found {shown}; {what_counts}")

    @property
    def warnings(self) -> list[str]:
        """What an operator should mend."""
        lines = [f"{key!r} comes twice in one object, the last one counts" for key in self._repeated]
        if self._unknown:
            keys = _named(self._unknown, self._unknown_count)
            lines.append(f"unknown keys, which are ignored and not kept when the file is written: {keys}")
        lines += self._values
        if self._value_count > len(self._values):
            lines.append(f"and {self._value_count - len(self._values)} more values that are not as expected")
        return lines

    @property
    def remarks(self) -> list[str]:
        """What is as it should be in a file of another version."""
        if not self._later:
            return []
        keys = _named(self._later, self._later_count)
        return [f"settings of a later RocketMQ, which do not count and are not kept when the file is written: {keys}"]

    def write(
        self, path: str, warn: Callable[[str, str, str], object], inform: Callable[[str, str, str], object]
    ) -> None:
        """Write the lines with two methods of a logger, each with the path of the file."""
        for line in self.warnings:
            warn("%s: %s", path, line)
        for line in self.remarks:
            inform("%s: %s", path, line)


def path_in(path: str, key: object) -> str:
    """Return the path of a key within a file."""
    return f"{path}.{key}" if path else str(key)


def _named(keys: list[str], count: int) -> str:
    names = ", ".join(map(repr, keys))
    return names if count == len(keys) else f"{names} and {count - len(keys)} more"
