"""Connections leave descriptors for the store, and the process takes as many as it is allowed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from rocketpy.remoting.limits import descriptors
from rocketpy.remoting.limits.descriptors import CONNECTIONS_MIN, DESCRIPTORS_RESERVED, allowed_connections
from tests.patience import PATIENCE_SECONDS


def test_the_limit_is_raised_as_far_as_it_goes() -> None:
    code = (
        "import json, resource; from rocketpy.remoting.limits.descriptors import raise_descriptor_limit;"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1];"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard)); raise_descriptor_limit();"
        "print(json.dumps([hard, resource.getrlimit(resource.RLIMIT_NOFILE)[0]]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=PATIENCE_SECONDS)
    hard, soft = json.loads(done.stdout)
    assert soft == hard


def test_files_come_first_and_connections_get_the_rest(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(descriptors, "descriptor_limit", lambda: 4096)
    left = 4096 - 1000 - DESCRIPTORS_RESERVED
    assert allowed_connections(10_000, needed_by_files=1000) == left
    (warning,) = caplog.messages
    assert warning == (
        f"connectionsMax is 10000, but only {left} connections are taken: this process may open 4096 files "
        "(ulimit -n), and keeps the others for its own"
    )
    assert allowed_connections(left, needed_by_files=1000) == left
    assert allowed_connections(left + 1, needed_by_files=1000) == left
    assert allowed_connections(10_000, needed_by_files=5000) == CONNECTIONS_MIN
    monkeypatch.setattr(descriptors, "descriptor_limit", lambda: None)
    caplog.clear()
    assert allowed_connections(10_000, needed_by_files=5000) == 10_000
    assert not caplog.messages


def test_a_process_that_may_have_few_keeps_few_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "descriptor_limit", lambda: 256)
    assert allowed_connections(10_000, needed_by_files=128) == 96
