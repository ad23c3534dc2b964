"""The code on the pages about the fixture and containers runs, and their tables are complete."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rocketpy.broker.shutdown_signals import SHUTDOWN_SECONDS
from rocketpy.testing.fixture.in_process import BrokerInProcess
from rocketpy.testing.fixture.in_thread import BrokerInThread
from tests.page_text import blocks
from tests.patience import PATIENCE_SECONDS

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
CONTAINERS, FIXTURE = ((ROOT / "docs" / f"{name}.md").read_text() for name in ("containers", "fixture"))


def test_the_tests_of_the_fixture_page_pass(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, marked, started, alone = blocks(FIXTURE, "python")
    pytester.makepyfile(test_page=first + second + marked)
    (ini,) = blocks(FIXTURE, "ini")
    pytester.makefile(".ini", pytest=ini.replace("messageDelayLevel=1s 5s 1m\n", "brokerName=b\n"))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = pytester.runpytest_inprocess("-p", "rocketpy.testing.pytest_plugin", "--strict-markers")
    result.assert_outcomes(passed=3)
    assert re.fullmatch(r"127\.0\.0\.1:\d+ orders\n", python(started))
    assert python(alone).startswith("127.0.0.1:")


def test_the_fixture_page_has_each_verb_and_says_where_it_applies() -> None:
    rows = {line.split("|")[1]: line.split("|")[3:5] for line in FIXTURE.splitlines() if line.startswith("| `")}
    in_thread = {verb: row for verbs, row in rows.items() for verb in re.findall(r"`(\w+)", verbs)}
    public = {name for name in vars(BrokerInThread) if not name.startswith("_")} - {"close", "directory"} | {"address"}
    assert public <= set(in_thread)
    for verb in public - {"name_server", "address", "store"}:
        refuses = "NoReturn" in str(inspect.signature(getattr(BrokerInProcess, verb)).return_annotation)
        assert (in_thread[verb][1].strip() == "no") == refuses, verb


def test_the_commands_of_the_container_page_run(tmp_path: Path) -> None:
    (script,) = blocks(CONTAINERS, "bash")
    script = script.replace("-n 127.0.0.1:9876", "-n 127.0.0.1:1").replace("python ", f"{sys.executable} ")
    (tmp_path / "broker.ready").write_text('{"brokerAddr": "left by a kill"}')
    result = subprocess.run(
        ["bash", "-mec", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert re.search(r"^127\.0\.0\.1:\d+$", result.stdout, re.MULTILINE), result.stdout
    assert not (tmp_path / "broker.ready").exists()


def test_the_image_starts_what_there_is_and_its_health_check_tells_a_broker_that_serves(tmp_path: Path) -> None:
    """All of the recipe that needs no container."""
    (image,) = blocks(CONTAINERS, "dockerfile")
    (conf,) = blocks(CONTAINERS, "properties")
    command = [*entry(image, "ENTRYPOINT"), *entry(image, "CMD")]
    assert command[:4] == ["python", "-m", "rocketpy.broker", "-c"]
    health = entry(image, "HEALTHCHECK .* CMD")
    ready = tmp_path / "ready"
    path = tmp_path / "broker.conf"
    conf = conf.replace("/var/lib/rocketmq", str(tmp_path)).replace("=broker-a\nlisten", "=127.0.0.1\nlisten")
    path.write_text(conf.replace("10911", "0").replace("nameserver:9876", "127.0.0.1:1") + "bindAddress=127.0.0.1\n")
    probe = [sys.executable, "-c", health[2].replace("/run/rocketmq/ready", str(ready))]
    assert subprocess.run(probe, capture_output=True, check=False).returncode != 0
    here = {"/etc/rocketmq/broker.conf": str(path), "/run/rocketmq/ready": str(ready)}
    arguments = [here.get(each, each) for each in command[1:]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, *arguments], env=environment, stderr=subprocess.DEVNULL)
    try:
        wait_for(ready, process)
        assert json.loads(ready.read_text())["brokerName"] == "broker-a"
        subprocess.run(probe, check=True)
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
        assert subprocess.run(probe, capture_output=True, check=False).returncode != 0
    finally:
        process.kill()
        process.wait()


def test_the_container_page_has_the_time_of_a_shutdown() -> None:
    assert f"`SHUTDOWN_SECONDS` ({SHUTDOWN_SECONDS:g} s)" in CONTAINERS


def entry(image: str, instruction: str) -> list[str]:
    found = re.search(rf"^{instruction} (\[.*\])$", image, re.MULTILINE)
    assert found is not None, instruction
    parsed: list[str] = json.loads(found.group(1))
    return parsed


def python(program: str) -> str:
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    ).stdout


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not path.exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
