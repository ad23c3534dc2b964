"""Settings of a running program and how one request changes some of them; broker and nameserver share it.

Rules. A change is accepted whole or refused whole, and an accepted one is in the file before it counts. Only settings
declared ``live`` are replaced in the objects that everything else reads; the others count from the next start, and
until then both values are shown. What is ``fixed`` no request changes.

Which keys a program refuses besides, and what it answers, is its own; so is the file, which is written by a callable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import attrs
import trio

from rocketpy.errors import SettingsError
from rocketpy.properties_text import read_properties
from rocketpy.settings import (
    replace_live,
    setting_rows,
    settings_values,
    unknown_key,
    updated_settings,
    values_in_force,
)

WriteSettings = Callable[[Mapping[str, str], Mapping[str, str]], Awaitable[None]]
"""Writes changed keys into the settings file; also given every accepted value, for a file that does not exist yet."""


@attrs.frozen
class SettingsChange:
    """The result of one request: the keys that count already, and those that count from the next start."""

    live: tuple[str, ...]
    from_next_start: tuple[str, ...]


class ChangeableSettings:
    """The settings in force, those accepted for the next start, and the keys of the file that mean nothing here."""

    def __init__(
        self,
        values: Sequence[object],
        *,
        unknown: Mapping[str, str],
        write: WriteSettings,
        check: Callable[[Sequence[object]], None] | None = None,
    ) -> None:
        """Take the objects that are replaced in place; ``check`` raises SettingsError for an invalid combination."""
        self.values = tuple(values)
        self.next_values = self.values
        """The same with what counts from the next start; other objects as soon as something has changed."""
        self.unknown = dict(unknown)
        self.rows = {row.key: row for each in self.values for row in setting_rows(each.__class__)}
        self._write = write
        self._check = check
        # A change awaits the disk between reading the settings and replacing them.
        self._change_lock = trio.Lock()

    def values_in_force(self) -> dict[str, str]:
        """Return, under ``key.inForce``, the value in force of each setting accepted for the next start only."""
        return values_in_force(self.values, self.next_values)

    def changes_in(self, text: str) -> dict[str, str]:
        """Return the keys of properties text with their values, without values in force that are sent back."""
        in_force = self.values_in_force()
        return {line.key: line.value for line in read_properties(text) if in_force.get(line.key) != line.value}

    def changes_fixed(self, key: str, value: str) -> bool:
        """Return whether this would change a setting that only the start sets."""
        row = self.rows.get(key)
        return row is not None and row.fixed and value != settings_values(*self.values).get(key, "")

    def check_known(self, key: str) -> None:
        """Raise SettingsError for a key that is neither a setting nor in the file."""
        if key not in self.rows and key not in self.unknown:
            raise SettingsError(unknown_key(key, self.rows))

    async def apply(self, changes: Mapping[str, str]) -> SettingsChange:
        """Write changes into the file, then let those count that are live.

        Raises SettingsError for a wrong value, and what writing raises; nothing has changed then. Without changes
        nothing is written; the keys that wait for the next start are returned all the same.
        """
        async with self._change_lock:
            next_values = tuple(updated_settings(each, changes) for each in self.next_values)
            if self._check is not None:
                self._check(next_values)
            if changes:
                unknown = {key: changes.get(key, value) for key, value in self.unknown.items()}
                await self._write(changes, {**unknown, **settings_values(*next_values)})
                self.unknown, self.next_values = unknown, next_values
            return self._replace()

    def _replace(self) -> SettingsChange:
        changed: list[str] = []
        left: list[str] = []
        for value, next_value in zip(self.values, self.next_values, strict=True):
            of_value = replace_live(value, next_value)
            changed += of_value[0]
            left += of_value[1]
        return SettingsChange(tuple(changed), tuple(left))
