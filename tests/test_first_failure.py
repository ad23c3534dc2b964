"""A failure is printed when it happens: here before the run can end, because its last test waits for the reader."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs import CONSOLE

ROOT = Path(__file__).parents[1]


def test_a_failure_is_printed_while_the_run_goes_on(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "conftest.py").write_text(
        "from tests import first_failure\ndef pytest_configure(config): first_failure.register(config)\n"
    )
    (tmp_path / "test_it.py").write_text(
        f"def test_fails(): assert 1 == 2\ndef test_last():\n    with open({str(pipe)!r}) as file: file.read()\n"
    )
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    variables = os.environ | {"PYTHONPATH": str(ROOT), "ROCKETPY_STAGE": "some", CONSOLE: str(writer)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=variables, pass_fds=(writer,), cwd=tmp_path) as run:
        os.close(writer)
        with open(reader, "rb") as console:
            head = console.readline() + console.readline()
            pipe.write_text("go on")
            rest = console.read()
        printed, _ = run.communicate()
    assert head == b"\n!! some: test_it.py::test_fails failed\n"
    assert b"assert 1 == 2" in rest
    assert b"1 failed, 1 passed" in printed


def test_elsewhere_pytest_prints_as_ever(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests import first_failure

    monkeypatch.delenv(CONSOLE, raising=False)
    before = pytestconfig.pluginmanager.has_plugin(first_failure.NAME)
    first_failure.register(pytestconfig)
    assert pytestconfig.pluginmanager.has_plugin(first_failure.NAME) == before
