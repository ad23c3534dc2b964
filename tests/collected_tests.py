"""What pytest collects of some files: ``python -m tests.collected_tests FILE ...`` prints it as JSON, nothing runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).resolve().parents[1]
_MARK = "collected tests: "


@attrs.frozen
class CollectedTest:
    """One function in one file, with what holds for any of its cases."""

    marks: frozenset[str]
    fixtures: frozenset[str]
    """All that the cases use, directly or not; but those that a fixture looks up while it runs."""
    parameters: frozenset[str]
    """The ids of the cases."""


def collect(files: Iterable[str]) -> Mapping[str, CollectedTest]:
    """Return the tests of files below the root by ``FILE::FUNCTION``."""
    command = [sys.executable, "-m", "tests.collected_tests", *sorted(files)]
    environment = {**os.environ, "ROCKETPY_INTEROP_TARGET": "rocketpy"}  # with another one there are fewer cases
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120)
    lines = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = lines
    return {
        name: CollectedTest(*(frozenset(each[field]) for field in ("marks", "fixtures", "parameters")))
        for name, each in json.loads(line.removeprefix(_MARK)).items()
    }


class _Collector:
    """The plugin: notes each case under its function."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, list[str]]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            assert isinstance(item, pytest.Function)
            note = self.found.setdefault(item.nodeid.partition("[")[0], {"marks": [], "fixtures": [], "parameters": []})
            note["marks"] += [mark.name for mark in item.iter_markers()]
            note["fixtures"] += item.fixturenames
            callspec = getattr(item, "callspec", None)
            note["parameters"] += [callspec.id] if callspec else []


def main() -> int:
    """Collect the files that the command line names."""
    collector = _Collector()
    options = ["--collect-only", "-q", "--no-header", "-p", "no:cacheprovider"]
    status = pytest.main([*options, *sys.argv[1:]], plugins=[collector])
    print(
        _MARK
        + json.dumps(
            {name: {field: sorted(set(each)) for field, each in note.items()} for name, note in collector.found.items()}
        )
    )
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
