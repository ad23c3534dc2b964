"""The header class that the processor of each request code reads, found in its source."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from rocketpy.protocol.codes import RequestCode

_REGISTERS = ("register", "register_task")
_PACKAGE = Path(__file__).parents[3] / "rocketpy" / "broker"


@cache
def headers_by_code() -> dict[int, tuple[type, ...]]:
    """Return the header classes that the method registered for each code reads, by itself or in methods it calls."""
    found: dict[int, tuple[type, ...]] = {}
    for path in sorted(_PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                methods = {
                    each.name: each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
                }
                for code, method in _registered(node, path):
                    names = sorted(set(_headers_read(methods, method, set())))
                    found[code] = tuple(_class_of(path, name) for name in names)
    return found


def _registered(node: ast.ClassDef, path: Path) -> Iterator[tuple[int, str]]:
    for call in ast.walk(node):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr in _REGISTERS
            and isinstance(call.func.value, ast.Name)
            and call.func.value.id == "dispatcher"
            and len(call.args) == 2
            and isinstance(call.args[1], ast.Attribute)
        ):
            yield _code_of(call.args[0], path), call.args[1].attr


def _code_of(node: ast.expr, path: Path) -> int:
    if isinstance(node, ast.Attribute):
        return int(RequestCode[node.attr])
    assert isinstance(node, ast.Name), ast.dump(node)
    return int(getattr(_module_of(path), node.id))


def _headers_read(
    methods: dict[str, ast.FunctionDef | ast.AsyncFunctionDef], name: str, seen: set[str]
) -> Iterator[str]:
    if name in seen or name not in methods:
        return
    seen.add(name)
    for call in ast.walk(methods[name]):
        if not isinstance(call, ast.Call):
            continue
        if isinstance(call.func, ast.Name) and call.func.id == "read_header":
            assert isinstance(call.args[1], ast.Name), ast.dump(call)
            yield call.args[1].id
        elif isinstance(call.func, ast.Attribute):
            yield from _headers_read(methods, call.func.attr, seen)


def _class_of(path: Path, name: str) -> type:
    found = getattr(_module_of(path), name)
    assert isinstance(found, type), found
    return found


def _module_of(path: Path) -> ModuleType:
    return importlib.import_module(".".join(("rocketpy.broker", *path.relative_to(_PACKAGE).with_suffix("").parts)))
