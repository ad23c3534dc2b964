"""``rocketpy doctor --json`` run as a process."""

from __future__ import annotations

import json
from typing import Any

import trio

from tests.cli.conftest import run


def examine(namesrv: str) -> tuple[int, list[dict[str, Any]]]:
    """Return its exit status and its findings; the object says the same about problems as the status."""
    ended = trio.run(run, "doctor", "-n", namesrv, "--json", "--watch", "0")
    assert ended.errors == ""
    fields = json.loads(ended.output)
    problems = [each for each in fields["findings"] if each["severity"] == "problem"]
    assert len(problems) == fields["problems"]
    assert ended.status == bool(problems), ended
    return ended.status, fields["findings"]


def problems_of(namesrv: str) -> dict[str, str]:
    """Return the subject of each problem by its check, but for those about this machine's disk, which is no fake."""
    _, findings = examine(namesrv)
    return {
        each["check"]: each["subject"]
        for each in findings
        if each["severity"] == "problem" and each["check"] != "disk-full"
    }
