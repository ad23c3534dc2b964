"""A pipe whose reader has gone is no failure, and an interrupt during the start has no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker.broker_processes import broker_environment

INTERRUPTED = """
import importlib.abc, os, runpy, signal, sys

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
sys.argv[1:] = {arguments!r}
runpy.run_module({program!r}, run_name="__main__")
"""
"""Runs a program that is interrupted while it imports a module."""


@pytest.mark.parametrize("program", ["rocketpy.broker", "rocketpy.nameserver"])
def test_a_reader_that_has_seen_enough_of_the_settings_is_no_failure(program: str) -> None:
    """The pipe has no reader at all, so the first write fails."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", program, "-p"]
    try:
        ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, env=broker_environment(), check=False)
    finally:
        os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("program", "module", "arguments", "status"),
    [
        ("rocketpy.broker", "trio", [], -signal.SIGINT),
        ("rocketpy.broker", "rocketpy.store.disk.os_disk", [], -signal.SIGINT),
        ("rocketpy.nameserver", "rocketpy.nameserver.app", [], -signal.SIGINT),
        ("rocketpy.cli", "typer", ["--version"], 130),
        ("rocketpy.cli", "rocketpy.cli.topic", ["--version"], 130),
        ("rocketpy.cli", "trio", ["topic", "list"], 130),
    ],
)
def test_an_interrupt_during_the_imports_leaves_no_traceback(
    tmp_path: Path, program: str, module: str, arguments: list[str], status: int
) -> None:
    code = INTERRUPTED.format(program=program, module=module, arguments=arguments)
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, env=broker_environment(), cwd=tmp_path, check=False)
    assert (ended.returncode, ended.stderr, ended.stdout) == (status, b"", b"")
