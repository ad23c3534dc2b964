"""The worst that a peer can send, and how long a program's loop is held by it.

One thread serves everybody, so no request, of any size, may keep the loop for longer than :data:`SLICE_SECONDS_MAX` of
processor time at a stretch. :func:`longest_slice` measures that for whatever a test does to a program on the loop;
:func:`processor_seconds` for a plain function. Both count processor time and take the best of several attempts, so they
hold beside busy programs.

:func:`worst_json` has texts of any size that are expensive for a JSON reader, each in its own way.
"""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import trio

SLICE_SECONDS_MAX = 0.050

ATTEMPTS = 5
"""A processor that is shared runs the same code at half its speed now and then; what the code needs is the least."""


def processor_seconds(
    function: Callable[[], object], *, attempts: int = ATTEMPTS, enough: float = SLICE_SECONDS_MAX
) -> float:
    """Return the processor time of one call, the least of several; one below ``enough`` is not repeated."""
    least = float("inf")
    for _ in range(attempts):
        with _collected():
            begin = time.thread_time()
            function()
            least = min(least, time.thread_time() - begin)
        if least < enough:
            break
    return least


async def longest_slice(
    work: Callable[[], Awaitable[object]], *, attempts: int = ATTEMPTS, enough: float = SLICE_SECONDS_MAX
) -> float:
    """Return the longest time that another task held the loop between two checkpoints while ``work`` ran, in seconds.

    ``work`` runs in the calling task, whose own steps do not count: there a request is made and its answer awaited.
    The program under test runs in other tasks of the same loop (a server in a nursery; for one without sockets start
    the step that serves with ``nursery.start_soon``). ``work`` is repeated, at most ``attempts`` times and until the
    result is below ``enough``, and the least counts; so it must be possible several times.
    """
    least = float("inf")
    for _ in range(attempts):
        slices = _Slices(trio.lowlevel.current_task())
        with _collected():
            trio.lowlevel.add_instrument(slices)
            try:
                await work()
            finally:
                trio.lowlevel.remove_instrument(slices)
        least = min(least, slices.longest)
        if least < enough:
            break
    return least


class _Slices(trio.abc.Instrument):
    """Times each step of each task but one."""

    def __init__(self, excluded: trio.lowlevel.Task) -> None:
        self.longest = 0.0
        self._excluded = excluded
        self._begin: float | None = None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._begin = None if task is self._excluded else time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._begin is not None and task is not self._excluded:
            self.longest = max(self.longest, time.thread_time() - self._begin)
        self._begin = None


@contextmanager
def _collected() -> Iterator[None]:
    """Keep the collection of what other tests have left out of the measurement."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@functools.cache
def worst_json(size: int) -> dict[str, bytes]:
    """Return texts of at most ``size`` bytes by name; some are JSON, some only begin like it."""

    def filled(begin: str, piece: str | Callable[[int], str], end: str) -> bytes:
        room = size - len(begin) - len(end)
        if isinstance(piece, str):
            return (begin + piece * (room // len(piece)) + end).encode()
        parts: list[str] = []
        while True:
            part = piece(len(parts))
            room -= len(part)
            if room < 0:
                return (begin + "".join(parts) + end).encode()
            parts.append(part)

    half = max(size // 2, 10)
    beans = filled("{0:0", lambda number: f",{number + 1}:1", "")[:half].decode().rpartition(",")[0] + "}"
    references = filled("", lambda number: f',{{"$ref":"$.m.a{number}"}}:1', "")[:half].decode().rpartition(",{")[0]
    return {
        "references as keys": f'{{"m":{beans},"k":{{"x":1{references}}}}}'.encode(),
        "references as values": filled('{"a":[1],"b":[0', ',{"$ref":"$.a"}', "]}"),
        "references to nothing": filled('{"a":[1],"b":[0', ',{"$ref":"$"}', "]}"),
        "one long reference": filled('{"a":{"$ref":"$', ".a", '"}}'),
        "integer keys that hash alike": filled('{"a":1', lambda number: f",{(number + 1) * (2**61 - 1)}:1", "}"),
        "integer keys that begin alike": filled(
            '{"a":1', lambda number: f",{(number + 1) << 40 & (1 << 63) - 1}:1", "}"
        ),
        "objects as keys that hash alike": filled(
            '{"a":1', lambda number: f',{{"q":{(number + 1) * (2**61 - 1)}}}:1', "}"
        ),
        "arrays as keys": filled('{"a":1', lambda number: f",[{number}]:1", "}"),
        "keys within keys": filled("", "{", ""),
        "arrays within arrays": filled("", "[", ""),
        "objects within objects": filled("", '{"a":', ""),
        "many empty arrays": filled("[1", ",[]", "]"),
        "many empty objects": filled('{"a":1', lambda number: f',"{number:x}":{{}}', "}"),
        "many short members": filled('{"a":1', lambda number: f',"{number:x}":1', "}"),
        "many bare members": filled("{a:1", lambda number: f",a{number:x}:1", "}"),
        "one key again and again": filled('{"a":1', ',"a":1', "}"),
        "one bare key again and again": filled("{a:1", ",a:1", "}"),
        "escapes": filled('{"a":"', "\\u0001", '"}'),
        "escapes between single quotes": filled("{'a':'", "\\u0001", "'}"),
        "halves of surrogate pairs": filled('{"a":"', "\\ud83d", '"}'),
        "an escape at the very end": filled('{"a":"', "a", '\\ud83d"}'),
        "many digits": filled('{"a":', "9", "}"),
        "many digits of a fraction": filled('{"a":1.', "9", "}"),
        "many digits in a bare key": filled("{", "9", ":1}"),
        "commas": filled("{", ",", "}"),
        "spaces": filled("{", " ", "}"),
        "quotes": filled("{", '"', "}"),
        "no end of a text": filled("{a:'", "b", ""),
        "bytes that are no UTF-8": b'{"a":"' + b"\xff" * (size - 8) + b'"}',
    }
