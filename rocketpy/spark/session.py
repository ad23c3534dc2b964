"""Local Spark session for notebooks, tests and first steps.

PySpark's errors about a wrong environment are unclear: without Java it reports JAVA_GATEWAY_EXITED, and in a virtual
environment that is not activated it starts the ``python3`` of the PATH, which lacks this package, and reports
DATA_SOURCE_NOT_FOUND. This module checks for PySpark and Java and sets the interpreter. On a cluster it is not needed;
``SETTINGS`` says which of its settings are good there, too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rocketpy.errors import StartError
from rocketpy.spark.failures import explain_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_VERSION_MIN = 17
JAVA_ANSWER_S = 120.0

SETTINGS: Mapping[str, str] = {
    # With it Spark passes filters to the reader, but keeps one reader for every use of a DataFrame in a query: the
    # filters of one branch of a join or union then count for the others, and rows are lost (PySpark 4.3).
    "spark.sql.python.filterPushdown.enabled": "false",
    # toPandas() and createDataFrame(pandas) pass columns, not pickled rows.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Times of messages are points in time: shown alike on every machine.
    "spark.sql.session.timeZone": "UTC",
}
"""Settings of SQL that suit messages, on a cluster as well."""

_LOCAL_SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",  # the default of 200 is for clusters; here it is 200 small tasks
}
_PACKAGES = (
    "Debian, Ubuntu: apt-get install openjdk-17-jre-headless; Fedora: dnf install java-latest-openjdk-headless; "
    "macOS: brew install openjdk@17"
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_MEMORY = re.compile(r"[1-9][0-9]*[kmgt]", re.IGNORECASE)


def open_local_session(
    app_name: str = "rocketpy",
    *,
    cores: int | None = None,
    memory: str | None = None,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start (or return the running) local session: loopback only, no web UI, times in UTC, this very Python.

    ``cores`` is how many tasks run at a time, by default one for each core. ``memory``, as ``"2g"``, is for Java; a
    task's Python has its own. ``master`` says more than ``cores`` can, such as ``"local[2,4]"``: four attempts of each
    task, where a local session has one. ``settings`` are Spark's, and win over those of this module.

    The caller stops it. :class:`StartError` when PySpark is missing, there is no Java that Spark can use, Java does not
    start, or a session runs already that has other cores or memory.
    """
    master = _master(cores, master)
    if memory is not None and not _MEMORY.fullmatch(memory):
        raise StartError(f"memory of a Spark session: expected a size such as 2g or 512m, found {memory!r}")
    session_class = _session_class()
    check_java()
    wanted = {} if memory is None else {"spark.driver.memory": memory}
    _check_running(session_class, {**wanted, **({} if master is None else {"spark.master": master})})
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = session_class.builder.master(master or "local[*]").appName(app_name)
    for key, value in {**_LOCAL_SETTINGS, **SETTINGS, **wanted, **(settings or {})}.items():
        builder = builder.config(key, value)
    session = _started(builder)
    state_errors_in_ipython()
    return session


def check_java() -> int:
    """Return the major version of the Java that Spark will start; :class:`StartError` if it is missing or too old."""
    wanted = f"Spark needs a Java runtime of version {JAVA_VERSION_MIN} or later ({_PACKAGES})"
    java = _java_command()
    if java is None:
        raise StartError(f"{wanted}, found none on the PATH or in JAVA_HOME")
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=JAVA_ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StartError(f"{wanted}, but {java} does not run: {error}") from error
    return check_java_version(done.stderr + done.stdout, f"{wanted}, found {java}")


def check_java_version(text: str, complaint: str) -> int:
    """Return the major version in what ``java -version`` printed, which is 8 for ``1.8.0``."""
    match = _VERSION.search(text)
    major = int(match.group(1)) if match else 0
    if major < JAVA_VERSION_MIN:
        raise StartError(f"{complaint}: {text.strip().partition(chr(10))[0] or 'it printed no version'}")
    return major


def _java_command() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        return shutil.which(os.path.join(home, "bin", "java"))
    return shutil.which("java")


def _session_class() -> type[SparkSession]:
    try:
        import pyarrow  # noqa: F401 (readers and writers need it, and would only say so in a task)
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise StartError(
            f"Spark is not installed here: pip install 'DIR[spark]', where DIR is a checkout of rocketpy ({error})"
        ) from error
    return SparkSession


def _master(cores: int | None, master: str | None) -> str | None:
    if cores is None:
        return master
    if master is not None:
        raise StartError(f"a Spark session is given cores or master, found cores {cores} and master {master}")
    if cores < 1:
        raise StartError(f"cores of a Spark session: expected 1 or more, found {cores}")
    return f"local[{cores}]"


def _check_running(session_class: type[SparkSession], wanted: Mapping[str, str]) -> None:
    """Refuse what a session that runs already cannot change: its Java has started."""
    running = session_class.getActiveSession()
    if running is None:
        return
    has = running.sparkContext.getConf()
    for key, value in wanted.items():
        if (found := has.get(key)) != value:
            raise StartError(
                f"a Spark session runs already with {key} {found or 'as by default'}, wanted {value}: stop it first"
            )


def _started(builder: Any) -> SparkSession:
    from pyspark.errors import PySparkRuntimeError

    try:
        session: SparkSession = builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise StartError(
            "Spark's Java process ended while it started; it has printed why. Is the memory right, is the disk full?"
        ) from error
    return session


def state_errors_in_ipython() -> None:
    """In a notebook, print the sentence of an error of Spark's before its traceback, unless the user has a handler."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or shell.custom_exceptions:
        return
    from pyspark.errors import PySparkException

    def show(shell: Any, kind: type[BaseException], error: BaseException, trace: object, tb_offset: Any = None) -> None:
        print(explain_error(error), file=sys.stderr)
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)

    shell.set_custom_exc((PySparkException,), show)
