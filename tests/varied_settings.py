"""Holds the tests that ``docs/compatibility.md`` names for settings to what they are named for: they vary the setting.

A test that never gives a setting another value than its default passes just as well when nothing reads the setting. So
while a named test runs, every settings object of this process is inspected, whatever creates it: the test, a
helper, a request that changes settings. Processes that a test starts are seen by their files of settings. The test
fails when the setting that it is named for had no value but its default. Of a parametrized test one case is enough; it
is judged when all of its cases have run.

That is not yet a proof that the test sees what the setting does. ``python -m tests.ignored_settings`` runs each named
test with its setting ignored (ROCKETPY_IGNORED_SETTING): it keeps its default whatever it is given, and the test must
fail.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache, wraps

import pytest

from rocketpy.settings import setting_rows
from tests.settings_table import CLASSES, PAGE, rows_of

IGNORED = os.environ.get("ROCKETPY_IGNORED_SETTING", "")
"""The key of a setting that is ignored in this run."""

Setting = tuple[str, str]
"""Name of the class, and key."""


@cache
def named_tests() -> dict[str, frozenset[Setting]]:
    """The settings that a test is named for, by the test (``tests/x.py::test_y``)."""
    page = PAGE.read_text()
    found: dict[str, set[Setting]] = {}
    for name in CLASSES:
        for key, row in rows_of(page, name).items():
            if row.effect == "honoured":
                found.setdefault(row.test, set()).add((name, key))
    return {test: frozenset(settings) for test, settings in found.items()}


def varied_by(settings: object) -> Iterator[Setting]:
    """Yield the settings that have another value than their default."""
    for row in setting_rows(settings.__class__):
        if getattr(settings, row.name) != row.default:
            yield settings.__class__.__name__, row.key


def _forget(settings: object, key: str) -> None:
    """Give a setting its default, whatever it was made with: in every class that has the key."""
    for row in setting_rows(settings.__class__):
        if row.key == key:
            object.__setattr__(settings, row.name, row.default)


class SettingsNote:
    """Every settings object that is made while the note is open, as it is when the note is closed."""

    def __init__(self) -> None:
        self._made: list[object] = []
        self._inits: dict[type, Callable[..., None]] = {}

    def open(self) -> None:
        """Begin to look at what is made."""
        for each in CLASSES.values():
            self._inits[each] = each.__init__  # type: ignore[misc]
            each.__init__ = self._noting(each.__init__)  # type: ignore[misc]

    def close(self) -> set[Setting]:
        """End, and return what had another value than its default, also one that it was given later."""
        for each, init in self._inits.items():
            each.__init__ = init  # type: ignore[misc]
        return {setting for settings in self._made for setting in varied_by(settings)}

    def _noting(self, init: Callable[..., None]) -> Callable[..., None]:
        @wraps(init)
        def noted(settings: object, *arguments: object, **values: object) -> None:
            init(settings, *arguments, **values)
            self._made.append(settings)
            if IGNORED:
                _forget(settings, IGNORED)

        return noted


class NamedTests:
    """The plugin: opens a note for each test that the page names, and judges the test by it."""

    def __init__(self) -> None:
        self._note: SettingsNote | None = None
        self._left: dict[str, set[str]] = {}  # cases that have not run yet, by test
        self._varied: dict[str, set[Setting]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note which cases a test has, before any is deselected."""
        for item in items:
            self._left.setdefault(test_of(item), set()).add(item.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Open the note before any fixture."""
        if test_of(item) in named_tests():
            self._note = SettingsNote()
            self._note.open()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Close the note after every fixture, and fail after the last case if none has varied the setting."""
        if self._note is None:
            return
        varied, self._note, test = self._note.close(), None, test_of(item)
        self._varied.setdefault(test, set()).update(varied)
        self._left[test].discard(item.nodeid)
        if not self._left[test] and not IGNORED and not _is_one_case(item):
            check_varied(test, self._varied[test])


def check_varied(test: str, varied: set[Setting]) -> None:
    """Fail a test that is named for settings which it leaves as they are."""
    missing = named_tests()[test] - varied
    assert not missing, (
        f"{test} is named for {sorted(missing)} in {PAGE.name}, and nothing in it has another value there than the "
        "default: it would pass if the setting were ignored"
    )


def test_of(item: pytest.Item) -> str:
    """The name that the page has for a test: without the case, and without a class around it."""
    path, _, rest = item.nodeid.partition("::")
    return f"{path}::{rest.rpartition('::')[2].partition('[')[0]}"


def _is_one_case(item: pytest.Item) -> bool:
    """Whether one case of a test was selected: another may be the one that varies the setting."""
    return any("[" in argument for argument in item.config.invocation_params.args)
