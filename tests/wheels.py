"""``make wheel``: builds the wheels, installs each where nothing else is, and sends a message through it.

One compiled wheel for each CPython from 3.11 to 3.13 that is found on the PATH or among pyenv's versions, and one of
plain Python for all others (``py3-none-any``). They are written to ``dist``. The exit status is 1 if a wheel is not
built or does not serve, or if there is no interpreter to build with.

The tag ``linux_x86_64`` says that a wheel was made on such a machine. It does not promise an older C library than this
machine's: where it cannot be loaded, rocketpy says so and runs its sources.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

import attrs

from tests.blackbox import processes
from tests.blackbox.ports import free_ports
from tests.blackbox.processes import Process

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13")
CONSTRAINTS = ("-c", str(ROOT / "constraints.txt"))
SPARK_PACKAGES = ("pyspark", "py4j", "pyarrow", "pandas", "numpy", "numpy.libs", "dateutil", "pytz", "tzdata", "six.py")
_IMPLEMENTATION = "import sys; print(sys.implementation.name, '{}.{}'.format(*sys.version_info))"


@attrs.frozen
class Served:
    """What an installed wheel has shown."""

    build: str
    """How its broker names its build when it starts."""
    version: str
    """The output of ``rocketpy --version``."""


def find_interpreters(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the command of each CPython that wheels are made for, by version, as far as it is found."""
    versions = Path(variables.get("PYENV_ROOT") or Path(variables.get("HOME", "/")) / ".pyenv", "versions")
    found: dict[str, str] = {}
    for version in VERSIONS:
        on_path = shutil.which(f"python{version}", path=variables.get("PATH", ""))
        of_pyenv = [str(path / "bin" / "python") for path in sorted(versions.glob(f"{version}.*"))]
        for command in (sys.executable, *([on_path] if on_path else []), *of_pyenv):
            # A shim of pyenv answers only if that version is chosen here.
            done = subprocess.run([command, "-c", _IMPLEMENTATION], capture_output=True, text=True, check=False)
            if done.stdout.split() == ["cpython", version]:
                found[version] = command
                break
    return found


def make_environment(python: str, folder: Path) -> Path:
    """Make a virtual environment with nothing in it; return its interpreter."""
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin" / "python"


def pip(python: Path, *arguments: str, **more: str) -> None:
    """Run the pip of this environment for the interpreter of another one."""
    command = [sys.executable, "-m", "pip", "--python", str(python), "-q", "--disable-pip-version-check", *arguments]
    subprocess.run(command, env=os.environ | more, check=True)


def build_wheel(python: Path, folder: Path, *, pure: bool) -> Path:
    """Build a wheel of this checkout for an interpreter; fails where it cannot be compiled as asked."""
    before = set(folder.glob("*.whl"))
    pip(python, "wheel", "--no-deps", "-w", str(folder), str(ROOT), ROCKETPY_PURE="1" if pure else "0")
    (built,) = set(folder.glob("*.whl")) - before
    return built


def install(python: Path, *what: str) -> None:
    """Install into an environment what is named, at the versions that CI has."""
    pip(python, "install", "--no-compile", *CONSTRAINTS, *what)


def share_spark(python: Path) -> None:
    """Link PySpark and what it needs from this environment into one of the same Python: a gigabyte less to unpack."""
    packages = Path(sysconfig.get_paths()["purelib"])
    (target,) = (python.parents[1] / "lib").glob("python*/site-packages")
    for path in (each for name in SPARK_PACKAGES for each in packages.glob(name)):
        (target / path.name).symlink_to(path)


def outside(python: Path, **more: str) -> dict[str, str]:
    """The environment variables of someone who has no checkout."""
    dropped = ("PYTHON", "VIRTUAL_ENV", "ROCKETPY_PURE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return kept | {"PATH": f"{python.parent}:{os.environ['PATH']}"} | more


def serve(python: Path, folder: Path, variables: Mapping[str, str]) -> Served:
    """Run a nameserver and a broker of an environment, send through them with its console script, and read it again."""
    name_server = free_ports(5)
    broker = name_server + 3
    (folder / "namesrv.conf").write_text(f"listenPort={name_server}\nbindAddress=127.0.0.1\n")
    (folder / "broker.conf").write_text(
        f"listenPort={broker}\nbindAddress=127.0.0.1\nbrokerIP1=127.0.0.1\nnamesrvAddr=127.0.0.1:{name_server}\n"
        f"storePathRootDir={folder / 'store'}\nmappedFileSizeCommitLog=1048576\n"
        "maxHashSlotNum=1000\nmaxIndexNum=2000\n"
    )
    children: list[Process] = []
    try:
        for server, conf in (("nameserver", "namesrv.conf"), ("broker", "broker.conf")):
            command = [str(python), "-m", f"rocketpy.{server}", "-c", str(folder / conf)]
            children.append(_started(command, folder, server, variables))
        processes.await_any_broker(f"127.0.0.1:{name_server}", children)
        script, address = [str(python.parent / "rocketpy")], ["-n", f"127.0.0.1:{name_server}"]
        sent = run([*script, "produce", "-t", "Wheel", *address], folder, variables, "one\ntwo\nthree\n")
        assert "sent 3 messages to Wheel" in sent.stderr
        read = run([*script, "consume", "-t", "Wheel", "-o", "beginning", "-e", *address], folder, variables)
        assert sorted(read.stdout.split()) == ["one", "three", "two"]
        version = run([*script, "--version"], folder, variables).stdout.strip()
    finally:
        codes = [child.terminate() for child in reversed(children)]
    assert codes == [0] * len(codes)
    builds = [line.split(maxsplit=1)[1] for line in children[1].log().splitlines() if line.startswith("  build ")]
    return Served(*builds, version)


def run(
    command: list[str], cwd: Path, variables: Mapping[str, str], given: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command that must succeed."""
    result = subprocess.run(
        command, cwd=cwd, env=variables, input=given, capture_output=True, text=True, timeout=600, check=False
    )
    assert result.returncode == 0, result.stderr
    return result


def _started(command: list[str], folder: Path, name: str, variables: Mapping[str, str]) -> Process:
    """Start a server with these environment variables and no others."""
    log_path = folder / f"{name}.log"
    with log_path.open("wb") as log:
        popen = subprocess.Popen(command, cwd=folder, env=variables, stdout=log, stderr=subprocess.STDOUT)
    return Process(popen, log_path)


def main(dist: Path = ROOT / "dist", variables: Mapping[str, str] = os.environ) -> int:
    """Build, install and try every wheel; print a line for each."""
    interpreters = find_interpreters(variables)
    missing = [version for version in VERSIONS if version not in interpreters]
    if missing:
        print(f"no wheel for CPython {', '.join(missing)}: not on the PATH and not among pyenv's versions")
    if not interpreters:
        print("no wheel at all: expected one of these interpreters", file=sys.stderr)
        return 1
    dist.mkdir(exist_ok=True)
    for old in dist.glob("rocketpy_mq-*.whl"):
        old.unlink()
    wanted = [*((version, False) for version in interpreters), (next(iter(interpreters)), True)]
    failed = [version for version, pure in wanted if not _make(interpreters[version], version, dist, pure=pure)]
    return 1 if failed else 0


def _make(command: str, version: str, dist: Path, *, pure: bool) -> bool:
    with tempfile.TemporaryDirectory(prefix="rocketpy-wheel-") as name:
        folder = Path(name)
        try:
            python = make_environment(command, folder / "environment")
            wheel = build_wheel(python, dist, pure=pure)
            install(python, str(wheel))
            served = serve(python, folder, outside(python, ROCKETPY_PURE="" if pure else "0"))
        except (subprocess.CalledProcessError, AssertionError) as failure:
            kind = "plain" if pure else "compiled"
            print(f"CPython {version}, {kind}: FAILED: {failure}", file=sys.stderr, flush=True)
            return False
    size = wheel.stat().st_size / 1e6
    print(f"{wheel.name} ({size:.1f} MB): CPython {version} sent and read with {served.build}", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
