"""``rocketpy doctor --json`` run as a process."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.blackbox.processes import REPOSITORY, python_command
from tests.patience import PATIENCE_SECONDS


def examine(namesrv: str) -> tuple[int, list[dict[str, Any]]]:
    """Return its exit status and its findings; the object says the same about problems as the status."""
    command = python_command("rocketpy.cli", "doctor", "-n", namesrv, "--json", "--watch", "0")
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.stderr == "", done.stderr
    fields = json.loads(done.stdout)
    problems = [each for each in fields["findings"] if each["severity"] == "problem"]
    assert len(problems) == fields["problems"]
    assert done.returncode == bool(problems), done
    return done.returncode, fields["findings"]


def problems_of(namesrv: str) -> dict[str, str]:
    """Return the subject of each problem by its check, but for those about this machine's disk, which is no fake."""
    _, findings = examine(namesrv)
    return {
        each["check"]: each["subject"]
        for each in findings
        if each["severity"] == "problem" and each["check"] != "disk-full"
    }
