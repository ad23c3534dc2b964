"""The wheel as a user gets it: built, installed in an empty environment, used outside the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.blackbox import processes
from tests.blackbox.processes import Process

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.blackbox


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds the wheel with its Spark extra, and no checkout."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile"]
    subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), f"{wheel}[spark]"], check=True)
    return folder


def outside(environment: Path) -> dict[str, str]:
    """The environment variables of someone who has no checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    python = str(environment / "bin" / "python")
    return kept | {
        "PATH": f"{environment / 'bin'}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def test_the_wheel_holds_what_it_must(wheel: Path) -> None:
    content = zipfile.ZipFile(wheel)
    names = set(content.namelist())
    (entry_points,) = (content.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    assert "[pytest11]\nrocketmq = rocketpy.testing.pytest_plugin" in entry_points
    assert wheel.name.startswith("rocketpy_mq-")
    assert {"rocketpy/py.typed", "rocketpy/broker/__main__.py", "pyspark_rocketmq.py"} <= names
    assert not [name for name in names if name.startswith(("tests/", "bench/", "property_tests/"))]
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_broker_and_console_script_run_outside_the_checkout(environment: Path, tmp_path: Path) -> None:
    name_server = processes.free_ports(5)
    broker = name_server + 3
    command = [
        str(environment / "bin" / "python"),
        "-m",
        "rocketpy.nameserver",
        "-c",
        str(write(tmp_path / "namesrv.conf", f"listenPort={name_server}\nbindAddress=127.0.0.1\n")),
    ]
    conf = write(
        tmp_path / "broker.conf",
        f"listenPort={broker}\nbindAddress=127.0.0.1\nbrokerIP1=127.0.0.1\nnamesrvAddr=127.0.0.1:{name_server}\n"
        f"storePathRootDir={tmp_path / 'store'}\nmappedFileSizeCommitLog=1048576\n"
        "maxHashSlotNum=1000\nmaxIndexNum=2000\n",
    )
    variables = outside(environment)
    children = [started(command, tmp_path, "namesrv", variables)]
    try:
        command = [*command[:2], "rocketpy.broker", "-c", str(conf)]
        children.append(started(command, tmp_path, "broker", variables))
        processes.await_any_broker(f"127.0.0.1:{name_server}", children)
        script = [str(environment / "bin" / "rocketpy")]
        address = ["-n", f"127.0.0.1:{name_server}"]
        sent = run([*script, "produce", "-t", "Wheel", *address], tmp_path, variables, "one\ntwo\nthree\n")
        assert "sent 3 messages to Wheel" in sent.stderr
        read = run([*script, "consume", "-t", "Wheel", "-o", "beginning", "-e", *address], tmp_path, variables)
        assert sorted(read.stdout.split()) == ["one", "three", "two"]
        assert "rocketpy 0." in run([*script, "--version"], tmp_path, variables).stdout
    finally:
        codes = [child.terminate() for child in reversed(children)]
    assert codes == [0] * len(codes)


def test_pytest_finds_the_fixtures_and_other_programs_do_not_load_pytest(environment: Path, tmp_path: Path) -> None:
    python, variables = str(environment / "bin" / "python"), outside(environment)
    loaded = run([python, "-c", "import sys, rocketpy.client; print(*sys.modules)"], tmp_path, variables).stdout.split()
    assert [name for name in loaded if "pytest" in name] == []
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt")]
    run([*pip, "pytest"], tmp_path, variables)
    write(tmp_path / "test_it.py", "def test_it(rocketmq): rocketmq.topic('T')\n")
    assert "1 passed" in run([python, "-m", "pytest", "-q"], tmp_path, variables).stdout


@pytest.mark.spark
def test_spark_finds_the_source_by_its_name(environment: Path, tmp_path: Path) -> None:
    if shutil.which("java") is None:
        if "java" in os.environ.get("ROCKETPY_REQUIRE", ""):
            pytest.fail("java is required and missing")
        pytest.skip("needs a Java runtime, 17 or newer")
    program = (
        "from pyspark.sql import SparkSession\n"
        "s = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false').getOrCreate()\n"
        "try:\n    s.read.format('rocketmq').load()\n"
        "except Exception as failure:\n    print('SAID', str(failure).replace(chr(10), ' '))\n"
    )
    result = run([str(environment / "bin" / "python"), "-c", program], tmp_path, outside(environment))
    assert "DATA_SOURCE_NOT_FOUND" not in result.stdout
    assert "path" in result.stdout
    assert "nameServer" in result.stdout


def started(command: list[str], folder: Path, name: str, variables: dict[str, str]) -> Process:
    """Start a server with these environment variables and no others."""
    log_path = folder / f"{name}.log"
    with log_path.open("wb") as log:
        popen = subprocess.Popen(command, cwd=folder, env=variables, stdout=log, stderr=subprocess.STDOUT)
    return Process(popen, log_path)


def run(command: list[str], cwd: Path, variables: dict[str, str], given: str = "") -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        command, cwd=cwd, env=variables, input=given, capture_output=True, text=True, timeout=600, check=False
    )
    assert result.returncode == 0, result.stderr
    return result


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path
