"""The foreign tools of the tests: finding them, building our programs with them, and a table of what is missing.

A pytest plugin. A test marked ``java``, ``go``, ``node`` or ``cpp`` is skipped when that tool is missing, with the
reason, and the run ends with a table: tool, version wanted, tests not run, how to install. The environment variable
ROCKETPY_REQUIRE (comma list of these names) turns the skip into a failure.

What the tools build and fetch goes to ROCKETPY_PEER_CACHE (``~/.cache/rocketpy-peer``), in folders named after the
digest of their sources, so that a second run does neither.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from tests import costs
from tests.spark_runtime import SHORT_RUN, SILENT

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
PEER = HERE / "peer"
PROGRAMS_JAR = "programs.jar"
CLASSES = "classes.jsa"
_BUILD_TIMEOUT_S = 600


class ToolMissing(Exception):
    """The tool, or something that it has to fetch, is not to be had here; the text says what."""


class BuildFailed(Exception):
    """The tool is there, but cannot build our program: a fault in ours, never a reason to skip."""


@attrs.frozen
class Tool:
    """A tool and how its part of the tests is built; ``prepare`` returns the folder or file that the tests use."""

    name: str
    wanted: str
    install: str
    prepare: Callable[[], Path]


def cache_directory() -> Path:
    """Return the folder for all that is fetched or built."""
    return Path(os.environ.get("ROCKETPY_PEER_CACHE") or Path.home() / ".cache" / "rocketpy-peer")


def java_jars() -> Path:
    """Return the folder with the Java peer's jars, fetched with Maven on first use; of two runs at once one waits."""
    environment = {**os.environ, "ROCKETPY_PEER_CACHE": str(cache_directory())}
    cache_directory().mkdir(parents=True, exist_ok=True)
    with costs.built("jars of the Java peer"), _exclusive(cache_directory() / "jars.lock"):
        fetched = _output([str(PEER / "jars")], "Maven could not fetch RocketMQ 4.9.7", env=environment)
    return Path(fetched.splitlines()[0])


def java_start(programs: Path, jars: Path) -> list[str]:
    """Return the start of a command for our Java programs, whose folder is the first argument: a short run of Java."""
    return ["java", *SHORT_RUN.split(), *SILENT.split(), "-cp", f"{programs / PROGRAMS_JAR}:{jars}/*"]


def prepared(name: str) -> Path:
    """Return what ``prepare`` of the tool gave, built once per run; raises ToolMissing or BuildFailed each time."""
    if name not in _prepared:
        try:
            _prepared[name] = TOOLS[name].prepare()
        except (ToolMissing, BuildFailed) as error:
            _prepared[name] = error
    found = _prepared[name]
    if isinstance(found, Exception):
        raise found
    return found


def is_available(name: str) -> bool:
    """Tell whether the tool is there and has built what the tests use."""
    return _error_of(name) is None


def required() -> set[str]:
    """Return the tools whose absence is a failure."""
    return {each.strip() for each in os.environ.get("ROCKETPY_REQUIRE", "").split(",") if each.strip()}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail a test whose tool is missing, before any of its fixtures starts."""
    for name in TOOLS:
        if item.get_closest_marker(name) is None:
            continue
        error = _error_of(name)
        if isinstance(error, BuildFailed):
            pytest.fail(str(error), pytrace=False)
        if isinstance(error, ToolMissing):
            if name in required():
                pytest.fail(f"ROCKETPY_REQUIRE names {name}: {error}", pytrace=False)
            _not_run.setdefault(name, []).append(item.nodeid)
            pytest.skip(f"{name}: {error}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table of missing tools, if any is missing."""
    if not _not_run:
        return
    terminalreporter.section("tools that are missing")
    rows = [("tool", "wanted", "tests not run", "how to install", "why")]
    rows += [
        (name, TOOLS[name].wanted, str(len(ids)), TOOLS[name].install, str(_prepared[name]))
        for name, ids in _not_run.items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        terminalreporter.line(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)) + "  " + row[4]
        )


def _error_of(name: str) -> ToolMissing | BuildFailed | None:
    try:
        prepared(name)
    except (ToolMissing, BuildFailed) as error:
        return error
    return None


def _prepare_java() -> Path:
    for program in ("java", "javac", "mvn"):
        _need(program)
    version = _output(["java", "-version"], "java does not run")
    found = re.search(r'version "(?:1\.)?(\d+)', version)
    if found is None or int(found[1]) < 11:
        raise ToolMissing(f"JDK 11 or later is needed, found {version.splitlines()[0] if version else 'none'}")
    jars = java_jars()
    sources = sorted((PROGRAMS / "java").glob("*.java"))

    def build(target: Path) -> None:
        classes = str(target / "classes")
        compiler = ["javac", "-nowarn", "-proc:none", "--release", "8", "-Xlint:-options", "-cp", f"{jars}/*"]
        _output([*compiler, "-d", classes, *map(str, sources)], "javac failed", BuildFailed)
        _output(["jar", "cf", str(target / PROGRAMS_JAR), "-C", classes, "."], "jar failed", BuildFailed)
        # A client that sends nothing: what it has loaded the others need not parse and verify again.
        dump = [*java_start(target, jars), f"-XX:ArchiveClassesAtExit={target / CLASSES}", f"-Duser.home={target}"]
        _output([*dump, "Produce", "namesrv=127.0.0.1:9", "group=none"], "java has written no classes", BuildFailed)

    return _built("java-jar", sources, build)


def _prepare_go() -> Path:
    _need("go")
    folder = PROGRAMS / "go"

    def build(target: Path) -> None:
        # No version stamp: the checkout may belong to another user, which git refuses. And no other toolchain.
        environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}
        # Fetches the modules that are needed, and only them.
        _output(["go", "list", "-deps", "."], "Go's modules could not be fetched", cwd=folder, env=environment)
        command = ["go", "build", "-o", str(target / "client"), "."]
        _output(command, "go build failed", BuildFailed, cwd=folder, env=environment)

    sources = [folder / name for name in ("go.mod", "go.sum", "main.go", "roles.go")]
    return _built("go", sources, build) / "client"


def _prepare_node() -> Path:
    _need("node")
    _need("npm")
    sources = [PROGRAMS / "node" / name for name in ("package.json", "package-lock.json")]

    def build(target: Path) -> None:
        for each in sources:
            shutil.copy(each, target)
        _output(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], "npm ci failed", cwd=target)

    return _built("node", sources, build) / "node_modules"


def _prepare_cpp() -> Path:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise ToolMissing(f"its library is for Linux on x86-64, this is {sys.platform} on {platform.machine()}")
    requirements = PROGRAMS / "cpp" / "requirements.txt"

    def build(target: Path) -> None:
        _output([sys.executable, "-m", "venv", str(target)], "python -m venv failed")
        pip = [
            str(target / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--require-hashes",
        ]
        _output([*pip, "-r", str(requirements)], "pip could not install PyPI's rocketmq")

    python = _built("cpp", [requirements], build) / "bin" / "python"
    _output([str(python), "-c", "import rocketmq.ffi"], "the C++ library cannot be loaded")
    return python


def _need(program: str) -> None:
    if shutil.which(program) is None:
        raise ToolMissing(f"no {program} on PATH")


def _output(
    command: Sequence[str],
    failed: str,
    error_type: type[ToolMissing | BuildFailed] = ToolMissing,
    *,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> str:
    """Run a step and return what it printed, stdout first; an ``error_type`` with the last lines when it fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=cwd,
            env=env,
            timeout=_BUILD_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolMissing(f"{failed}: {error}") from error
    printed = (done.stdout + done.stderr).decode(errors="replace")
    if done.returncode != 0:
        shown = 3 if error_type is ToolMissing else 30
        raise error_type(f"{failed}: {' / '.join(printed.strip().splitlines()[-shown:])}")
    return printed


def _built(name: str, sources: Sequence[Path], build: Callable[[Path], None]) -> Path:
    """Return the folder that ``build`` filled for this state of the sources; of two runs at once one waits."""
    digest = hashlib.sha256(b"\0".join(each.read_bytes() for each in sources)).hexdigest()[:16]
    target = cache_directory() / f"interop-{name}-{digest}"
    marker = target / ".complete"
    if marker.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    # Built where it stays, as a virtual environment knows its own path; the lock file keeps a second run waiting.
    with tempfile.TemporaryDirectory(dir=target.parent) as spare, _exclusive(target.with_suffix(".lock")):
        if not marker.exists():
            if target.exists():
                target.rename(Path(spare) / "left-half-way")
            target.mkdir()
            with costs.built(f"tool: {name}"):
                build(target)
            marker.touch()
    return target


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


TOOLS = {
    each.name: each
    for each in (
        Tool("java", "JDK 17, Maven 3.8", "apt-get install openjdk-17-jdk-headless maven unzip", _prepare_java),
        Tool("go", "Go 1.19", "apt-get install golang-go", _prepare_go),
        Tool("node", "Node.js 18, npm 9", "apt-get install nodejs npm", _prepare_node),
        Tool("cpp", "PyPI rocketmq 0.4.4", "Linux on x86-64 and a reachable PyPI; python3-venv", _prepare_cpp),
    )
}
_prepared: dict[str, Path | ToolMissing | BuildFailed] = {}
_not_run: dict[str, list[str]] = {}
