"""Local Spark session for notebooks, tests and first steps.

PySpark's errors about a wrong environment are unclear: without Java it reports JAVA_GATEWAY_EXITED, and in a virtual
environment that is not activated it starts the ``python3`` of the PATH, which lacks this package, and reports
DATA_SOURCE_NOT_FOUND. This module checks for Java and sets the interpreter. On a cluster it is not needed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

from pyspark.sql import SparkSession

from rocketpy.errors import StartError

JAVA_VERSION_MIN = 17
JAVA_ANSWER_S = 120.0

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def open_local_session(app_name: str = "rocketpy", *, master: str = "local[*]") -> SparkSession:
    """Start (or return the running) local session: loopback only, no web UI, times in UTC, this very Python.

    The caller stops it. :class:`StartError` when there is no Java that Spark can use.
    """
    check_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName(app_name)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",  # the default of 200 is for clusters; here it is 200 small tasks
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def check_java() -> int:
    """Return the major version of the Java that Spark will start; :class:`StartError` if it is missing or too old."""
    wanted = f"Spark needs a Java runtime of version {JAVA_VERSION_MIN} or later (Debian: openjdk-17-jre-headless)"
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
