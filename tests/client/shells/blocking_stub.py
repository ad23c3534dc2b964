"""Writes ``rocketpy/client/blocking.pyi`` from the client's sources: ``python -m tests.client.shells.blocking_stub``.

The shells for plain code are made when a program runs, so type checkers need their signatures spelled out. A class of
the client that needs a shell becomes a class of the same name (with an underscore if :mod:`rocketpy.client` does not
export it), its coroutines plain methods, and handlers to be awaited functions. Parameters of Trio's types are left out.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from rocketpy import client as client_package
from rocketpy.client import blocking
from rocketpy.client import client as client_module
from rocketpy.client.shells.members import Kind, has_waiting_members, kind_of

STUB = Path(blocking.__file__).with_suffix(".pyi")
HEAD = '"""Signatures of :mod:`rocketpy.client.blocking`; written by ``tests/client/shells/blocking_stub.py``."""\n'
DUNDERS = {
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__iter__": "__iter__",
    "__len__": "__len__",
}
GENERIC = {
    "AsyncIterator": "Iterator",
    "AsyncIterable": "Iterable",
    "AbstractAsyncContextManager": "AbstractContextManager",
}


def openers() -> list[str]:
    """Return the names of the functions that open clients."""
    return sorted(name for name in client_package.__all__ if name.startswith("open_"))


def stub_name(owner: type) -> str:
    """Return the name of a class in the stub."""
    return owner.__name__ if owner.__name__ in client_package.__all__ else f"_{owner.__name__}"


@cache
def tree_of(module: ModuleType) -> ast.Module:
    """Return the parsed source of a module."""
    return ast.parse(inspect.getsource(module))


def class_tree(owner: type) -> ast.ClassDef:
    """Return the parsed source of a class."""
    module = importlib.import_module(owner.__module__)
    for node in tree_of(module).body:
        if isinstance(node, ast.ClassDef) and node.name == owner.__name__:
            return node
    raise LookupError(f"{owner.__module__} has no class {owner.__name__}")


class Stub:
    """The stub while it is written: classes are added as annotations name them."""

    def __init__(self) -> None:
        self._imports: dict[str, set[str]] = {}
        self._classes: dict[str, str] = {}
        self._waiting: deque[type] = deque()
        self.found: set[type] = set()
        """The classes of the client that it has."""
        self.awaited: set[str] = set()
        """Methods, by module and name, that take a function to be awaited."""

    def text(self) -> str:
        """Return the whole stub."""
        functions = [self._opener(name) for name in openers()]
        while self._waiting:
            owner = self._waiting.popleft()
            self._classes[stub_name(owner)] = self._class(owner)
        self._imports.setdefault("typing", set()).add("Final")
        lines = [HEAD]
        lines += [
            f"from {module} import {', '.join(sorted(self._imports[module]))}" for module in sorted(self._imports)
        ]
        lines += ['\nTHREAD_NAME: Final = "rocketpy-client"\n', *functions]
        return "\n".join([*lines, *(self._classes[name] for name in sorted(self._classes, key=str.lower))]) + "\n"

    # ---- members --------------------------------------------------------------------------------------------------

    def _opener(self, name: str) -> str:
        (node,) = (
            each for each in tree_of(client_module).body if isinstance(each, ast.AsyncFunctionDef) and each.name == name
        )
        return self._function(node, client_module, Kind.OPEN)

    def _class(self, owner: type) -> str:
        module = importlib.import_module(owner.__module__)
        lines: dict[str, str] = {}
        for node in class_tree(owner).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if node.name == "__init__":
                    lines |= self._attributes(node, module)
                elif node.name in DUNDERS:
                    node = _renamed(node, DUNDERS[node.name])
                    lines[node.name] = self._function(node, module, Kind.PLAIN)
                elif not node.name.startswith("_"):
                    lines[node.name] = self._function(node, module, kind_of(owner, node.name))
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_":
                lines[node.target.id] = f"{node.target.id}: {self._annotation(node.annotation, module)}"
        body = "\n".join(f"    {line}" for line in lines.values()) or "    ..."
        return f"class {stub_name(owner)}:\n{body}\n"

    def _attributes(self, init: ast.FunctionDef | ast.AsyncFunctionDef, module: ModuleType) -> dict[str, str]:
        """Return the public attributes that a constructor sets."""
        parameters = {each.arg: each.annotation for each in [*init.args.args, *init.args.kwonlyargs]}
        found: dict[str, str] = {}
        for node in ast.walk(init):
            if isinstance(node, ast.AnnAssign):
                target, annotation = node.target, node.annotation
            elif isinstance(node, ast.Assign) and len(node.targets) == 1:
                target, annotation = node.targets[0], _annotation_of_value(node.value, parameters)
            else:
                continue
            if isinstance(target, ast.Attribute) and not target.attr.startswith("_"):
                found[target.attr] = f"{target.attr}: {self._annotation(annotation, module)}"
        return found

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, module: ModuleType, kind: Kind) -> str:
        arguments = node.args
        keyword_only = [
            (each, default)
            for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if not _is_trio(each.annotation)
        ]
        given = ast.arguments(
            posonlyargs=arguments.posonlyargs,
            args=[self._parameter(each, module) for each in arguments.args],
            vararg=arguments.vararg and self._parameter(arguments.vararg, module),
            kwonlyargs=[self._parameter(each, module) for each, _ in keyword_only],
            kw_defaults=[None if default is None else ast.Constant(...) for _, default in keyword_only],
            kwarg=arguments.kwarg and self._parameter(arguments.kwarg, module),
            defaults=[ast.Constant(...) for _ in arguments.defaults],
        )
        assert node.returns is not None, f"{node.name} in {module.__name__} has no annotation of its result"
        returns = self._annotation(node.returns, module)
        if kind is Kind.OPEN:
            self._imports.setdefault("contextlib", set()).add("AbstractContextManager")
            returns = f"AbstractContextManager[{returns.removeprefix('Iterator[')}"
        marks = [each.id for each in node.decorator_list if isinstance(each, ast.Name) and each.id == "property"]
        lines = [*(f"@{mark}" for mark in marks), f"def {node.name}({ast.unparse(given)}) -> {returns}: ..."]
        if any(self._is_awaited(each.annotation, module) for each in [*arguments.args, *arguments.kwonlyargs]):
            self.awaited.add(f"{module.__name__}.{node.name}")
        return "\n    ".join(lines)

    def _is_awaited(self, annotation: ast.expr | None, module: ModuleType) -> bool:
        names = [each.id for each in ast.walk(annotation or ast.Constant(None)) if isinstance(each, ast.Name)]
        return "Awaitable" in names or any(_alias_of_handler(each, module) for each in names)

    def _parameter(self, argument: ast.arg, module: ModuleType) -> ast.arg:
        annotation = argument.annotation and ast.Name(self._annotation(argument.annotation, module))
        return ast.arg(argument.arg, annotation)

    # ---- types ----------------------------------------------------------------------------------------------------

    def _annotation(self, annotation: ast.expr, module: ModuleType) -> str:
        return ast.unparse(_Types(self, module).visit(ast.parse(ast.unparse(annotation), mode="eval").body))

    def import_name(self, name: str, module: ModuleType) -> str:
        """Note that a name of a module is used; return its name in the stub."""
        origin = _origin(name, module)
        if origin is None:  # a builtin
            return name
        found = getattr(importlib.import_module(origin), name)
        if isinstance(found, type) and has_waiting_members(found):
            if found not in self.found:
                self.found.add(found)
                self._waiting.append(found)
            return stub_name(found)
        name = GENERIC.get(name, name)
        self._imports.setdefault(origin, set()).add(name)
        return name


class _Types(ast.NodeTransformer):
    """Makes an annotation one of plain code."""

    def __init__(self, stub: Stub, module: ModuleType) -> None:
        self._stub = stub
        self._module = module

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id == "Awaitable":
            return self.visit(node.slice)
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> Any:
        return self.visit(ast.parse(node.value, mode="eval").body) if isinstance(node.value, str) else node

    def visit_Name(self, node: ast.Name) -> Any:
        alias = _alias_of_handler(node.id, self._module)
        if alias is not None:
            value, module = alias
            return _Types(self._stub, module).visit(ast.parse(ast.unparse(value), mode="eval").body)
        return ast.Name(self._stub.import_name(node.id, self._module))


def _origin(name: str, module: ModuleType) -> str | None:
    """Return the module that a name of another one comes from; None for a builtin."""
    return _imports_of(module).get(name) or (module.__name__ if hasattr(module, name) else None)


@cache
def _imports_of(module: ModuleType) -> dict[str, str]:
    """Return where the names come from that a module imports, anywhere in it; the first of two imports counts."""
    found: dict[str, str] = {}
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.ImportFrom):
            assert node.module is not None
            for each in node.names:
                found.setdefault(each.asname or each.name, node.module)
    return found


def _alias_of_handler(name: str, module: ModuleType) -> tuple[ast.expr, ModuleType] | None:
    """Return what a name stands for, and where, if it is a function to be awaited."""
    origin = _origin(name, module)
    if origin is None or not origin.startswith("rocketpy."):
        return None
    defining = importlib.import_module(origin)
    for node in tree_of(defining).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return (node.value, defining) if "Awaitable" in ast.unparse(node.value) else None
    return None


def _annotation_of_value(value: ast.expr, parameters: dict[str, ast.expr | None]) -> ast.expr:
    """Return the type of what a constructor assigns: a parameter, a constant or a new object."""
    if isinstance(value, ast.Name) and (annotation := parameters.get(value.id)) is not None:
        return annotation
    if isinstance(value, ast.Constant) and value.value is not None:
        return ast.Name(type(value.value).__name__)
    if isinstance(value, ast.UnaryOp):
        return _annotation_of_value(value.operand, parameters)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func
    return ast.Name("object")  # of a private attribute; a public one is held to its value by the test of the stub


def _is_trio(annotation: ast.expr | None) -> bool:
    return annotation is not None and ast.unparse(annotation).startswith("trio.")


def _renamed(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> ast.FunctionDef:
    return ast.FunctionDef(name, node.args, node.body, [], node.returns)


@cache
def written() -> Stub:
    """Return the stub once it is written."""
    stub = Stub()
    stub.text()
    return stub


def classes() -> Iterator[type]:
    """Yield the classes of the client that the stub has, by their names there."""
    yield from sorted(written().found, key=lambda each: each.__name__)


def main() -> None:
    """Write the stub."""
    STUB.write_text(Stub().text())
    for command in (["check", "--fix", "--select", "I"], ["format"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, "-q", str(STUB)], check=True)


if __name__ == "__main__":
    main()
