"""Runs each test that ``docs/compatibility.md`` names for a setting with the setting ignored: the test must fail.

``python -m tests.ignored_settings`` goes through all settings, ``... BrokerConfig.regionId`` through some. A setting
whose test passes is printed, and the exit status is 1. Settings that need a process of their own are skipped.

A test that never gives the setting another value than its default passes as well when nothing reads the setting, and
so does one that does not see what the setting does: this finds both.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import wraps

import pytest

from rocketpy.settings import setting_rows
from tests import build_counts, costs
from tests.settings_table import CLASSES, PAGE, rows_of

OTHER_PROCESSES = ("tests/blackbox/",)
"""Their tests give settings to processes, in which nothing can be ignored from here."""
VARIABLE = "ROCKETPY_IGNORED_SETTING"
"""The key of the setting that is ignored, for the run of pytest that loads this module as a plugin."""


def named_tests() -> Iterator[tuple[str, str, str]]:
    """Yield class, key and test (``tests/x.py::test_y``) of every honoured setting."""
    page = PAGE.read_text()
    for name in CLASSES:
        for key, row in rows_of(page, name).items():
            if row.effect == "honoured":
                yield name, key, row.test


def passes_without(key: str, test: str) -> bool:
    """Whether a test passes while a setting keeps its default."""
    path, _, function = test.partition("::")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", __spec__.name]
    of_this_run = (build_counts.COUNTS, costs.COSTS)  # for which this is no run of the tests
    environment = {name: value for name, value in os.environ.items() if name not in of_this_run} | {VARIABLE: key}
    run = subprocess.run(
        [*command, path, "-k", function],
        cwd=PAGE.parents[1], env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode in (0, 1), f"{key}: {run.stdout[-2_000:]}{run.stderr[-2_000:]}"
    return run.returncode == 0


def pytest_configure(config: pytest.Config) -> None:
    """Let every settings object of this process keep the default of the ignored setting, whatever it is given."""
    for each in CLASSES.values():
        each.__init__ = _ignoring(each, os.environ[VARIABLE])  # type: ignore[misc]


def _ignoring(settings_class: type, key: str) -> object:
    init = settings_class.__init__  # type: ignore[misc]
    ignored = [row for row in setting_rows(settings_class) if row.key == key]

    @wraps(init)
    def made(settings: object, *arguments: object, **values: object) -> None:
        init(settings, *arguments, **values)
        for row in ignored:
            object.__setattr__(settings, row.name, row.default)

    return made


def main(wanted: list[str]) -> int:
    """Go through the settings; return the exit status."""
    missed = 0
    for name, key, test in named_tests():
        if test.startswith(OTHER_PROCESSES) or (wanted and f"{name}.{key}" not in wanted):
            continue
        if passes_without(key, test):
            missed += 1
            print(f"{name}.{key}: {test} passes although the setting is ignored", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
