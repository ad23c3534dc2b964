"""A pytest plugin that leaves out test files whose imports lead to no compiled module: ``-p tests.compiled_reach``.

What such a file tests is the same code in both builds, so one of them is enough. Beside its own imports count those of
the conftests above it, if one of its tests takes a fixture of theirs. A file that starts programs stays: what they
import is not seen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import hatch_build
from tests.imports import imported, module_files, module_name

ROOT = Path(__file__).resolve().parent.parent
COMPILED = frozenset(module_name(Path(source)) for source in hatch_build.ALL)
STARTS_PROGRAMS = ("subprocess", "multiprocessing")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Ignore a test file that does not reach compiled code; leave the others to pytest."""
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    if is_test and not reaches_compiled(collection_path):
        return True
    return None


def reaches_compiled(path: Path) -> bool:
    """Whether the tests in a file can run code that is compiled, directly or through what they import."""
    tree = _tree(path)
    if any(name in STARTS_PROGRAMS for name in imported(tree, STARTS_PROGRAMS)):
        return True
    asked = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    asked |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    reached = set(_imports(path))
    reached.update(*(_imports(conftest) for conftest in _conftests(path) if asked & _functions(conftest)))
    waiting = list(reached)
    while waiting:
        new = set(_imports(_files()[waiting.pop()])) - reached
        reached |= new
        waiting += new
    return not reached.isdisjoint(COMPILED)


def _conftests(path: Path) -> Iterator[Path]:
    """Yield the conftests that a test file can take fixtures from, and the fixtures of our own plugin."""
    yield from (file for folder in path.parents if (file := folder / "conftest.py").is_file())
    yield ROOT / "rocketpy/testing/pytest_plugin.py"


def _functions(path: Path) -> set[str]:
    return {node.name for node in ast.walk(_tree(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@cache
def _files() -> dict[str, Path]:
    return module_files(ROOT, ("rocketpy", "tests", "property_tests"))


@cache
def _imports(path: Path) -> frozenset[str]:
    return frozenset(imported(_tree(path), _files()))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
