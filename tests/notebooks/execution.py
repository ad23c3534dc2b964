"""A run of a notebook from top to bottom, in a fresh kernel and in directories of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from tests.spark_runtime import DRIVER_OPTIONS, java_options

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
CELL_S = 300  # no measure: what hangs ends
KERNEL_S = 300

_STARTUP = """
from tests.notebooks import pictures
pictures.watch({report!r})
del pictures
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


def run_notebook(path: Path, directory: Path) -> Run:
    """Run a notebook; nbclient's CellExecutionError has the traceback of a cell that fails.

    Its working directory is one of its own, from where the files of the repository have their usual relative paths.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    report = directory / "pictures.jsonl"
    here = directory / "notebooks"
    environment = _environment(directory, report)
    here.mkdir()
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


def _environment(directory: Path, report: Path) -> dict[str, str]:
    startup = directory / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00-pictures.py").write_text(_STARTUP.format(report=str(report)))
    for folder in ("spark", "tmp"):
        (directory / folder).mkdir()
    log = directory / "log4j2.properties"
    log.write_text(_LOG)
    # Java knows no TMPDIR. No SPARK_CONF_DIR: with another class path Java ignores the file of shared classes.
    java = f"{java_options()} -Djava.io.tmpdir={directory / 'spark'} -Dlog4j2.configurationFile={log}"
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
