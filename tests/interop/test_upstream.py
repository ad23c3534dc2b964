"""RocketMQ's own integration tests against two brokers of ours (see ``upstream/``).

Everywhere its fast classes run once; what fails has one more try, alone: many of them give a client a few seconds and
then look, and on a busy machine it needs more. ``make upstream`` runs all classes, ``ROUNDS=3`` three times in a row,
each round with empty stores: QueryMsgByKeyIT counts what one fixed key has found in the last 500 s.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from tests.interop import tools
from tests.interop.cluster import Cluster, start_cluster

pytestmark = pytest.mark.java

UPSTREAM = Path(__file__).resolve().parent / "upstream"
ROUNDS = int(os.environ.get("ROCKETPY_UPSTREAM_ROUNDS", "0"))
"""How often all classes run; 0: the fast ones, once."""

FAST_ONLY = ROUNDS == 0
_LIMIT_S = 1800


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
    """Return the methods that pass on Java among those that are to run: 108 of 47 classes in all."""
    fast = {line.split("\t")[0] for line in (UPSTREAM / "fast.txt").read_text().splitlines() if line[:1] != "#"}
    rows = [line.split("\t") for line in (UPSTREAM / "expected.tsv").read_text().splitlines() if line[:1] != "#"]
    return {f"{row[0]}.{row[1]}" for row in rows if row[3] in ("pass", "flaky") and (row[0] in fast or not FAST_ONLY)}


@pytest.fixture
def upstream_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two masters as the suite wants them: SQL92 filters allowed, and TLS for clients that ask for it."""
    started = start_cluster("rocketpy", tmp_path_factory.mktemp("upstream"), 2, {"enablePropertyFilter": "true"})
    try:
        yield started
    finally:
        statuses = started.stop()
    assert not any(statuses), f"exit statuses {statuses}:\n{started.logs()}"


@pytest.mark.parametrize("number", range(1, max(ROUNDS, 1) + 1))
def test_upstream_tests_pass(
    upstream_cluster: Cluster, tmp_path: Path, record_property: Callable[[str, object], None], number: int
) -> None:
    if shutil.which("unzip") is None:
        pytest.skip("java: no unzip on PATH, which the runner lists a jar with")
    out = tmp_path / "results.tsv"
    command = [str(UPSTREAM / "run"), "--namesrv", upstream_cluster.namesrv, "--out", str(out)]
    command += ["--work", str(tmp_path / "work")]
    if FAST_ONLY:
        # All of these classes take below 15 s on an idle machine: what hangs shall not take all day.
        command += ["--fast", "--again", "--timeout", "300", "--wait", "90", "--jobs", "3"]
    printed, status = _run(command, {**os.environ, "ROCKETPY_PEER_CACHE": str(tools.cache_directory())})
    assert out.exists(), printed
    results = read_results(out)
    passed = {each.name for each in results if each.status == "PASS"}
    classes = {name.rpartition(".")[0] for name in passed}
    print(f"round {number}: {len(passed)} methods of {len(classes)} classes passed")
    record_property("passed", len(passed))
    assert [each for each in results if each.status == "FAIL"] == [], printed
    assert passed == expected_methods()
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
