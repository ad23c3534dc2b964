"""The settings of a running broker: what they are now, and how one request changes some of them.

The settings classes are frozen for their readers, and all readers share the same objects: ``config.slave_read_enable``
is the value in force, at the price of an attribute. :class:`LiveSettings` alone replaces fields of these objects,
between two awaits, and only those declared ``live``. A feature that caches a value derived from a setting subscribes
to it (:meth:`LiveSettings.on_change`).

Rules. A change is accepted whole or refused whole, and an accepted one is in the file before it counts. What is not
``live`` goes to the file and counts from the next start; until then both values are shown. What is ``fixed`` (paths,
addresses, code to load, the black list) and what the black list names, no request changes. What the next start would
refuse is refused now: the brokers of ``--groups`` share the file, so a change is checked together with what the file
has when it is written, and not only with what this broker has read.

Compatibility: ``Configuration`` and ``AdminBrokerProcessor.updateBrokerConfig`` (4.9.8). Java passes over a value that
does not parse and a key that it does not know, and answers success; here both are refused. Java's file then has every
key in no order; here the text of the file stays as it is but for the values that change. Java replaces the field of
every setting at once and shows it, used or not; here a setting that counts from the next start has a second key.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

from rocketpy.clock import Clock
from rocketpy.errors import SettingsError
from rocketpy.live_settings import ChangeableSettings, SettingsChange
from rocketpy.properties_text import format_properties, read_properties
from rocketpy.protocol.bodies.topic import DataVersion
from rocketpy.runner import RunBlocking
from rocketpy.settings import settings_values, updated_settings, with_values_in_force
from rocketpy.store.disk.interface import Disk
from rocketpy.store.disk.text_files import rewrite_properties_file


class FixedSettingError(SettingsError):
    """No request may change this key; the message names it."""


class LiveSettings:
    """The settings of one broker. ``values`` are the objects that all features share, ``unknown`` the other keys of the
    file; ``check`` raises SettingsError for values with which the broker would not start."""

    def __init__(
        self,
        values: Sequence[object],
        *,
        path: str,
        unknown: Mapping[str, str],
        check: Callable[[Sequence[object]], None],
        disk: Disk,
        run_blocking: RunBlocking,
        clock: Clock,
    ) -> None:
        self._settings = ChangeableSettings(values, unknown=unknown, write=self._write, check=check)
        self._check = check
        self.values = self._settings.values
        self.path = path
        self.data_version = DataVersion(timestamp=clock.timestamp_ms(), counter=0)
        self._disk = disk
        self._run_blocking = run_blocking
        self._clock = clock
        self._listeners: list[tuple[frozenset[str], Callable[[], None]]] = []

    def on_change(self, keys: Iterable[str], listener: Callable[[], None]) -> None:
        """Call ``listener`` after each change of some of these keys, all of which must be ``live``."""
        wanted = frozenset(keys)
        assert all(self._settings.rows[key].live for key in wanted), wanted
        self._listeners.append((wanted, listener))

    def text(self) -> str:
        """Return the accepted value of every setting as lines of a properties file, unknown keys included.

        A value that counts from the next start is followed by the one in force, as ``key.inForce``.
        """
        settings = self._settings
        unset = dict.fromkeys(settings.rows, "")
        values = {**unset, **settings_values(*settings.next_values), **settings.unknown}
        return format_properties(with_values_in_force(values, settings.values_in_force()))

    async def update(self, text: str, *, black_list: Iterable[str] = ()) -> SettingsChange:
        """Apply properties text: the file first, then what counts at once.

        Raises :class:`SettingsError` naming the key, :class:`FixedSettingError` for one that no request may change,
        those of ``black_list`` among them, ``StoreError`` when the file cannot be written; nothing has changed then.
        A value in force that is sent back as :meth:`text` shows it changes nothing.
        """
        changes = self._settings.changes_in(text)
        self._check_keys(changes, frozenset(black_list))
        change = await self._settings.apply(changes)
        if not changes:
            return SettingsChange((), ())
        self.data_version = self.data_version.next_version(self._clock.timestamp_ms())
        for keys, listener in self._listeners:
            if not keys.isdisjoint(change.live):
                listener()
        return change

    # ---- private --------------------------------------------------------------------------------------------------

    def _check_keys(self, changes: Mapping[str, str], black_list: frozenset[str]) -> None:
        for key, value in changes.items():
            if key in black_list:
                raise FixedSettingError(f"{key} is changed in the file, with a restart")
            if self._settings.changes_fixed(key, value):
                raise FixedSettingError(f"{key} = {value!r}: expected no change, only the start sets it")
            self._settings.check_known(key)

    async def _write(self, changes: Mapping[str, str], accepted: Mapping[str, str]) -> None:
        """Change these keys in the file; a new file has them alone, the defaults stay defaults."""
        rewrite = functools.partial(rewrite_properties_file, initial=changes, check=self._check_text)
        await self._run_blocking(rewrite, self._disk, self.path, changes)

    def _check_text(self, text: str) -> None:
        """Raise SettingsError for a text of the file with which a broker would not start. Runs in a worker thread.

        What is ``fixed`` is taken from this start, which may have had it from the command line.
        """
        rows = self._settings.rows
        in_file = {line.key: line.value for line in read_properties(text)}
        changeable = {key: value for key, value in in_file.items() if key in rows and not rows[key].fixed}
        self._check([updated_settings(each, changeable) for each in self._settings.next_values])
