"""Which build this is: modules compiled to C where a message passes, or plain Python; both are the same program.

A wheel for a platform holds compiled modules beside their sources, and a list of them, ``compiled.txt``::

    .cpython-311-x86_64-linux-gnu.so                                  the suffix of extension modules
    rocketpy.remoting.hub 0d4a1137                                    a module, and the CRC-32 of its source
    rocketpy/remoting/hub.cpython-311-x86_64-linux-gnu.so 15552       a file that compiling made, and its size in bytes

Where the compiler failed, the list is one line that says so. In a checkout it is as old as the last compilation.
Compiled modules are used together or not at all, and only if the list fits this interpreter, these sources and these
files: a module that is older than its source would be another program, and of a file that is missing Python would take
the source, beside compiled modules that call it otherwise.

The environment decides as well: ``ROCKETPY_PURE=1`` runs the sources, and ``ROCKETPY_PURE=0`` asks for compiled
modules, so that a program that finds none says so and ends.

This runs before any other module of the package is imported, and imports nothing of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Final, NamedTuple
from zlib import crc32

COMPILED_LIST: Final = "compiled.txt"
NOT_COMPILED: Final = "not compiled: "
"""How the list begins where compiling failed; the rest of the line says why."""
KERNELS: Final = "rocketpy.protocol.kernels."
RUNTIME: Final = ("librt.strings", "mypy_extensions")
"""What compiled modules import when they are loaded."""
VARIABLE: Final = "ROCKETPY_PURE"
_ANY_SIZE: Final = -1
"""The size of a file that the list does not have: it must be there all the same."""


class Build(NamedTuple):
    """What is compiled, and whether it is used."""

    modules: frozenset[str] = frozenset()
    why_pure: str = ""
    """Why the sources run; empty if the compiled modules do."""
    fault: str = ""
    """What is wrong with what the environment asks for; a program that finds this not empty says it and ends."""

    @property
    def has_kernels(self) -> bool:
        """Whether the kernels are compiled; as plain Python they are slower than the paths that they replace."""
        return not self.why_pure and any(name.startswith(KERNELS) for name in self.modules)

    def __str__(self) -> str:
        if self.why_pure:
            return f"plain Python ({self.why_pure})"
        only_kernels = all(name.startswith(KERNELS) for name in self.modules)
        return "compiled kernels" if only_kernels else f"{len(self.modules)} compiled modules"


def find_build(
    package: str,
    environment: Mapping[str, str],
    suffixes: Sequence[str] = EXTENSION_SUFFIXES,
    load: Callable[[str], object] = import_module,
) -> Build:
    """Return the build of the package in a directory, as an environment wants it.

    ``load`` imports what all compiled modules share, so that what the dynamic linker refuses is known here, where the
    sources can still run.
    """
    wish = environment.get(VARIABLE, "")
    modules, why = _compiled_modules(package, suffixes, (lambda name: None) if wish == "1" else load)
    fault = ""
    if wish == "1":
        why = f"{VARIABLE}=1"
    elif wish == "0":
        fault = f"{VARIABLE}=0 asks for compiled modules: {why}" if why else ""
    elif wish:
        fault = f"{VARIABLE}: expected 1 (run the sources), 0 (compiled modules only) or nothing, found {wish!r}"
    return Build(modules, why, fault)


def use(build: Build, package: str) -> None:
    """Let the modules of a package be imported as the build says; call it before the first import of one."""
    if build.why_pure and build.modules:
        sys.meta_path.insert(0, _Sources(build.modules, package))


def source_path(package: str, module: str) -> str:
    """Return where the source of a module is."""
    return f"{package}/{'/'.join(module.split('.')[1:])}.py"


def _compiled_modules(
    package: str, suffixes: Sequence[str], load: Callable[[str], object]
) -> tuple[frozenset[str], str]:
    """Return the names in the list, and why they may not be used."""
    try:
        with open(f"{package}/{COMPILED_LIST}", encoding="utf-8") as file:
            suffix, *lines = file.read().splitlines()
        if suffix.startswith(NOT_COMPILED):
            return frozenset(), suffix
        entries = dict(line.rsplit(" ", 1) for line in lines)
        files = {path: int(size) for path, size in entries.items() if path.endswith(suffix)}
        sources = {name: int(crc, 16) for name, crc in entries.items() if name not in files}
    except FileNotFoundError:
        return frozenset(), "no module is compiled"
    except (ValueError, OSError) as fault:
        return frozenset(), f"{COMPILED_LIST} cannot be read: {fault}"
    modules = frozenset(sources)
    for name in sources:
        files.setdefault(f"{name.replace('.', '/')}{suffix}", _ANY_SIZE)
    if suffix not in suffixes:
        return modules, f"the modules are compiled for {suffix}, this Python takes {suffixes[0]}"
    why = _changed_source(package, sources) or _changed_file(os.path.dirname(package), files)
    return modules, why or _why_not_loaded([path[: -len(suffix)] for path in files if "/" not in path], load)


def _changed_source(package: str, sources: Mapping[str, int]) -> str:
    for name, crc in sources.items():
        try:
            with open(source_path(package, name), "rb") as source:
                found = crc32(source.read())
        except OSError:
            found = None
        if found != crc:
            return f"{name} was compiled from another source"
    return ""


def _changed_file(directory: str, files: Mapping[str, int]) -> str:
    for path, size in files.items():
        try:
            found = os.stat(f"{directory}/{path}").st_size
        except OSError:
            return f"{path} is missing"
        if size not in (found, _ANY_SIZE):
            return f"{path} has {found} bytes instead of {size}"
    return ""


def _why_not_loaded(shared: Sequence[str], load: Callable[[str], object]) -> str:
    """Load the libraries that several compiled modules are in, and what they need; return why one is not."""
    for name in (*RUNTIME, *shared):
        try:
            load(name)
        except ImportError as fault:
            return f"the compiled modules cannot be loaded: {fault}"
    return ""


class _Sources:
    """Finds the sources of modules that lie compiled beside them."""

    def __init__(self, modules: frozenset[str], package: str) -> None:
        self._modules = modules
        self._package = package

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module's source; None for one that is not compiled."""
        return spec_from_file_location(name, source_path(self._package, name)) if name in self._modules else None
