"""Failures of the data source: the sentence first in a worker, found again by programs."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from rocketpy.errors import SettingsError
from rocketpy.spark.failures import HIDE_TRACEBACK, explain_error, is_in_worker, stated


@stated
def fail(error: Exception) -> None:
    raise error


@stated
def generate(error: Exception) -> Iterator[int]:
    yield 1
    raise error


@stated
def hand_over(error: Exception) -> Iterator[int]:
    return (_raise(error) for _ in range(2))


def _raise(error: Exception) -> int:
    raise error


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process look like one of Spark's workers."""
    main = ModuleType("__main__")
    main.__spec__ = ModuleSpec("pyspark.daemon", None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setenv(HIDE_TRACEBACK, "")
    monkeypatch.delenv(HIDE_TRACEBACK)
    assert is_in_worker()


@pytest.mark.parametrize("call", [fail, lambda error: list(generate(error)), lambda error: list(hand_over(error))])
def test_in_a_worker_the_sentence_comes_before_the_traceback(worker: None, call: object) -> None:
    with pytest.raises(SettingsError) as caught:
        call(SettingsError("option x: expected a number"))  # type: ignore[operator]
    assert os.environ[HIDE_TRACEBACK] == "1"
    text = "".join(traceback.format_exception_only(caught.value))  # as PySpark does when that is set
    assert text.startswith(
        "rocketpy.errors.SettingsError: option x: expected a number\nTraceback (most recent call last)"
    )
    assert "in fail" in text or "in generate" in text or "in _raise" in text


def test_a_mistake_of_the_code_keeps_its_traceback(worker: None) -> None:
    with pytest.raises(AssertionError):
        fail(AssertionError("a mistake"))
    assert HIDE_TRACEBACK not in os.environ


def test_a_program_of_the_users_is_no_worker() -> None:
    assert not is_in_worker()
    with pytest.raises(SettingsError) as caught:
        fail(SettingsError("x"))
    assert not hasattr(caught.value, "__notes__")
    assert HIDE_TRACEBACK not in os.environ


TRACEBACK = (
    'Traceback (most recent call last):\n  File "x.py", line 1, in x\nOSError: no disk\n\n'
    "During handling of the above exception, another exception occurred:\n\n"
    'Traceback (most recent call last):\n  File "y.py", line 2, in y\nrocketpy.errors.StoreError: it is damaged\n'
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: rocketpy.errors.SettingsError: "
            f"expected a number\n{TRACEBACK} SQLSTATE: 38000",
            "expected a number",
        ),
        (f"[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: {TRACEBACK}", "it is damaged"),
        (
            "An exception was thrown from the Python worker:\nrocketpy.spark.sink.failures.SinkError: row 7\nTraceback",
            "row 7",
        ),
        ("[TABLE_NOT_FOUND] no table\n== SQL ==", "[TABLE_NOT_FOUND] no table"),
        ("", "RuntimeError"),
    ],
)
def test_the_sentence_is_found_in_what_spark_says(text: str, sentence: str) -> None:
    assert explain_error(RuntimeError(text)) == sentence


def test_our_own_error_explains_itself() -> None:
    assert explain_error(SettingsError("option x")) == "option x"
