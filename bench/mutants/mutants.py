"""The mutants: single faults planted by hand, and which tests are about each of them.

A mutant that no test notices is a gap. Tests that kill none alone are candidates for removal. So the mutants run before
and after tests are made fewer: what was killed before must be killed after.
"""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(__file__).with_name("mutants.toml")

NARROW = ("mirror", "users", "machines")
"""The levels of tests that a mutant runs against: its module's file, those of its direct importers, state machines."""
WIDE = ("folder", "properties")
"""The levels for the survivors: the folder of its area, and all properties."""
CRASH = {
    "recovery": ("tests/store/recovery",),
    "whole": ("tests/store/whole",),
    "enumeration": ("property_tests/crash/test_enumeration.py",),
    "machine": ("property_tests/test_store_machine.py",),
    "kill9": ("tests/blackbox/test_kill9.py",),
    "java": ("tests/interop/test_java_recovery.py",),
}
"""Six levels of tests about one promise: a crash of a store."""
SETTING = {
    "config": (
        "tests/test_settings.py",
        "tests/store/test_config.py",
        "tests/broker/test_config.py",
        "tests/remoting/test_config.py",
    ),
    "named": (),  # the test that the page of compatibility names for the setting
    "page": ("tests/test_settings_page.py",),
    "compatibility": ("tests/test_compatibility_page.py",),
    "end-to-end": ("tests/broker/test_settings_end_to_end.py", "tests/broker/test_live_settings_end_to_end.py"),
}
"""The levels of tests about one setting."""
LEVELS = (*NARROW, *WIDE, *CRASH, *SETTING)


@attrs.frozen
class Mutant:
    """One fault: ``old`` is once in the file, ``new`` stands in its place."""

    name: str
    area: str
    file: str
    fault: str
    old: str
    new: str
    machines: tuple[str, ...] = attrs.field(converter=tuple)
    setting: str = ""

    @property
    def path(self) -> Path:
        """The file below the root of a checkout."""
        return Path("rocketpy", self.file)

    def changed(self, source: str) -> str | None:
        """Return the source with the fault; None where the old text is not there exactly once: it no longer applies."""
        return source.replace(self.old, self.new) if source.count(self.old) == 1 else None

    def tests(self, level: str) -> tuple[str, ...]:
        """Return the paths of a level, of those that are there."""
        if level == "mirror":
            found: tuple[str, ...] = (_mirror(self.file),)
        elif level == "users":
            found = tuple(_mirror(each) for each in importers()[_module(self.file)])
        elif level == "machines":
            found = self.machines
        elif level == "folder":
            found = (f"tests/{self.file.partition('/')[0]}",)
        elif level == "properties":
            found = ("property_tests",)
        elif level == "named":
            found = _named(self.setting)
        else:
            found = (CRASH | SETTING)[level]
        return tuple(path for path in found if path and (ROOT / path.partition("::")[0]).exists())


def load_mutants() -> dict[str, Mutant]:
    """Return the mutants by name."""
    return {name: Mutant(name, **values) for name, values in tomllib.loads(DATA.read_text()).items()}


@cache
def importers() -> dict[str, list[str]]:
    """Return for each module the files that import it, by their paths below the package."""
    package = ROOT / "rocketpy"
    found: dict[str, list[str]] = {_module(path.relative_to(package).as_posix()): [] for path in package.rglob("*.py")}
    for path in sorted(package.rglob("*.py")):
        named: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                named |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        for name in named & found.keys():
            found[name].append(path.relative_to(package).as_posix())
    return found


def _module(file: str) -> str:
    return f"rocketpy/{file}".removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _mirror(file: str) -> str:
    path = Path("tests", file)
    return (path.parent / f"test_{path.name.replace('__', '')}").as_posix()


def _named(setting: str) -> tuple[str, ...]:
    page = (ROOT / "docs" / "compatibility.md").read_text()
    settings_class, _, key = setting.partition(".")
    table = page.partition(f"\n### {settings_class}\n")[2].partition("\n### ")[0]
    row = re.search(rf"^\| `{re.escape(key)}` \| [\w ]+ \| [\w ]+ \| (\S+) \|", table, re.MULTILINE)
    return (row[1],) if row else ()
