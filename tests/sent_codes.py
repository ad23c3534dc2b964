"""Holds the files of tests that ``docs/compatibility.md`` names for request codes to asking for them.

While the tests of a named file run, every request that reaches a dispatcher of this process is looked at. The file
fails with its last test when one of its codes was never asked for: to speak of a code proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, wraps

import pytest

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.frame import decode_command
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from tests.settings_table import PAGE

_ROW = re.compile(r"^\| (\d+) \| \w+ \| served \| (tests/(?!interop)\S+) \|", re.MULTILINE)

Dispatch = Callable[[Dispatcher, Connection, int, bytes, bytes | None], None]


@cache
def named_files() -> dict[str, frozenset[int]]:
    """The codes that each file is named for; not of files in which other people's clients choose them."""
    found: dict[str, set[int]] = {}
    for code, path in _ROW.findall(PAGE.read_text()):
        found.setdefault(path, set()).add(int(code))
    return {path: frozenset(codes) for path, codes in found.items()}


class CodesNote:
    """Every request code that reaches a dispatcher while the note is open."""

    def __init__(self) -> None:
        self.codes: set[int] = set()
        self._dispatch: Dispatch = Dispatcher.dispatch

    def open(self) -> None:
        """Begin to look at requests."""
        dispatch = self._dispatch

        @wraps(dispatch)
        def noted(
            dispatcher: Dispatcher, connection: Connection, serialize_type: int, header: bytes, body: bytes | None
        ) -> None:
            try:
                self.codes.add(decode_command(serialize_type, header, body).code)
            except RemoteProtocolError:
                pass  # garbage, which has no code
            dispatch(dispatcher, connection, serialize_type, header, body)

        Dispatcher.dispatch = noted  # type: ignore[method-assign]

    def close(self) -> set[int]:
        """End, and return the codes."""
        Dispatcher.dispatch = self._dispatch  # type: ignore[method-assign]
        return self.codes


class NamedFiles:
    """The plugin: opens a note for each test of a named file, and judges the file with its last test."""

    def __init__(self) -> None:
        self._note: CodesNote | None = None
        self._left: dict[str, set[str]] = {}  # tests that have not run yet, by file
        self._asked: dict[str, set[int]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note which tests a file has, before any is deselected."""
        for item in items:
            self._left.setdefault(_file_of(item), set()).add(item.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Open the note before any fixture."""
        if _file_of(item) in named_files():
            self._note = CodesNote()
            self._note.open()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Close the note after every fixture, and fail after the last test if a code was never asked for."""
        if self._note is None:
            return
        codes, self._note, path = self._note.close(), None, _file_of(item)
        self._asked.setdefault(path, set()).update(codes)
        self._left[path].discard(item.nodeid)
        if not self._left[path] and not any("::" in argument for argument in item.config.invocation_params.args):
            check_asked(path, self._asked[path])


def check_asked(path: str, asked: set[int]) -> None:
    """Fail a file that is named for codes which none of its tests asks for."""
    missing = named_files()[path] - asked
    assert not missing, f"{path} is named for request codes {sorted(missing)} in {PAGE.name}, and never asks for them"


def _file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
