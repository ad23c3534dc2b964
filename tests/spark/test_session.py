"""The local session: what is said about a missing or old Java, or a session that runs already; errors in notebooks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rocketpy.errors import StartError
from rocketpy.spark.session import (
    SETTINGS,
    check_java,
    check_java_version,
    open_local_session,
    state_errors_in_ipython,
)

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx\nopenjdk version "21" 2023-09-19', 21),
    ],
)
def test_the_major_version_is_read(text: str, major: int) -> None:
    assert check_java_version(text, "") == major


@pytest.mark.parametrize("text", ['java version "1.8.0_402"', 'openjdk version "11.0.22"', "no such thing", ""])
def test_an_old_or_strange_java_is_refused_with_what_it_printed(text: str) -> None:
    with pytest.raises(StartError, match="needs 17") as caught:
        check_java_version(text, "needs 17")
    assert text in str(caught.value)


def test_no_java_at_all_names_the_version_wanted(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StartError, match=r"version 17 or later .*found none on the PATH"):
        check_java()


def test_a_java_home_without_java_is_not_replaced_by_another_java(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(StartError, match="JAVA_HOME"):
        check_java()


def test_a_missing_java_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StartError, match=r"apt-get install openjdk-17-jre-headless.*brew install openjdk@17"):
        open_local_session()


def test_a_missing_pyspark_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(StartError, match=r"pip install 'DIR\[spark\]', where DIR is a checkout"):
        open_local_session()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"memory": "much"}, "memory .*expected a size such as 2g or 512m, found 'much'"),
        ({"cores": 0}, "cores .*expected 1 or more, found 0"),
        ({"cores": 2, "master": "local[3]"}, r"cores or master, found cores 2 and master local\[3\]"),
    ],
)
def test_a_wrong_size_is_named_before_java_starts(options: dict[str, Any], words: str) -> None:
    with pytest.raises(StartError, match=words):
        open_local_session(**options)


@pytest.mark.spark
def test_a_session_that_runs_is_returned_unless_it_has_other_cores_or_memory(spark: SparkSession) -> None:
    assert open_local_session().sparkContext is spark.sparkContext
    with pytest.raises(
        StartError, match=r"runs already with spark.master local\[1\], wanted local\[7\]: stop it first"
    ):
        open_local_session(cores=7)
    with pytest.raises(StartError, match=r"runs already with spark.driver.memory as by default, wanted 77m"):
        open_local_session(memory="77m")


@pytest.mark.spark
def test_the_settings_are_known_to_spark_and_set(spark: SparkSession) -> None:
    """A name that Spark does not know would be taken and do nothing."""
    for name, value in SETTINGS.items():
        assert spark.conf.get(name) == value
        assert spark.conf.isModifiable(name), name


def test_in_a_notebook_the_sentence_is_printed_before_the_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[object] = []
    handlers: dict[tuple[type, ...], Any] = {}
    shell = SimpleNamespace(
        custom_exceptions=(),
        set_custom_exc=lambda kinds, handler: handlers.update({kinds: handler}),
        showtraceback=lambda failure, tb_offset: shown.append(failure[1]),
    )
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    state_errors_in_ipython()
    ((kinds, handler),) = handlers.items()
    error = PySparkException("[X] Failed: rocketpy.errors.SettingsError: option x\nTraceback (most recent call last)")
    handler(shell, type(error), error, None)
    assert (kinds, shown) == ((PySparkException,), [error])
    assert capsys.readouterr().err == "option x\n"


@pytest.mark.spark
def test_a_java_that_does_not_start_is_one_sentence() -> None:
    """In a process of its own, which has no Java yet: a heap of a kilobyte is too small for any."""
    code = "from rocketpy.spark.session import open_local_session; open_local_session(memory='1k')"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert done.stderr.splitlines()[-1].startswith("rocketpy.errors.StartError: Spark's Java process ended while it")
