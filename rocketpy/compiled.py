"""Which build this is: modules compiled to C where a message passes, or plain Python; both are the same program.

A wheel for a platform holds compiled modules beside their sources, and a list of them, ``compiled.txt``: the suffix of
extension modules that they were made for, then for each its name and the CRC-32 of the source that it was made of. In a
checkout the list is as old as the last compilation. Compiled modules are used together or not at all, and only if the
list fits this interpreter and these sources: a module that is older than its source would be another program.

The environment decides as well: ``ROCKETPY_PURE=1`` runs the sources, and ``ROCKETPY_PURE=0`` asks for compiled
modules, so that a program that finds none says so and ends.

This runs before any other module of the package is imported, and imports nothing of it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Final, NamedTuple
from zlib import crc32

COMPILED_LIST: Final = "compiled.txt"
KERNELS: Final = "rocketpy.protocol.kernels."
VARIABLE: Final = "ROCKETPY_PURE"


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


def find_build(package: str, environment: Mapping[str, str], suffixes: Sequence[str] = EXTENSION_SUFFIXES) -> Build:
    """Return the build of the package in a directory, as an environment wants it."""
    wish = environment.get(VARIABLE, "")
    modules, why = _compiled_modules(package, suffixes)
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


def _compiled_modules(package: str, suffixes: Sequence[str]) -> tuple[frozenset[str], str]:
    """Return the names in the list, and why they may not be used."""
    try:
        with open(f"{package}/{COMPILED_LIST}", encoding="ascii") as file:
            suffix, *lines = file.read().splitlines()
        entries = {name: int(crc, 16) for name, _, crc in (line.partition(" ") for line in lines)}
    except FileNotFoundError:
        return frozenset(), "no module is compiled"
    except (ValueError, OSError) as fault:
        return frozenset(), f"{COMPILED_LIST} cannot be read: {fault}"
    modules = frozenset(entries)
    if suffix not in suffixes:
        return modules, f"the modules are compiled for {suffix}, this Python takes {suffixes[0]}"
    for name, crc in entries.items():
        try:
            with open(source_path(package, name), "rb") as source:
                found = crc32(source.read())
        except OSError:
            found = None
        if found != crc:
            return modules, f"{name} was compiled from another source"
    return modules, ""


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
