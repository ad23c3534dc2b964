"""Runs each test that ``docs/compatibility.md`` names for a setting with the setting ignored: the test must fail.

``python -m tests.ignored_settings`` goes through all settings, ``... BrokerConfig.regionId`` through some. A setting
whose test passes is printed, and the exit status is 1. Settings that need a process of their own are skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys

from tests.settings_table import PAGE
from tests.varied_settings import named_tests

OTHER_PROCESSES = ("tests/blackbox/",)
"""Their tests give settings to processes, in which nothing can be ignored from here."""


def passes_without(setting: str, test: str) -> bool:
    """Whether a test passes while a setting keeps its default."""
    path, _, function = test.partition("::")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", path, "-k", function]
    environment = {**os.environ, "ROCKETPY_IGNORED_SETTING": setting.partition(".")[2]}
    run = subprocess.run(command, cwd=PAGE.parents[1], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), f"{setting}: {run.stdout[-2_000:]}{run.stderr[-2_000:]}"
    return run.returncode == 0


def main(wanted: list[str]) -> int:
    """Go through the settings; return the exit status."""
    missed = 0
    for test, settings in sorted(named_tests().items()):
        for name, key in sorted(settings):
            setting = f"{name}.{key}"
            if test.startswith(OTHER_PROCESSES) or (wanted and setting not in wanted):
                continue
            if passes_without(setting, test):
                missed += 1
                print(f"{setting}: {test} passes although the setting is ignored", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
