"""Failures of the data source as Spark's users read them: one sentence first, the traceback after.

Spark puts the text of a worker's exception, a Python traceback, into its own exception, so that the sentence that
matters is the last of many lines. :func:`stated` turns that round: in a Spark worker it lets PySpark format the
exception without its traceback (``SPARK_HIDE_TRACEBACK``, for this process, which ends with the exception) and adds the
traceback as a note, which is printed after the message. :func:`explain_error` finds the sentence again, for programs.

Only errors that are meant for users are treated so: ours, and those of the operating system, which name their file. A
mistake of the code keeps its traceback as it is. Spark imports this with the data source: it must stay light.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from rocketpy.errors import RocketpyError

HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""Environment variable that ``pyspark.util.handle_worker_exception`` looks at when it formats an exception."""

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])
_SENTENCE = re.compile(
    r"^(?:\[[A-Z_.]+\][^:\n]*: )?(?:rocketpy\.[\w.]+|(?:[\w.]+\.)?[A-Z]\w*Error): (?P<sentence>.+)$", re.MULTILINE
)


def stated(method: _FunctionT) -> _FunctionT:
    """Wrap an entry point of the data source, also one that returns a generator, so that its errors state their reason.

    Spark iterates a generator after the call, so it is wrapped as well.
    """

    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        with _stating():
            result = method(*arguments, **named)
        return _generate(result) if inspect.isgenerator(result) else result

    return cast("_FunctionT", call)


def _generate(values: Iterator[Any]) -> Iterator[Any]:
    with _stating():
        yield from values


def explain_error(error: BaseException) -> str:
    """Return the sentence of an exception that Spark raised, or what it says where there is none of ours."""
    if isinstance(error, RocketpyError):
        return str(error)
    text = str(error)
    found = list(_SENTENCE.finditer(text))
    if found:  # ours is the first one where it was stated, and the last one of a traceback
        return found[-1 if text[: found[0].start()].count("Traceback (") else 0]["sentence"].strip()
    return text.strip().partition("\n")[0] or type(error).__name__


@contextmanager
def _stating() -> Iterator[None]:
    try:
        yield
    except (RocketpyError, OSError) as error:
        if is_in_worker() and HIDE_TRACEBACK not in os.environ:
            os.environ[HIDE_TRACEBACK] = "1"
            error.add_note("".join(traceback.format_exception(error)).rstrip())
        raise


def is_in_worker() -> bool:
    """Return whether this process is one of Spark's Python workers, not a program of the user's."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
