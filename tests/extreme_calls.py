"""Calls of the public functions of compiled modules, by the sources and by compiled modules, with what came of each.

    python -m tests.extreme_calls plan PLAN EXAMPLES SEED MODULE ...      write the calls; run it on the sources
    python -m tests.extreme_calls make PLAN OUTCOMES FIRST                make them, from one on
    python -m tests.extreme_calls build                                   print which build runs

Functions are found in the modules, and arguments by annotations (:mod:`tests.extreme_values`): a function that is added
is called by itself. A call that compiled code may end the program with is one that ends this program: the number of
lines of ``OUTCOMES`` then is that of the call.
"""

from __future__ import annotations

import importlib
import inspect
import json
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, Final
from zlib import crc32

from librt.strings import BytesWriter

from rocketpy import BUILD
from tests import extreme_values
from tests.extreme_values import Callback, Maker, NotMadeError, is_protocol, words

CALL_SECONDS_MAX: Final = 2.0
"""Processor time of one call; the system ends a program whose call takes more."""
MEMORY_MAX: Final = 2 << 30
_CALLS_MAX: Final = 4
"""Calls of methods in the life of an object."""
_SHOWN_MAX: Final = 200
_ITEMS_MAX: Final = 200


def plan(modules: Sequence[str], examples: int, seed: int) -> dict[str, Any]:
    """Return calls of the public functions and methods of modules, and what cannot be called, with the reason."""
    classes: dict[str, str] = {}
    calls: list[dict[str, object]] = []
    not_made: dict[str, str] = {}
    for name in modules:
        for member, value in vars(importlib.import_module(name)).items():
            if member.startswith("_") or getattr(value, "__module__", None) != name or _is_value(value):
                continue
            label = f"{name.removeprefix('rocketpy.')}.{member}"
            maker = Maker(Random(crc32(label.encode()) ^ seed), classes)
            try:
                if inspect.isclass(value):
                    maker.made(value)
                    lives = _lives_of_class(maker, value, examples, label, not_made)
                else:
                    classes[member] = name
                    lives = _lives_of_function(maker, value, examples)
                calls += [{"label": label, "lines": lines, "is_odd": is_odd} for lines, is_odd in lives]
            except NotMadeError as why:
                not_made[label] = str(why)
    return {"classes": classes, "calls": calls, "not_made": not_made}


def _is_value(value: object) -> bool:
    if inspect.isclass(value):
        return issubclass(value, Exception) or is_protocol(value)
    return not inspect.isfunction(value) or inspect.iscoroutinefunction(value)


def _lives_of_function(
    maker: Maker, function: Callable[..., object], examples: int
) -> Iterator[tuple[list[str], bool]]:
    own = vars(sys.modules[function.__module__])
    for arguments in maker.every_extreme(function, own):
        yield [_line(function, arguments)], maker.took_odd()
    for _ in range(examples):
        arguments = maker.arguments(function, own)
        yield [_line(function, arguments)], maker.took_odd()


def _lives_of_class(
    maker: Maker, owner: type, examples: int, label: str, not_made: dict[str, str]
) -> Iterator[tuple[list[str], bool]]:
    methods: list[Callable[..., object]] = []
    for name, value in inspect.getmembers(owner, inspect.isfunction):
        if name.startswith("_") or inspect.iscoroutinefunction(value) or not value.__module__.startswith("rocketpy."):
            continue
        try:
            maker.arguments(value, _names(value))
            methods.append(value)
        except NotMadeError as why:
            not_made[f"{label}.{name}"] = str(why)
    constructor: Any = getattr(owner, "__init__")  # noqa: B009
    for arguments in maker.every_extreme(constructor, _names(constructor)) if inspect.isfunction(constructor) else ():
        yield [f"it = {owner.__name__}({', '.join(arguments)})"], maker.took_odd()
    for method in methods:
        for arguments in maker.every_extreme(method, _names(method)):
            yield [f"it = {maker.made(owner)}", f"it.{_line(method, arguments)}"], maker.took_odd()
    for _ in range(examples):
        lines = [f"it = {maker.made(owner)}"]
        for method in maker.some(methods, _CALLS_MAX):
            lines.append(f"it.{_line(method, maker.arguments(method, _names(method)))}")
        yield lines, maker.took_odd()


def _names(function: Callable[..., object]) -> Mapping[str, object]:
    return vars(sys.modules[function.__module__]) if function.__module__ in sys.modules else {}


def _line(function: Callable[..., object], arguments: Sequence[str]) -> str:
    return f"{function.__name__}({', '.join(arguments)})"


class Calls:
    """The names that calls use, and what came of them."""

    def __init__(self, classes: Mapping[str, str]) -> None:
        self._names: dict[str, object] = dict(vars(extreme_values))
        for name, module in classes.items():
            self._names[name] = getattr(_module(module), name)
        self._kept: list[object] = []
        for make in (BytesWriter, Callback, words):
            self._names[make.__name__] = self._keeping(make)

    def _keeping(self, make: Callable[..., object]) -> Callable[..., object]:
        def made(*arguments: object) -> object:
            self._kept.append(make(*arguments))
            return self._kept[-1]

        return made

    def outcome(self, lines: Sequence[str]) -> list[object]:
        """Return what came of each line: a value or the name of an error; and the state of what the lines have used."""
        self._kept.clear()
        own: dict[str, object] = {}
        outcomes: list[object] = []
        for line in lines:
            name, _, expression = line.rpartition("it = ")
            try:
                value = eval(expression, self._names, own)
                if name or line.startswith("it = "):
                    own["it"] = value
                    value = None
                outcomes.append(shown(value))
            except MemoryError:
                outcomes.append("raised MemoryError")
            except Exception as error:
                outcomes.append(f"raised {type(error).__name__}")
            if line.startswith("it = ") and not own:
                break
        return [*outcomes, *(shown(each) for each in (*own.values(), *self._kept))]


def _module(name: str) -> ModuleType:
    module = importlib.import_module(name)
    is_compiled = not str(module.__file__).endswith(".py")
    assert is_compiled == (name in BUILD.modules and not BUILD.why_pure), f"{name} is that of {module.__file__}"
    return module


def shown(value: object, depth: int = 4) -> object:
    """Return a value as JSON has it: the same for equal values of both builds."""
    if isinstance(value, str | bytes | bytearray):
        text = ascii(value)
        return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}... {len(value)} {crc32(text.encode()):08x}"
    if value is None or (isinstance(value, bool | int) and type(value) in (bool, int)):
        return value
    if isinstance(value, float):
        return repr(value)
    if depth == 0:
        return type(value).__name__
    if isinstance(value, BytesWriter):
        return shown(value.getvalue())
    if isinstance(value, memoryview):
        return shown(value.tobytes())
    if isinstance(value, Callback):
        return [shown(each, depth - 1) for each in value.called[:_ITEMS_MAX]]
    if isinstance(value, Mapping):
        return [[shown(each, depth - 1) for each in pair] for pair in list(value.items())[:_ITEMS_MAX]]
    if isinstance(value, set | frozenset):
        return sorted(str(shown(each, depth - 1)) for each in value)
    if isinstance(value, list | tuple | Iterator):
        return [shown(each, depth - 1) for each, _ in zip(value, range(_ITEMS_MAX), strict=False)]
    if isinstance(value, type | ModuleType) or callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return {"class": type(value).__name__, **_state(value, depth - 1)}


def _state(value: object, depth: int) -> dict[str, object]:
    state: dict[str, object] = {}
    for name in dir(value):
        if name.startswith("_"):
            continue
        try:
            attribute = getattr(value, name)
        except AttributeError:  # compiled classes list attributes that have no value yet
            continue
        except Exception as error:
            state[name] = f"raised {type(error).__name__}"
            continue
        if not callable(attribute):
            state[name] = shown(attribute, depth)
    return state


def make(planned: Mapping[str, Any], outcomes: Path, first: int) -> None:
    """Make the calls from one on, and write what comes of each; with bounds on the time of each, and on memory."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    calls = Calls(planned["classes"])
    with outcomes.open("ab", buffering=0) as file:
        for call in planned["calls"][first:]:
            signal.setitimer(signal.ITIMER_PROF, CALL_SECONDS_MAX)  # its signal ends a program that does not ask for it
            outcome = calls.outcome(call["lines"])
            file.write(json.dumps(outcome).encode() + b"\n")


def main(arguments: Sequence[str]) -> None:
    """Do what the command line says."""
    match arguments:
        case ["plan", path, examples, seed, *modules]:
            Path(path).write_text(json.dumps(plan(modules, int(examples), int(seed))), encoding="utf-8")
        case ["build"]:
            print("compiled" if BUILD.has_kernels else "sources")
        case ["make", path, outcomes, first]:
            make(json.loads(Path(path).read_text(encoding="utf-8")), Path(outcomes), int(first))


if __name__ == "__main__":
    main(sys.argv[1:])
