"""A run of a notebook from top to bottom, in a fresh kernel and in directories of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import attrs

from tests.spark_runtime import DRIVER_OPTIONS, INTERPRETED, SHORT_RUN

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
CELL_S = 300  # no measure: what hangs ends
KERNEL_S = 300

_STARTUP = """
from functools import partialmethod
from pyspark.sql.streaming import DataStreamWriter
from tests.notebooks import pictures
from tests.spark_runtime import started_query
pictures.watch({report!r})
DataStreamWriter.start = partialmethod(started_query, start=DataStreamWriter.start)
del DataStreamWriter, partialmethod, pictures, started_query
"""
_LOG = """
rootLogger = fatal, console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
"""
"""The end of a kernel may interrupt that of Java, which is nothing to complain about."""


@attrs.frozen
class Run:
    """What a run has given."""

    notebook: Any
    """With its outputs, as the kernel made them."""
    pictures: list[dict[str, Any]]
    """Of each picture its title and its defects (see :mod:`tests.notebooks.pictures`)."""
    left: list[str]
    """Files that the notebook has left beside itself, and in the directory for temporary files."""


def notebook_paths() -> list[Path]:
    """Return all notebooks of the repository."""
    return sorted(NOTEBOOKS.glob("*.ipynb"))


@contextmanager
def running_java(directory: Path) -> Iterator[dict[str, str]]:
    """Start a Java that the Sparks of several notebooks use, one after the other; yield the variables that name it.

    It finds its classes and compiles its code once. Each notebook has a context and a session of its own in it.
    """
    from pyspark.java_gateway import launch_gateway

    with mock.patch.dict(os.environ, _environment(directory)):
        gateway: Any = launch_gateway(popen_kwargs={"cwd": directory / "notebooks"})
    try:
        address = gateway.java_parameters
        yield {"PYSPARK_GATEWAY_PORT": str(address.port), "PYSPARK_GATEWAY_SECRET": address.auth_token}
    finally:
        gateway.shutdown()
        gateway.proc.communicate()


def run_notebook(path: Path, directory: Path, java: Mapping[str, str] | None = None) -> Run:
    """Run a notebook; nbclient's CellExecutionError has the traceback of a cell that fails.

    Its working directory is one of its own, from where the files of the repository have their usual relative paths.
    Its Spark starts a Java of its own unless ``java`` has the variables of :func:`running_java`.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    report = directory / "pictures.jsonl"
    here = directory / "notebooks"
    environment = {**_environment(directory), **(java or {})}
    startup = directory / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00-pictures.py").write_text(_STARTUP.format(report=str(report)))
    (directory / "tests").symlink_to(ROOT / "tests")
    client = NotebookClient(
        notebook,
        timeout=CELL_S,
        startup_timeout=KERNEL_S,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(here)}},
    )
    client.execute(env=environment)
    lines = report.read_text().splitlines() if report.exists() else []
    left = [str(each.relative_to(directory)) for folder in (here, directory / "tmp") for each in _left(folder)]
    return Run(notebook, [json.loads(line) for line in lines], left)


def _left(folder: Path) -> Iterator[Path]:
    """Yield what is in a folder, but for what Java and Spark keep there for themselves."""
    for path in sorted(folder.iterdir()):
        if not path.name.startswith(("hsperfdata_", "spark-", "blockmgr-", "artifacts", "liblz4-java", "libzstd-jni")):
            yield path


def _environment(directory: Path) -> dict[str, str]:
    for folder in ("notebooks", "spark", "tmp"):
        (directory / folder).mkdir()
    log = directory / "log4j2.properties"
    log.write_text(_LOG)
    # Java knows no TMPDIR.
    java = f"{SHORT_RUN} {INTERPRETED} -Djava.io.tmpdir={directory / 'spark'} -Dlog4j2.configurationFile={log}"
    own = {
        "IPYTHONDIR": "ipython",
        "MPLCONFIGDIR": "matplotlib",
        "SPARK_LOCAL_DIRS": "spark",
        "TMPDIR": "tmp",
    }
    return {
        **os.environ,
        **{name: str(directory / each) for name, each in own.items()},
        DRIVER_OPTIONS: java,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
