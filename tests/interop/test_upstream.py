"""RocketMQ's own integration tests, those whose subject is within reach of the broker as it is (see ``upstream/``)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import attrs
import pytest

from tests.interop import tools
from tests.interop.cluster import Cluster

pytestmark = pytest.mark.java

UPSTREAM = Path(__file__).resolve().parent / "upstream"
GROUPS = {"smoke", "producer.oneway", "producer.async", "producer.order", "consumer.tag", "consumer.broadcast"}
FAST_ONLY = os.environ.get("ROCKETPY_TIER", "") not in ("ci", "deep")
_LIMIT_S = 900


@attrs.frozen
class Result:
    """What became of one test method, and what becomes of it on Java."""

    name: str
    status: str
    expected: str
    message: str


def read_results(path: Path) -> list[Result]:
    """Return the rows of a result file: class, method, group, status, seconds, expected, message."""
    rows = [line.split("\t") for line in path.read_text().splitlines() if not line.startswith("#")]
    return [Result(f"{row[0]}.{row[1]}", row[3], row[5], row[6]) for row in rows]


def expected_methods() -> set[str]:
    """Return the methods that pass on Java among those that are to run."""
    fast = {line.split("\t")[0] for line in (UPSTREAM / "fast.txt").read_text().splitlines() if line[:1] != "#"}
    rows = [line.split("\t") for line in (UPSTREAM / "expected.tsv").read_text().splitlines() if line[:1] != "#"]
    return {
        f"{row[0]}.{row[1]}"
        for row in rows
        if row[2] in GROUPS and row[3] in ("pass", "flaky") and (row[0] in fast or not FAST_ONLY)
    }


def test_upstream_tests_pass(two_brokers: Cluster, tmp_path: Path, record_property: pytest.RecordProperty) -> None:
    if shutil.which("unzip") is None:
        pytest.skip("java: no unzip on PATH, which the runner lists a jar with")
    out = tmp_path / "results.tsv"
    command = [
        str(UPSTREAM / "run"),
        "--namesrv",
        two_brokers.namesrv,
        "--group",
        f"^({'|'.join(sorted(GROUPS))})$",
        "--out",
        str(out),
    ]
    # Messages that do not come are not worth two minutes each; nothing in these groups waits longer when all is well.
    command += ["--work", str(tmp_path / "work"), "--timeout", "120", "--wait", "30"]
    environment = {**os.environ, "ROCKETPY_PEER_CACHE": str(tools.cache_directory())}
    printed, status = _run([*command, "--fast"] if FAST_ONLY else command, environment)
    assert out.exists(), printed
    results = read_results(out)
    record_property("passed", sum(each.status == "PASS" for each in results))
    assert [each for each in results if each.status == "FAIL"] == [], printed
    assert {each.name for each in results if each.status == "PASS"} == expected_methods()
    assert status == 0, printed


def _run(command: list[str], environment: dict[str, str]) -> tuple[str, int]:
    """Run it and return what it printed and its exit status; too long, and it is asked to end its children."""
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as popen:
        try:
            printed, _ = popen.communicate(timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            popen.terminate()
            printed, _ = popen.communicate(timeout=30)
    return printed.decode(errors="replace"), popen.returncode
