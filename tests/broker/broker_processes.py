"""``python -m rocketpy.broker`` as a process of a test."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.blackbox.processes import REPOSITORY, Process, python_command
from tests.patience import PATIENCE_SECONDS, wait_until


def broker_command(*arguments: str, namesrv_port: int | None = None) -> list[str]:
    """Return the command line of a broker; with a port, its own nameserver listens there."""
    moved = () if namesrv_port is None else ("--namesrv-port", str(namesrv_port))
    return python_command("rocketpy.broker", *moved, *arguments)


def broker_environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return our environment, without nameservers."""
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "NAMESRV_ADDR": "", **(variables or {})}


def start_broker(directory: Path, *arguments: str, namesrv_port: int | None = None) -> Process:
    """Start a broker that works in a directory, with its log there."""
    command = broker_command(*arguments, namesrv_port=namesrv_port)
    environment = {"PYTHONPATH": str(REPOSITORY), "NAMESRV_ADDR": ""}
    return Process.start(command, directory / "broker.log", cwd=directory, env=environment)


def run_broker(
    directory: Path, *arguments: str, namesrv_port: int | None = None, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a broker that ends by itself."""
    return subprocess.run(
        broker_command(*arguments, namesrv_port=namesrv_port),
        cwd=directory,
        env=broker_environment(variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def wait_log(process: Process, text: str = "boot success") -> None:
    """Wait until a process has logged a text."""
    wait_until(lambda: text in process.log() or not process.is_running(), process.log)
    assert text in process.log(), process.log()


def wait_ready_file(process: Process, path: Path) -> dict[str, Any]:
    """Wait until a process has written its ready file; return what is in it."""

    def is_written() -> bool:
        return path.exists() and path.read_text().startswith("{")

    wait_until(lambda: is_written() or not process.is_running(), process.log)
    assert process.is_running(), process.log()
    found: dict[str, Any] = json.loads(path.read_text())
    return found
