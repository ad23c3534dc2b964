"""The worst that a peer can send, and how long a program's loop is held by it.

One thread serves all clients: no request, of any size, may keep the loop for longer than :data:`SLICE_SECONDS_MAX` of
processor time at a stretch. :func:`longest_slice` measures that for whatever a test does to a program on the loop;
:func:`processor_seconds` for a plain function. Both count processor time and take the best of several attempts, so they
hold beside busy programs; and what looks too long is compared with a piece of work that is always the same, so they
hold on a processor that runs at half its speed for minutes.

:data:`WORST_JSON` has texts of any size that are expensive for a reader of JSON, each in its own way.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import trio

SLICE_SECONDS_MAX = 0.050

ATTEMPTS = 5
"""A processor that is shared runs the same code at half its speed now and then; what the code needs is the least."""

REFERENCE_SECONDS = 0.016
"""What :func:`_reference_work` takes on the processor that the promise is about: a Xeon with 2.5 GHz, on its own."""


def at_full_speed(seconds: float) -> float:
    """Return what that which has just taken ``seconds`` would have taken at the speed of :data:`REFERENCE_SECONDS`."""
    begin = time.thread_time()
    _reference_work()
    return seconds * min(1.0, REFERENCE_SECONDS / (time.thread_time() - begin))


def _reference_work() -> int:
    """Do what a program in Python spends its time with: calls, small objects, a table."""
    table = {}
    for number in range(60_000):
        table[str(number)] = number * number
    return sum(table.values())


def processor_seconds(
    function: Callable[[], object], *, attempts: int = ATTEMPTS, enough: float = SLICE_SECONDS_MAX
) -> float:
    """Return the processor time of one call, the least of several; one below ``enough`` is not repeated."""
    least = float("inf")
    for _ in range(attempts):
        with without_collector():
            begin = time.thread_time()
            function()
            seconds = time.thread_time() - begin
            least = min(least, seconds if seconds < enough else at_full_speed(seconds))
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
        with counted_slices() as slices:
            await work()
            least = min(least, slices.longest if slices.longest < enough else at_full_speed(slices.longest))
        if least < enough:
            break
    return least


@contextmanager
def counted_slices() -> Iterator[Slices]:
    """Time the steps of other tasks while the block runs: for many measurements, with one collection before them."""
    slices = Slices(trio.lowlevel.current_task())
    with without_collector():
        trio.lowlevel.add_instrument(slices)
        try:
            yield slices
        finally:
            trio.lowlevel.remove_instrument(slices)


async def least_longest(slices: Slices, work: Callable[[], Awaitable[object]]) -> float:
    """As :func:`longest_slice`, within one block of :func:`counted_slices` for many of them."""
    least = float("inf")
    for _ in range(ATTEMPTS):
        slices.longest = 0.0
        await work()
        least = min(least, slices.longest if slices.longest < SLICE_SECONDS_MAX else at_full_speed(slices.longest))
        if least < SLICE_SECONDS_MAX:
            break
    return least


class Slices(trio.abc.Instrument):
    """Times each step of each task but one."""

    def __init__(self, excluded: trio.lowlevel.Task) -> None:
        self.longest = 0.0
        """Of the steps since the caller has set it to 0, in seconds."""
        self._excluded = excluded
        self._begin: float | None = None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._begin = None if task is self._excluded else time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._begin is not None and task is not self._excluded:
            self.longest = max(self.longest, time.thread_time() - self._begin)
        self._begin = None


@contextmanager
def without_collector() -> Iterator[None]:
    """Keep Python's collector out of the measurement, and the tracing of coverage."""
    trace = sys.gettrace()
    sys.settrace(None)  # with it, in the tier ci, everything takes three times as long
    gc.disable()  # its passes come when they come, and are the program's own matter
    try:
        yield
    finally:
        sys.settrace(trace)
        gc.enable()


def worst_json(name: str, size: int) -> bytes:
    """Return one of the texts of :data:`WORST_JSON`, of at most ``size`` bytes."""
    return WORST_JSON[name](size)


def _repeated(begin: str, piece: str, end: str) -> Callable[[int], bytes]:
    return lambda size: (begin + piece * ((size - len(begin) - len(end)) // len(piece)) + end).encode()


def _counted(begin: str, piece: Callable[[int], str], end: str) -> Callable[[int], bytes]:
    """A text of pieces that differ by their number."""

    def text(size: int) -> bytes:
        parts, number, room = [begin], 0, size - len(begin) - len(end)
        for step in (1000, 1):
            while len(part := "".join(map(piece, range(number, number + step)))) <= room:
                parts.append(part)
                number, room = number + step, room - len(part)
        return ("".join(parts) + end).encode()

    return text


def _references_as_keys(size: int) -> bytes:
    """Half of the text is a map, the other half refers to keys of it."""
    beans = _counted("{0:0", lambda number: f",{number + 1}:1", "}")(size // 2).decode()
    references = _counted("", lambda number: f',{{"$ref":"$.m.a{number}"}}:1', "")(size // 2 - 30).decode()
    return f'{{"m":{beans},"k":{{"x":1{references}}}}}'.encode()


WORST_JSON: dict[str, Callable[[int], bytes]] = {
    "references as keys": _references_as_keys,
    "references as values": _repeated('{"a":[1],"b":[0', ',{"$ref":"$.a"}', "]}"),
    "references to nothing": _repeated('{"a":[1],"b":[0', ',{"$ref":"$"}', "]}"),
    "one long reference": _repeated('{"a":{"$ref":"$', ".a", '"}}'),
    "integer keys that hash alike": _counted('{"a":1', lambda number: f",{(number + 1) * (2**61 - 1)}:1", "}"),
    "integer keys that begin alike": _counted('{"a":1', lambda number: f",{(number << 40) % 2**63}:1", "}"),
    "objects as keys that hash alike": _counted(
        '{"a":1', lambda number: f',{{"q":{(number + 1) * (2**61 - 1)}}}:1', "}"
    ),
    "arrays as keys": _counted('{"a":1', lambda number: f",[{number}]:1", "}"),
    "keys within keys": _repeated("", "{", ""),
    "arrays within arrays": _repeated("", "[", ""),
    "objects within objects": _repeated("", '{"a":', ""),
    "many empty arrays": _repeated("[1", ",[]", "]"),
    "many empty objects": _counted('{"a":1', lambda number: f',"{number:x}":{{}}', "}"),
    "many short members": _counted('{"a":1', lambda number: f',"{number:x}":1', "}"),
    "many bare members": _counted("{a:1", lambda number: f",a{number:x}:1", "}"),
    "one key again and again": _repeated('{"a":1', ',"a":1', "}"),
    "one bare key again and again": _repeated("{a:1", ",a:1", "}"),
    "escapes": _repeated('{"a":"', "\\u0001", '"}'),
    "escapes between single quotes": _repeated("{'a':'", "\\u0001", "'}"),
    "halves of surrogate pairs": _repeated('{"a":"', "\\ud83d", '"}'),
    "an escape at the very end": _repeated('{"a":"', "a", '\\ud83d"}'),
    "many digits": _repeated('{"a":', "9", "}"),
    "many digits of a fraction": _repeated('{"a":1.', "9", "}"),
    "many digits in a bare key": _repeated("{", "9", ":1}"),
    "commas": _repeated("{", ",", "}"),
    "spaces": _repeated("{", " ", "}"),
    "quotes": _repeated("{", '"', "}"),
    "no end of a text": _repeated("{a:'", "b", ""),
    "bytes that are no UTF-8": lambda size: b'{"a":"' + b"\xff" * (size - 8) + b'"}',
}
"""Texts that cost a reader of JSON much, each in its own way, by name; some only begin like JSON."""
