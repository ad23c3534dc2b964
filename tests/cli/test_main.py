"""The command as a whole: version, help, wrong use, how fast it answers."""

from __future__ import annotations

import subprocess

import pytest
from typer.testing import CliRunner

from rocketpy import BUILD, __version__
from rocketpy.cli.__main__ import app
from tests.cli.conftest import command, environment, run
from tests.loaded_modules import loaded_after


async def test_version_and_help() -> None:
    version = await run("--version")
    assert (version.status, version.output) == (0, f"rocketpy {__version__}, {BUILD}\n".encode())
    helped = await run("--help")
    assert helped.status == 0
    assert all(word in helped.output.decode() for word in ("produce", "consume", "topic", "Exit status"))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["consume"], "Missing option '-t'"),
        (["consume", "-t", "T", "-o", "middle"], "'middle', expected 'beginning', 'end', 'stored', a time in ms or -N"),
        (["consume", "-t", "T", "-f", "||"], "subString split error"),
        (["produce", "-t", "T", "-p", "novalue"], "'novalue', expected NAME=VALUE"),
        (["topic", "create", "T", "-q", "0"], "Invalid value for '-q'"),
        (["topic", "create"], "Missing argument"),
    ],
)
def test_wrong_use_is_status_2_before_any_request(arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_nothing_heavy_is_imported_before_a_command_runs() -> None:
    """Starting Trio and the client takes longer than everything else: ``--version`` needs neither."""
    assert loaded_after("import rocketpy.cli.__main__", "trio", "cattrs", "rich") == []


def test_a_build_that_is_none_is_one_sentence_and_status_2() -> None:
    variables = environment() | {"ROCKETPY_PURE": "banana"}
    for arguments in (["--version"], ["topic", "list"]):
        done = subprocess.run(command(*arguments), capture_output=True, env=variables, check=False)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr == (
            b"rocketpy: ROCKETPY_PURE: expected 1 (run the sources), 0 (compiled modules only) or nothing, "
            b"found 'banana'\n"
        )
