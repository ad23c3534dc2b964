"""A Spark cluster on loopback: a standalone master and worker processes, an interpreter without any of our code.

The cluster is pip's PySpark, whose master and workers are started by ``spark-class``. Each worker has one core, and
with it at most one executor. Each process is in the session of one that is started here, and is ended with it.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import attrs
import pyspark

import hatch_build
from tests.blackbox.ports import free_ports
from tests.blackbox.processes import REPOSITORY
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.spark.conftest import SMALL
from tests.spark_runtime import SHORT_RUN

SPARK_HOME = Path(pyspark.__file__).parent
OF_SPARK = ("pyarrow", "numpy", "numpy.libs", "pandas", "dateutil", "pytz", "tzdata")
"""What PySpark needs to run a data source, and a cluster has that runs any Python with Arrow."""
LIBRARIES = (
    "attrs",
    "cattrs",
    "typing_extensions",
    "msgspec",
    "trio",
    "outcome",
    "sniffio",
    "sortedcontainers",
    "idna",
)
"""The distributions that executors import with us."""
WORKERS = 2
WORKER_MEMORY = "1g"
EXECUTOR_MEMORY = "512m"
DAEMON_MEMORY = "192m"
EXECUTOR_CLASS = b"CoarseGrainedExecutorBackend"


@attrs.frozen(eq=False)
class SparkCluster:
    """A master and its workers, while the block of :func:`running_cluster` lasts."""

    master: str
    directory: Path
    workers: tuple[subprocess.Popen[bytes], ...]

    def work_directory(self, worker: int) -> Path:
        """Return the directory below which a worker's executors have theirs."""
        return work_directory(self.directory, worker)

    def executor(self, worker: int) -> int:
        """Return the process id of a worker's executor; KeyError if it has none at the moment."""
        pid = self.workers[worker].pid
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, _read_if_there(task / "children").split()):
                # A worker also has what is left of the shell that has started it, which no signal ends.
                if EXECUTOR_CLASS in _read_if_there(Path(f"/proc/{child}/cmdline")):
                    return child
        raise KeyError(f"worker {worker} has no executor")


@contextmanager
def running_cluster(directory: Path) -> Iterator[SparkCluster]:
    """Start a cluster whose files are in ``directory``; nothing of it runs any more after the block."""
    make_home(directory / "home")
    port = free_ports(1)
    master = f"spark://127.0.0.1:{port}"
    started: list[subprocess.Popen[bytes]] = []
    try:
        where = ("--host", "127.0.0.1", "--webui-port", "0")
        started.append(_start_daemon(directory, "master", "master.Master", *where, "--port", str(port)))
        _await_text(started[0], directory / "master.log", "New state: ALIVE")
        for number in range(WORKERS):
            place = ("--work-dir", str(work_directory(directory, number)))
            size = ("--cores", "1", "--memory", WORKER_MEMORY)
            name = f"worker-{number}"
            started.append(_start_daemon(directory, name, "worker.Worker", *where, *place, *size, master))
        yield SparkCluster(master, directory, tuple(started[1:]))
    finally:
        for process in reversed(started):
            end_session(process)


def submit(
    cluster: SparkCluster, python: Path, path: Sequence[Path], arguments: list[str], log_path: Path
) -> subprocess.Popen[bytes]:
    """Start ``spark-submit`` in client mode; ``path`` is where the driver's Python looks for modules.

    It must have our wheel, too: the process that plans a stream does not look into what was submitted (PySpark 4.3).
    """
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": EXECUTOR_MEMORY,
        "spark.driver.extraJavaOptions": SHORT_RUN,
        "spark.executor.memory": EXECUTOR_MEMORY,
        "spark.executor.extraJavaOptions": SHORT_RUN,
        "spark.ui.enabled": "false",
        # No job begins before both executors are there: the first one could have done it alone.
        "spark.cores.max": str(WORKERS),
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{PATIENCE_SECONDS:.0f}s",
        **SMALL,
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
    }
    options = [each for key, value in settings.items() for each in ("--conf", f"{key}={value}")]
    environment = {**_environment(cluster.directory), "PYSPARK_PYTHON": str(python)}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, path))
    command = [
        str(cluster.directory / "home" / "bin" / "spark-submit"),
        "--master",
        cluster.master,
        *options,
        *arguments,
    ]
    return _start(command, environment, cluster.directory, log_path)


def make_home(directory: Path) -> None:
    """Link what is installed of Spark, with its Python modules as a folder: each Python that Spark starts would compile
    them for more than a second if they were in an archive.
    """
    archives = SPARK_HOME / "python" / "lib"
    modules = directory / "python" / "lib" / "pyspark.zip"
    modules.mkdir(parents=True)
    (modules / "pyspark").symlink_to(SPARK_HOME)
    for each in (*SPARK_HOME.iterdir(), *archives.glob("py4j-*.zip")):
        if each != archives.parent:
            (modules.parent if each.parent == archives else directory).joinpath(each.name).symlink_to(each)


def make_python(directory: Path) -> Path:
    """Make an environment with what Spark needs of Python, by links; return its interpreter."""
    venv.create(directory, with_pip=False, symlinks=True)
    (packages,) = directory.glob("lib/python*/site-packages")
    for name in OF_SPARK:
        (packages / name).symlink_to(Path(sysconfig.get_path("platlib")) / name)
    return directory / "bin" / "python"


def make_libraries(directory: Path) -> Path:
    """Fill a directory as ``pip install --target`` does, compiled; return it as the archive that is submitted."""
    for name in LIBRARIES:
        for file in metadata.files(name) or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                target = directory / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(file.locate()), target)
    compileall.compile_dir(directory, quiet=1)
    return Path(shutil.make_archive(str(directory), "gztar", directory))


def make_wheel(directory: Path) -> Path:
    """Build our wheel; return it under a name that Spark takes for Python's code, which ``.whl`` is not.

    It is the plain one, as ``docs/spark.md`` says: Python loads no extension module from an archive. Bytecode it does:
    without any, each of fifty processes would compile the sources.
    """
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(directory), str(REPOSITORY)]
    environment = os.environ | {hatch_build.VARIABLE: "1"}
    subprocess.run(command, check=True, capture_output=True, timeout=2 * PATIENCE_SECONDS, env=environment)
    (wheel,) = directory.glob("*.whl")
    shutil.unpack_archive(wheel, directory / "unpacked", "zip")
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(directory / "unpacked", quiet=1, legacy=True, invalidation_mode=unchecked)
    return Path(shutil.make_archive(str(directory / "rocketpy"), "zip", directory / "unpacked"))


def work_directory(directory: Path, worker: int) -> Path:
    """Return the directory of a worker of a cluster that has its files in ``directory``."""
    return directory / f"work-{worker}"


def end_session(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a session, and whatever is left of the session, by their ids."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def are_gone() -> bool:
        left = members(process.pid)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return not left

    wait_until(are_gone, lambda: f"processes {members(process.pid)} do not end")


def members(session: int) -> list[int]:
    """Return the process ids of a session, without those that have ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, of_session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(of_session) == session and state != "Z":
                found.append(int(entry.name))
    return found


def _read_if_there(path: Path) -> bytes:
    """Return what a file of /proc says, nothing if its thread or process has just ended."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def _environment(directory: Path) -> dict[str, str]:
    """Return the environment of someone who has no checkout, no session of Spark's and no settings of it."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    return kept | {
        "SPARK_HOME": str(directory / "home"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(directory / "local"),
        "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
        "SPARK_DAEMON_JAVA_OPTS": SHORT_RUN,
    }


def _start_daemon(directory: Path, name: str, of_class: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [str(directory / "home" / "bin" / "spark-class"), f"org.apache.spark.deploy.{of_class}", *arguments]
    return _start(command, _environment(directory), directory, directory / f"{name}.log")


def _start(
    command: list[str], environment: Mapping[str, str], directory: Path, log_path: Path
) -> subprocess.Popen[bytes]:
    with log_path.open("wb") as log:
        return subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _await_text(process: subprocess.Popen[bytes], log_path: Path, text: str) -> None:
    def is_said() -> bool:
        assert process.poll() is None, log_path.read_text()
        return text in log_path.read_text()

    wait_until(is_said, log_path.read_text)
