"""What goes wrong in the first hour is one readable sentence, and README's table has it with its remedy.

The messages themselves are tests of the modules that print them; here are those that belong to none, and the table.
"""

from __future__ import annotations

import ast
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rocketpy.broker import __main__ as broker_main
from tests.page_text import ROOT

README = (ROOT / "README.md").read_text()
TABLE = README.split("\n## When something is wrong\n", 1)[1].split("\n## ", 1)[0]

ROWS = {
    "another process uses it": "tests/broker/test_main.py::test_a_port_in_use_is_one_sentence_that_names_the_option",
    "rocketpy: no nameserver answers": "tests/cli/test_topic.py::test_a_nameserver_that_is_none",
    "rocketpy: no topic named": "tests/cli/test_outcome.py::test_a_topic_without_a_route_is_explained",
    "JAVA_GATEWAY_EXITED": "tests/spark/test_session.py::test_no_java_at_all_names_the_version_wanted",
    "... needs Python 3.11 or newer": "tests/pages/test_first_hour.py::test_an_older_python_is_told_so",
    "`venv` or the Python version": "tests/pages/test_first_hour.py::test_make_says_what_it_needs",
    "cannot make directory": "tests/pages/test_first_hour.py::test_a_directory_that_cannot_be_written",
    "not compiled: no C compiler": "tests/test_hatch_build.py::test_without_a_compiler_nothing_is_asked_for",
    '"setup.py" not found': "tried by hand with pip 21.0",
}
"""What a row of the table says, and the test of that message."""


@pytest.mark.parametrize(("said", "by"), ROWS.items())
def test_each_message_of_the_first_hour_has_a_row_and_a_test(said: str, by: str) -> None:
    assert any(said in line.split("|")[1] for line in TABLE.splitlines() if line.startswith("|")), said
    path, _, name = by.partition("::")
    assert not name or re.search(rf"def {name}\w*\(", (ROOT / path).read_text()), by


def test_an_older_python_is_told_so_before_it_meets_a_syntax_that_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = ROOT / "rocketpy" / "__init__.py"
    ast.parse(path.read_text(), feature_version=(3, 4))
    monkeypatch.setattr(sys, "version_info", (3, 10, 13, "final", 0))
    with pytest.raises(ImportError, match=r"^rocketpy needs Python 3\.11 or newer, this is 3\."):
        runpy.run_path(str(path))


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_says_what_it_needs(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    command = ["make", "-s", f"PYTHON={python}", f"VENV={tmp_path}/venv", "broker"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith(
        "rocketpy needs make and Python 3.11 or newer with venv (on Debian: apt-get install "
    )


NO_DIRECTORY = "cannot make directory: No such file or directory"


@pytest.mark.parametrize(
    ("store", "sentence"),
    [
        (None, f"{NO_DIRECTORY} (./store); the current directory is /proc, --store DIR names another place"),
        ("/proc/none", f"{NO_DIRECTORY} (/proc/none)"),
    ],
)
def test_a_directory_that_cannot_be_written_is_one_sentence_that_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], store: str | None, sentence: str
) -> None:
    """In /proc not even the superuser makes one."""
    monkeypatch.setattr(broker_main, "configure_logging", lambda config: None)
    monkeypatch.setattr(sys, "setswitchinterval", lambda seconds: None)
    monkeypatch.chdir("/proc")
    options = [] if store is None else ["--store", store]
    assert broker_main.main(["-n", "127.0.0.1:1", "--port", "0", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == sentence
