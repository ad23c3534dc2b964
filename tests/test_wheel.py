"""The wheels as a user gets them: built, installed in an empty environment, used outside the checkout."""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
import zipfile
from pathlib import Path

import attrs
import pytest

import hatch_build
from rocketpy.compiled import COMPILED_LIST
from tests import wheels
from tests.wheels import Served, find_interpreters, install, make_environment, outside, run, serve, share_spark

pytestmark = pytest.mark.blackbox


@attrs.frozen
class Installed:
    """A wheel, and the interpreter of an environment that holds it and no checkout."""

    wheel: Path
    python: Path
    is_compiled: bool

    def outside(self) -> dict[str, str]:
        """The environment variables of someone who has no checkout, and wants the build that the wheel is."""
        python = str(self.python)
        spark = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
        return outside(self.python, ROCKETPY_PURE="0" if self.is_compiled else "", **spark)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The compiled wheel, beside what its Spark extra asks for."""
    why_not = hatch_build.why_not()
    if why_not:
        if "compiler" in os.environ.get("ROCKETPY_REQUIRE", ""):
            pytest.fail(f"ROCKETPY_REQUIRE names compiler: {why_not}")
        pytest.skip(why_not)
    python = make_environment(sys.executable, tmp_path_factory.mktemp("compiled"))
    wheel = wheels.build_wheel(python, tmp_path_factory.mktemp("dist"), pure=False)
    install(python, str(wheel))
    share_spark(python)
    return Installed(wheel, python, True)


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel of plain Python, beside what this environment has: it asks for the same as the compiled one."""
    python = make_environment(sys.executable, tmp_path_factory.mktemp("pure"))
    wheel = wheels.build_wheel(python, tmp_path_factory.mktemp("dist"), pure=True)
    install(python, "--no-deps", str(wheel))
    (site,) = (python.parents[1] / "lib").glob("python*/site-packages")
    (site / "beside.pth").write_text(sysconfig.get_paths()["purelib"])  # its own .pth files do not count
    return Installed(wheel, python, False)


@pytest.fixture(params=["compiled", "pure"])
def installed(request: pytest.FixtureRequest) -> Installed:
    """One wheel, then the other."""
    found: Installed = request.getfixturevalue(request.param)
    return found


def test_pip_installs_from_a_checkout_as_the_pages_say(tmp_path: Path) -> None:
    """``ROCKETPY_PURE=1 pip install DIR``, with the libraries of this environment."""
    python = make_environment(sys.executable, tmp_path / "environment")
    wheels.pip(python, "install", "--no-deps", str(wheels.ROOT), ROCKETPY_PURE="1")
    (site,) = (python.parents[1] / "lib").glob("python*/site-packages")
    (site / "beside.pth").write_text(sysconfig.get_paths()["purelib"])
    said = run([str(python.with_name("rocketpy")), "--version"], tmp_path, outside(python)).stdout
    assert said.endswith(", plain Python (no module is compiled)\n")


def test_the_wheel_holds_what_it_must(installed: Installed) -> None:
    wheel = installed.wheel
    content = zipfile.ZipFile(wheel)
    names = set(content.namelist())
    (entry_points,) = (content.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    assert "[pytest11]\nrocketmq = rocketpy.testing.pytest_plugin" in entry_points
    assert wheel.name.startswith("rocketpy_mq-")
    assert {"rocketpy/py.typed", "rocketpy/broker/__main__.py", "pyspark_rocketmq.py"} <= names
    assert not [name for name in names if name.startswith(("tests/", "bench/", "property_tests/"))]
    assert any(name.endswith("licenses/LICENSE") for name in names)
    (metadata,) = (content.read(name).decode() for name in names if name.endswith("/METADATA"))
    assert re.search(r"^Requires-Dist: pyspark>=4\.1; extra == 'spark'$", metadata, re.MULTILINE)


def test_a_compiled_wheel_is_for_one_python_and_a_plain_one_for_all(installed: Installed) -> None:
    names = zipfile.ZipFile(installed.wheel).namelist()
    extensions = [name for name in names if name.endswith(".so")]
    assert set(hatch_build.ALL) <= set(names), "the sources are there in both"
    if installed.is_compiled:
        version = f"cp{sys.version_info.major}{sys.version_info.minor}"
        assert f"-{version}-{version}-linux_" in installed.wheel.name
        assert len(extensions) > len(hatch_build.ALL)
        assert f"rocketpy/{COMPILED_LIST}" in names
    else:
        assert installed.wheel.name.endswith("-py3-none-any.whl")
        assert (extensions, f"rocketpy/{COMPILED_LIST}" in names) == ([], False)


def test_broker_and_console_script_run_outside_the_checkout(installed: Installed, tmp_path: Path) -> None:
    served = serve(installed.python, tmp_path, installed.outside())
    build = "plain Python (no module is compiled)"
    if installed.is_compiled:
        build = f"{len(hatch_build.ALL)} compiled modules"
    assert served == Served(build, f"rocketpy {version_of(installed.wheel)}, {build}")


def test_a_wheel_without_one_of_its_files_runs_its_sources_and_says_so(compiled: Installed, tmp_path: Path) -> None:
    """Cut, as by a full disk; then gone. Without the check the first would end in a signal, the second be a mixture."""
    site = next((compiled.python.parents[1] / "lib").glob("python*/site-packages"))
    (shared,) = site.glob("*__mypyc*.so")
    content, program = shared.read_bytes(), "from rocketpy import BUILD; import rocketpy.broker.app; print(BUILD)"
    variables = compiled.outside() | {"ROCKETPY_PURE": ""}
    try:
        shared.write_bytes(content[: len(content) // 2])
        cut = run([str(compiled.python), "-c", program], tmp_path, variables).stdout
        shared.unlink()
        gone = run([str(compiled.python), "-c", program], tmp_path, variables).stdout
        shared.write_bytes(bytes(len(content)))
        spoiled = run([str(compiled.python), "-c", program], tmp_path, variables).stdout
    finally:
        shared.write_bytes(content)
    assert cut == f"plain Python ({shared.name} has {len(content) // 2} bytes instead of {len(content)})\n"
    assert gone == f"plain Python ({shared.name} is missing)\n"
    assert spoiled.startswith("plain Python (the compiled modules cannot be loaded: ")


def test_interpreters_are_found_on_the_path_and_among_those_of_pyenv(tmp_path: Path) -> None:
    """A name that answers as another version is none: pyenv's shims are on the PATH whether their version is or not."""
    for path, version in (
        ("bin/python3.12", "cpython 3.11"),
        ("pyenv/versions/3.12.1/bin/python", "cpython 3.12"),
        ("bin/python3.13", "pypy 3.13"),
    ):
        command = tmp_path / path
        command.parent.mkdir(parents=True, exist_ok=True)
        command.write_text(f"#!/bin/sh\necho {version}\n")
        command.chmod(0o755)
    found = find_interpreters({"PATH": str(tmp_path / "bin"), "PYENV_ROOT": str(tmp_path / "pyenv")})
    found.pop(f"{sys.version_info.major}.{sys.version_info.minor}", None)  # this one needs not be looked for
    assert found in ({"3.12": str(tmp_path / "pyenv/versions/3.12.1/bin/python")}, {})


def test_those_that_are_missing_are_one_line_and_none_at_all_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[tuple[str, bool]] = []

    def make(command: str, version: str, dist: Path, *, pure: bool) -> bool:
        made.append((version, pure))
        return True

    monkeypatch.setattr(wheels, "_make", make)
    monkeypatch.setattr(wheels, "find_interpreters", lambda variables: {"3.12": "python3.12"})
    assert wheels.main(tmp_path / "dist", {}) == 0
    assert made == [("3.12", False), ("3.12", True)]
    assert (
        capsys.readouterr().out == "no wheel for CPython 3.11, 3.13: not on the PATH and not among pyenv's versions\n"
    )
    monkeypatch.setattr(wheels, "find_interpreters", lambda variables: {})
    assert wheels.main(tmp_path / "dist", {}) == 1


def version_of(wheel: Path) -> str:
    return wheel.name.split("-")[1]


def test_pytest_finds_the_fixtures_and_other_programs_do_not_load_pytest(compiled: Installed, tmp_path: Path) -> None:
    python, variables = str(compiled.python), compiled.outside()
    loaded = run([python, "-c", "import sys, rocketpy.client; print(*sys.modules)"], tmp_path, variables).stdout.split()
    assert [name for name in loaded if "pytest" in name] == []
    install(compiled.python, "pytest")
    (tmp_path / "test_it.py").write_text("def test_it(rocketmq): rocketmq.topic('T')\n")
    assert "1 passed" in run([python, "-m", "pytest", "-q"], tmp_path, variables).stdout
    (tmp_path / "conftest.py").write_text(TIMED_SETUP)
    for may_write in ("", "1"):
        attempts = [setup_s(python, tmp_path, variables | {"PYTHONDONTWRITEBYTECODE": may_write}) for _ in range(3)]
        assert min(attempts) < FIRST_FIXTURE_SECONDS, attempts
    assert f"at most {FIRST_FIXTURE_SECONDS} s" in (wheels.ROOT / "docs" / "fixture.md").read_text()


FIRST_FIXTURE_SECONDS = 1.2
TIMED_SETUP = """
import time
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup():
    begun = time.process_time()
    result = yield
    print("SETUP", time.process_time() - begun)
    return result
"""


def setup_s(python: str, folder: Path, variables: dict[str, str]) -> float:
    """Return the processor time of the first fixture of a run, where nothing of pytest's is cached."""
    for cached in Path(python).parents[1].rglob("*-pytest-*.pyc"):
        cached.unlink()
    printed = run([python, "-m", "pytest", "-q", "-s"], folder, variables).stdout
    return float(printed.partition("SETUP ")[2].split()[0])


@pytest.mark.spark
def test_spark_finds_the_source_by_its_name(compiled: Installed, tmp_path: Path) -> None:
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
    result = run([str(compiled.python), "-c", program], tmp_path, compiled.outside())
    assert "DATA_SOURCE_NOT_FOUND" not in result.stdout
    assert "path" in result.stdout
    assert "nameServer" in result.stdout
